package harness.storm.rewrite;

/**
 * Something that is acked when all it waits for is done, or failed as soon as one part of it fails: answered once.
 *
 * <p>It decides and does not act: its owner acks or fails when a call returns true. Not safe for several threads.
 */
abstract class Pending {
    private int open;
    private boolean answered;

    /**
     * @param open parts that it waits for
     * @param answered whether somebody else answers it
     */
    Pending(int open, boolean answered) {
        this.open = open;
        this.answered = answered;
    }

    /** One more part to wait for. */
    final void expect() {
        open++;
    }

    /** One part is done; returns whether to ack now. */
    final boolean done() {
        if (--open < 0) {
            throw new IllegalStateException("more parts are done than were expected");
        }
        return open == 0 && answer();
    }

    /** One part has failed, or will never be done; returns whether to fail now. */
    final boolean failed() {
        return answer();
    }

    /** Whether it was acked or failed. */
    final boolean answered() {
        return answered;
    }

    private boolean answer() {
        boolean first = !answered;
        answered = true;
        return first;
    }
}
