package harness.storm.submit;

/** A submission that cannot be made, with the one line that says why. */
final class SubmitException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The submission failed. */
    static final int FAILED = 1;
    /** The settings are wrong; nothing was tried. */
    static final int SETTINGS = 2;

    private final int status;

    SubmitException(int status, String message, Throwable cause) {
        super(message.strip().replaceAll("\\s*[\\r\\n]+\\s*", " "), cause);
        this.status = status;
    }

    static SubmitException failed(String message) {
        return new SubmitException(FAILED, message, null);
    }

    static SubmitException failed(String message, Throwable cause) {
        return new SubmitException(FAILED, message, cause);
    }

    static SubmitException settings(String message) {
        return new SubmitException(SETTINGS, message, null);
    }

    /** The same with what main said before, where it said anything. */
    SubmitException saying(String said) {
        return said.isEmpty() ? this : new SubmitException(status, getMessage() + "; it said: " + said, getCause());
    }

    /** The exit status it leads to. */
    int status() {
        return status;
    }
}
