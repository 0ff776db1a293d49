package harness.storm.rewrite;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.tuple.MessageId;
import org.apache.storm.tuple.Tuple;

/**
 * The message identifier of a row. It knows the deliveries that wait for the row, and stays with it where user code copies
 * the tuple.
 *
 * <p>Its roots are the outer tuples', so that a row looks anchored to whoever asks; Storm never gets it.
 */
final class RowId extends MessageId {
    private final List<Delivery> deliveries;
    private boolean answered;

    RowId(List<Delivery> deliveries) {
        super(roots(deliveries));
        this.deliveries = deliveries;
    }

    private static Map<Long, Long> roots(List<Delivery> deliveries) {
        if (deliveries.size() == 1) {
            return deliveries.get(0).outer().getMessageId().getAnchorsToIds();
        }
        Map<Long, Long> roots = new HashMap<>();
        deliveries.forEach(delivery -> roots.putAll(delivery.outer().getMessageId().getAnchorsToIds()));
        return roots;
    }

    /** The deliveries that wait for a tuple; one of its own for a tuple that is no row, none where nobody waits. */
    static List<Delivery> behind(Tuple tuple) {
        if (tuple.getMessageId() instanceof RowId id) {
            return id.deliveries;
        }
        return Delivery.isTracked(tuple) ? List.of(Delivery.anchor(tuple)) : List.of();
    }

    List<Delivery> deliveries() {
        return deliveries;
    }

    /** The row is acked or failed; returns whether it is the first time: a second answer counts for nothing. */
    boolean answer() {
        boolean first = !answered;
        answered = true;
        return first;
    }
}
