package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/**
 * Passes a share of the tuples on and acks the others, which end here.
 *
 * <p>A tuple is kept when {@code uniform(i)} of its {@link Draw} for {@code KEPT} is below the share. The index i
 * is the hash code of this component's name without its sign, so that two filters draw apart. A message and a
 * child name the draw, so the settings allow no window before it.
 */
final class FilterBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;

    private final double keep;

    FilterBolt(Workload workload, ServiceTime service, double keep) {
        super(workload, service);
        this.keep = keep;
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        if (kept(message)) {
            String key = workload.key(message);
            String json = workload.output(message, component, task).toJson();
            Hop hop = new Hop(task, receivedNs, System.nanoTime());
            collector.emit(tuple, Tuples.values(key, json, Members.encode(Members.via(members, hop))));
        }
        collector.ack(tuple);
    }

    private boolean kept(Message message) {
        int index = component.hashCode() & Integer.MAX_VALUE;
        return Draw.of(workload.seed(), Draw.Purpose.KEPT, message).uniform(index) < keep;
    }
}
