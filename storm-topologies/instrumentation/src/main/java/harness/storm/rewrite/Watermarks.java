package harness.storm.rewrite;

import java.io.Serializable;

/**
 * Between which fills of a receive queue a task is under pressure: from the high one on, until it comes to the low one.
 *
 * @param highPct in percent of the queue's capacity
 * @param lowPct in percent of the queue's capacity
 */
public record Watermarks(double highPct, double lowPct) implements Serializable {

    /** @throws IllegalArgumentException if low is not below high, both between 0 and 100 */
    public Watermarks {
        if (!(lowPct >= 0 && lowPct < highPct && highPct <= 100)) {
            throw new IllegalArgumentException(
                "low_pct must be below high_pct, both between 0 and 100, not " + lowPct + " and " + highPct);
        }
    }
}
