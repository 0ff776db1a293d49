package harness.storm.rewrite;

import java.io.Serializable;

/**
 * How a bolt is helped.
 *
 * @param delta by how much of the way to all, or to none, a signal moves the helped share
 * @param highPct fill of a receive queue, in percent of its capacity, at which a task asks for help
 * @param lowPct fill below which it does so again when it comes to the other
 */
public record HelpSettings(double delta, double highPct, double lowPct) implements Serializable {

    /** @throws IllegalArgumentException if delta is not between 0 and 1, or low not below high */
    public HelpSettings {
        if (!(delta > 0 && delta < 1)) {
            throw new IllegalArgumentException("delta must be between 0 and 1, not " + delta);
        }
        if (!(lowPct >= 0 && lowPct < highPct && highPct <= 100)) {
            throw new IllegalArgumentException(
                "low_pct must be below high_pct, both between 0 and 100, not " + lowPct + " and " + highPct);
        }
    }
}
