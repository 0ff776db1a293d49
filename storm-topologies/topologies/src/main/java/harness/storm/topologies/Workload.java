package harness.storm.topologies;

import java.io.Serializable;

/**
 * What every component needs of the workload.
 *
 * @param seed of all draws
 * @param keys for fields grouping
 * @param payload of all that the component emits; null where it passes on what it gets
 */
record Workload(long seed, Keys keys, String payload) implements Serializable {

    Workload(long seed, Keys keys) {
        this(seed, keys, null);
    }

    /** The same for a component that emits payloads of so many bytes; null where it passes on what it gets. */
    Workload emitting(Integer outputBytes) {
        return new Workload(seed, keys, outputBytes == null ? null : "x".repeat(outputBytes));
    }

    /** The key of the tuple that this component emits for a message it received. */
    String key(Message message) {
        return keys.of(seed, message);
    }

    /** The message after this component, as it emits it. */
    Message output(Message message, String component, int task) {
        Message passed = message.via(component, task);
        return payload == null ? passed : passed.withPayload(payload);
    }
}
