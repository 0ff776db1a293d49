package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/**
 * Several outputs for each tuple (thesis 5.3.1), numbered 1 to n, each with its own key.
 *
 * <p>Every member that the tuple stands for becomes a child of that number ({@link Children#name}), so that
 * children of children have names of their own.
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
            int drawn = number;
            Message output = message.withChild(children.name(message.child(), drawn));
            String key = workload.key(output);
            String json = workload.output(output, component, task).toJson();
            Hop hop = new Hop(task, receivedNs, System.nanoTime());
            List<Member> outputMembers = members.stream().map(m -> m.withChild(children.name(m.child(), drawn)).via(hop)).toList();
            collector.emit(tuple, Tuples.values(key, json, Members.encode(outputMembers)));
        }
        collector.ack(tuple);
    }
}
