package harness.storm.instrument;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/**
 * The time from a spout's emit to the ack, by message id; and what became of all that was emitted with an id.
 *
 * <p>Storm acks and fails on the executor's thread, but a spout may emit from threads of its own: hence the lock, which
 * makes {@code tracked}, {@code acked}, {@code failed} and {@code pending} of one bucket belong together, so that
 * {@code pending before + tracked = acked + failed + pending} holds of every bucket of a spout that names its messages
 * itself. An id may be in flight more than once (some spouts give all messages the same): the first ack is then taken for
 * the first emit, which leaves the sum of the times right whichever was meant. A message leaves when it is acked or failed,
 * as it leaves Storm's own map.
 */
final class AckTimes {
    /** Ids listed in one bucket, and the length of one in characters; what is more is counted in {@code failed_ids_cut}. */
    static final int LISTED_IDS = 1000;
    static final int ID_LENGTH = 200;

    private final boolean ackers;
    private final Map<Object, Emits> inFlight = new HashMap<>();
    private final Moments emitToAck = new Moments();
    private final Histogram histogram = new Histogram();
    private long tracked;
    private long acked;
    private long failed;
    private long pending;
    private long idsCut;
    private List<String> failedIds = new ArrayList<>();

    /** @param ackers without ackers Storm acks within emit: then acks are counted and not timed */
    AckTimes(boolean ackers) {
        this.ackers = ackers;
    }

    /** Just before Storm gets the tuple, as the ack may come before emit returns. */
    synchronized void emitting(Object messageId) {
        if (!ackers || messageId == null) {
            return;
        }
        tracked++;
        pending++;
        long nowNs = System.nanoTime();
        Emits before = inFlight.putIfAbsent(messageId, new Emits(nowNs));
        if (before != null) {
            before.add(nowNs);
        }
    }

    synchronized void acked(Object messageId) {
        long ackedNs = System.nanoTime();
        acked++;
        Emits emits = messageId == null ? null : inFlight.get(messageId);
        if (emits != null) {
            long tookNs = ackedNs - remove(messageId, emits);
            emitToAck.add(tookNs);
            histogram.add(tookNs);
        }
    }

    synchronized void failed(Object messageId) {
        failed++;
        Emits emits = messageId == null ? null : inFlight.get(messageId);
        if (emits != null) {
            remove(messageId, emits);
        }
        String id = String.valueOf(messageId);
        if (failedIds.size() < LISTED_IDS && id.length() <= ID_LENGTH) {
            failedIds.add(id);
        } else {
            idsCut++;
        }
    }

    private long remove(Object messageId, Emits emits) {
        pending--;
        long emittedNs = emits.first;
        if (!emits.next()) {
            inFlight.remove(messageId);
        }
        return emittedNs;
    }

    synchronized void drainTo(Series series) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("acked", acked);
        fields.put("failed", failed);
        fields.put("tracked", tracked);
        fields.put("pending", pending);
        emitToAck.drainTo(fields, "count", "");
        if (failed > 0) {
            fields.put("failed_ids", JSONValue.toJSONString(failedIds));
            fields.put("failed_ids_cut", idsCut);
        }
        series.add("ack", fields).add("ack_hist", histogram.drain());
        acked = 0;
        failed = 0;
        tracked = 0;
        idsCut = 0;
        failedIds = new ArrayList<>();
    }

    /** When the messages of one id were emitted that are in flight, the oldest first. */
    private static final class Emits {
        private long first;
        private ArrayDeque<Long> rest;

        Emits(long atNs) {
            first = atNs;
        }

        void add(long atNs) {
            if (rest == null) {
                rest = new ArrayDeque<>();
            }
            rest.add(atNs);
        }

        /** Forgets the first; false if it was the last. */
        boolean next() {
            if (rest == null || rest.isEmpty()) {
                return false;
            }
            first = rest.remove();
            return true;
        }
    }
}
