package harness.storm.rewrite;

/** A rewriting that cannot be done, with the one line that says why. */
public final class RewriteException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    RewriteException(String message) {
        super(message);
    }
}
