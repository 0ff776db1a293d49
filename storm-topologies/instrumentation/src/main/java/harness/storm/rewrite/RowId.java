package harness.storm.rewrite;

import org.apache.storm.tuple.MessageId;
import org.apache.storm.tuple.Tuple;

/**
 * The message identifier of a row. It knows the delivery, and stays with the row where user code copies the tuple.
 *
 * <p>Its roots are the outer tuple's, so that a row looks anchored to whoever asks; Storm never gets it.
 */
final class RowId extends MessageId {
    private final Delivery delivery;
    private boolean answered;

    RowId(Delivery delivery) {
        super(delivery.outer().getMessageId().getAnchorsToIds());
        this.delivery = delivery;
    }

    /** The delivery that a tuple is a row of, or null. */
    static Delivery deliveryOf(Tuple tuple) {
        return tuple.getMessageId() instanceof RowId id ? id.delivery : null;
    }

    Delivery delivery() {
        return delivery;
    }

    /** The row is acked; returns whether to ack the delivery. A second answer counts for nothing. */
    boolean acked() {
        return first() && delivery.done();
    }

    /** The row is failed; returns whether to fail the delivery. */
    boolean failed() {
        return first() && delivery.failed();
    }

    private boolean first() {
        boolean first = !answered;
        answered = true;
        return first;
    }
}
