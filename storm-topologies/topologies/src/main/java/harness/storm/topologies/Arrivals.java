package harness.storm.topologies;

import java.util.Collection;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.tuple.Tuple;

/**
 * What a windowed task knows of the tuples it holds: when each arrived, and which have not yet been
 * part of an output.
 *
 * <p>Storm's TupleWindow does not say when a tuple arrived, so it is noted here by the tuple's
 * identity. A time window fires in a thread of its own, and metrics are collected in the executor's:
 * all methods may be called from any thread.
 */
final class Arrivals {

    /**
     * A tuple as it arrived.
     *
     * @param source component that sent it
     * @param message without this component
     * @param members without this component
     * @param receivedNs nanoTime of its arrival
     */
    record Arrival(String source, Message message, List<Member> members, long receivedNs) {

        /** The members with this component's hop. */
        List<Member> membersVia(int task, long emittedNs) {
            return Members.via(members, new Hop(task, receivedNs, emittedNs));
        }
    }

    private static final Comparator<Member> BY_NAME =
            Comparator.comparingLong(Member::messageId).thenComparingInt(Member::child);

    private final Map<Tuple, Arrival> arrivals = new IdentityHashMap<>();
    private final Map<Tuple, Arrival> held = new IdentityHashMap<>();
    private long count;

    synchronized void add(Tuple tuple, Arrival arrival) {
        arrivals.put(tuple, arrival);
        held.put(tuple, arrival);
        count++;
    }

    /** The arrivals of these tuples, in their order. */
    synchronized List<Arrival> of(Collection<Tuple> tuples) {
        return tuples.stream().map(arrivals::get).toList();
    }

    /** Says that an output with these tuples has been emitted. */
    synchronized void release(Collection<Tuple> tuples) {
        tuples.forEach(held::remove);
    }

    /**
     * Forgets tuples that no later window has.
     *
     * @return how many of them were in no window at all; they stay among the held ones for good, since
     *     no output will ever list them
     */
    synchronized int expire(Collection<Tuple> tuples) {
        int missed = 0;
        for (Tuple tuple : tuples) {
            arrivals.remove(tuple);
            if (held.containsKey(tuple)) {
                missed++;
            }
        }
        return missed;
    }

    /** How many tuples have arrived so far. */
    synchronized long count() {
        return count;
    }

    /** The members of the tuples that no output has listed yet, by message and child. */
    synchronized List<Member> held() {
        return held.values().stream().flatMap(a -> a.members().stream()).sorted(BY_NAME).toList();
    }
}
