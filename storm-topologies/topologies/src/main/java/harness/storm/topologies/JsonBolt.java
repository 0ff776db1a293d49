package harness.storm.topologies;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/**
 * One output for each tuple, with this component added to the path (thesis 5.3.1, bolts A and B).
 *
 * <p>Its key is drawn anew; or, with a share of forwarded tuples, it is the received one for those (whose {@code
 * uniform(0)} of the tuple's {@link Draw} for {@code FORWARDED} is below the share) and the first of all keys for
 * the others, as in the reference topology of Aniello et al. (DEBS 2013).
 */
class JsonBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;

    private final Double forwardedShare;

    JsonBolt(Workload workload, ServiceTime service, Double forwardedShare) {
        super(workload, service);
        this.forwardedShare = forwardedShare;
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        String key = key(tuple, message);
        sends(key);
        String json = workload.output(message, component, task).toJson();
        Hop hop = new Hop(task, receivedNs, System.nanoTime());
        collector.emit(tuple, Tuples.values(key, json, Members.encode(Members.via(members, hop))));
        collector.ack(tuple);
    }

    /** A tuple with this key is about to be sent. */
    void sends(String key) {
        // What becomes of it matters to bolts with key groups only.
    }

    private String key(Tuple tuple, Message message) {
        if (forwardedShare == null) {
            return workload.key(message);
        }
        double drawn = Draw.of(workload.seed(), Draw.Purpose.FORWARDED, message).uniform(0);
        return drawn < forwardedShare
                ? tuple.getStringByField(Tuples.KEY)
                : workload.keys().names().get(0);
    }
}
