package harness.storm.topologies;

import java.io.Serializable;

/**
 * What every component needs of the workload.
 *
 * @param seed of all draws
 * @param keys for fields grouping
 */
record Workload(long seed, Keys keys) implements Serializable {

    /** The key of the tuple that this component emits for a message it received. */
    String key(Message message) {
        return keys.of(seed, message);
    }
}
