package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/**
 * Several outputs for each tuple (thesis 5.3.1), numbered 1 to n, each with its own key.
 *
 * <p>A message and one number name a child, so the settings allow no multiplier or window before it.
 */
final class MultiplierBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;

    private final Children children;

    MultiplierBolt(Workload workload, ServiceTime service, Children children) {
        super(workload, service);
        this.children = children;
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        int count = children.of(workload.seed(), message);
        for (int number = 1; number <= count; number++) {
            int child = number;
            Message output = message.withChild(child);
            String key = workload.key(output);
            String json = output.via(component, task).toJson();
            Hop hop = new Hop(task, receivedNs, System.nanoTime());
            List<Member> outputMembers = members.stream().map(m -> m.withChild(child).via(hop)).toList();
            collector.emit(tuple, Tuples.values(key, json, Members.encode(outputMembers)));
        }
        collector.ack(tuple);
    }
}
