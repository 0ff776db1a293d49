package harness.storm.rewrite;

import java.io.Serializable;

/**
 * How a bolt is helped.
 *
 * @param delta by how much of the way to all, or to none, a signal moves the helped share
 * @param marks fills of a receive queue: a task asks for help at the high one, and does so again once it was at the low one
 */
public record HelpSettings(double delta, Watermarks marks) implements Serializable {

    /** @throws IllegalArgumentException if delta is not between 0 and 1 */
    public HelpSettings {
        if (!(delta > 0 && delta < 1)) {
            throw new IllegalArgumentException("delta must be between 0 and 1, not " + delta);
        }
    }

    HelpSettings(double delta, double highPct, double lowPct) {
        this(delta, new Watermarks(highPct, lowPct));
    }
}
