package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/** One output for each tuple, with this component added to the path (thesis 5.3.1, bolts A and B). */
class JsonBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;

    private final OutputKey key;

    JsonBolt(Workload workload, ServiceTime service, OutputKey key) {
        super(workload, service);
        this.key = key;
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        String given;
        try {
            given = key.of(workload, tuple, message);
        } catch (MalformedMessageException e) {
            refuse(tuple, e);
            return;
        }
        sends(given);
        String json = workload.output(message, component, task).toJson();
        Hop hop = new Hop(task, receivedNs, System.nanoTime());
        collector.emit(tuple, Tuples.values(given, json, Members.encode(Members.via(members, hop))));
        collector.ack(tuple);
    }

    /** A tuple with this key is about to be sent. */
    void sends(String key) {
        // What becomes of it matters to bolts with key groups only.
    }
}
