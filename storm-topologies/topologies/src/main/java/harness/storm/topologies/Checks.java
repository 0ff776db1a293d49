package harness.storm.topologies;

import java.util.Collection;
import java.util.Objects;

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

    static void allPresent(String key, Collection<?> values) {
        present(key, values);
        that(values.stream().noneMatch(Objects::isNull), key + " must not have a null");
    }

    static void notBlank(String key, String value) {
        that(value != null && !value.isBlank(), key + " must not be empty");
    }
}
