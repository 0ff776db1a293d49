package harness.storm.rewrite;

import java.io.Serializable;

/**
 * When batches of a stream leave.
 *
 * @param size tuples at which a batch is full; 1 sends every tuple as it is
 * @param flushMs how long the first tuple of a batch waits for others, in ms
 */
public record BatchSize(int size, int flushMs) implements Serializable {

    /** @throws IllegalArgumentException if one is not above 0 */
    public BatchSize {
        if (size < 1 || flushMs < 1) {
            throw new IllegalArgumentException("size and flush_ms must be above 0, not " + size + " and " + flushMs);
        }
    }
}
