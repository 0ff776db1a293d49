package harness.storm.rewrite;

import org.apache.storm.tuple.Tuple;

/**
 * A tuple as it came from Storm (outer), and what it waits for before it is acked: each of its rows (inner tuples, which user
 * code sees) to be acked, and each batch that something anchored to a row is in to leave.
 *
 * <p>Storm's acker takes a tuple for done when the ack has the identifiers of all tuples anchored to it. Rows wait in buffers
 * after user code has emitted them, so an ack must wait, too.
 */
final class Delivery extends Pending {
    private final Tuple outer;

    /** @param rows inner tuples to be answered */
    Delivery(Tuple outer, int rows) {
        this(outer, rows, false);
    }

    private Delivery(Tuple outer, int rows, boolean answered) {
        super(rows, answered);
        this.outer = outer;
    }

    /** A tuple that somebody else acks: only an anchor. */
    static Delivery anchor(Tuple outer) {
        return new Delivery(outer, 0, true);
    }

    Tuple outer() {
        return outer;
    }

    /** Whether anybody waits for an ack: Storm's anchors without roots anchor nothing. */
    boolean tracked() {
        return isTracked(outer);
    }

    static boolean isTracked(Tuple tuple) {
        return !tuple.getMessageId().getAnchorsToIds().isEmpty();
    }
}
