package harness.storm.instrument;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/**
 * The time from a spout's emit to the ack, by message id.
 *
 * <p>Storm acks and fails on the executor's thread, so the sums need no lock; but a spout may emit from a thread of its
 * own, so the messages in flight are in a concurrent map. An id may be in flight more than once: the first ack is then
 * taken for the first emit, which leaves the sum of the times right whichever was meant. A message leaves the map when it is
 * acked or failed, as it leaves Storm's own.
 */
final class AckTimes {
    /** Ids listed in one bucket, and the length of one in characters; what is more is counted in {@code failed_ids_cut}. */
    static final int LISTED_IDS = 1000;
    static final int ID_LENGTH = 200;

    private final boolean tracked;
    private final Map<Object, Emit> inFlight = new ConcurrentHashMap<>();
    private final Moments emitToAck = new Moments();
    private final Histogram histogram = new Histogram();
    private long acked;
    private long failed;
    private long idsCut;
    private List<String> failedIds = new ArrayList<>();

    /** @param ackers without ackers Storm acks within emit: then acks are counted and not timed */
    AckTimes(boolean ackers) {
        tracked = ackers;
    }

    /** Just before Storm gets the tuple, as the ack may come before emit returns. */
    void emitting(Object messageId) {
        if (tracked && messageId != null) {
            Emit emit = new Emit(System.nanoTime(), null);
            if (inFlight.putIfAbsent(messageId, emit) != null) {
                inFlight.merge(messageId, emit, Emit::then);
            }
        }
    }

    void acked(Object messageId) {
        long ackedNs = System.nanoTime();
        acked++;
        Emit emit = remove(messageId);
        if (emit != null) {
            emitToAck.add(ackedNs - emit.atNs);
            histogram.add(ackedNs - emit.atNs);
        }
    }

    void failed(Object messageId) {
        failed++;
        remove(messageId);
        String id = String.valueOf(messageId);
        if (failedIds.size() < LISTED_IDS && id.length() <= ID_LENGTH) {
            failedIds.add(id);
        } else {
            idsCut++;
        }
    }

    private Emit remove(Object messageId) {
        if (!tracked || messageId == null) {
            return null;
        }
        Emit first = inFlight.remove(messageId);
        if (first != null && first.next != null) {
            // Put back the rest, before what another thread may have emitted since.
            inFlight.merge(messageId, first.next, (since, rest) -> Emit.then(rest, since));
        }
        return first;
    }

    void drainTo(Series series) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("acked", acked);
        fields.put("failed", failed);
        emitToAck.drainTo(fields, "count", "");
        if (failed > 0) {
            fields.put("failed_ids", JSONValue.toJSONString(failedIds));
            fields.put("failed_ids_cut", idsCut);
        }
        series.add("ack", fields).add("ack_hist", histogram.drain());
        acked = 0;
        failed = 0;
        idsCut = 0;
        failedIds = new ArrayList<>();
    }

    /** When a message was emitted; with later emits of the same id behind it. */
    private record Emit(long atNs, Emit next) {
        static Emit then(Emit first, Emit last) {
            return new Emit(first.atNs, first.next == null ? last : then(first.next, last));
        }
    }
}
