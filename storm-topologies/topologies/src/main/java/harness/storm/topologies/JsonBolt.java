package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/** One output for each tuple, with this component added to the path (thesis 5.3.1, bolts A and B). */
final class JsonBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;

    JsonBolt(Workload workload, ServiceTime service) {
        super(workload, service);
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        String key = workload.key(message);
        String json = workload.output(message, component, task).toJson();
        Hop hop = new Hop(task, receivedNs, System.nanoTime());
        collector.emit(tuple, Tuples.values(key, json, Members.encode(Members.via(members, hop))));
        collector.ack(tuple);
    }
}
