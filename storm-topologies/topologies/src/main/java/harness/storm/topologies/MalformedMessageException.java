package harness.storm.topologies;

/** A record or tuple that is not what the contract between the components says. */
final class MalformedMessageException extends Exception {
    private static final long serialVersionUID = 1L;

    MalformedMessageException(String message, Throwable cause) {
        super(message, cause);
    }
}
