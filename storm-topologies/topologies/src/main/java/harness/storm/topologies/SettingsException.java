package harness.storm.topologies;

/** Settings that cannot be used; the message is one line that names the key. */
final class SettingsException extends Exception {
    private static final long serialVersionUID = 1L;

    SettingsException(String message) {
        super(message);
    }
}
