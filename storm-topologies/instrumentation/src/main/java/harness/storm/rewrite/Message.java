package harness.storm.rewrite;

/** A message of a spout, by its identifier: acked when every batch that has a row of it is acked, failed with the first. */
final class Message extends Pending {
    private final Object id;

    /** @param batches rows that were made of it, each in a batch */
    Message(Object id, int batches) {
        super(batches, false);
        this.id = id;
    }

    Object id() {
        return id;
    }
}
