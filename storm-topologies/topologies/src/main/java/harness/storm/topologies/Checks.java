package harness.storm.topologies;

/** Conditions on settings; a broken one becomes a line that names the key. */
final class Checks {
    private Checks() {}

    static void that(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }

    static void present(String key, Object value) {
        that(value != null, key + " must not be null");
    }

    static void notBlank(String key, String value) {
        that(value != null && !value.isBlank(), key + " must not be empty");
    }
}
