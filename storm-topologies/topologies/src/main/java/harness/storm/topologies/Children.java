package harness.storm.topologies;

import java.io.Serializable;

/**
 * How many children a multiplier gives a message: a rounded normal number, redrawn until it is within
 * the bounds, so that the distribution is truncated and no value is moved to a bound.
 *
 * <p>The number is {@code rint(mean + sd * normal(i))} of the tuple's {@link Draw} for {@code
 * CHILDREN}, with the first i of 0, 1, 2, ... that is within the bounds.
 *
 * @param min least number, at least 1, so that no message disappears
 * @param max greatest number
 * @param mean of the normal distribution, within the bounds
 * @param sd of the normal distribution; 0 gives the rounded mean
 */
record Children(int min, int max, double mean, double sd) implements Serializable {

    Children {
        Checks.that(min >= 1, "min has to be at least 1, not " + min);
        Checks.that(max >= min, "max has to be at least min, not " + max);
        Checks.that(mean >= min && mean <= max, "mean has to be within min and max, not " + mean);
        Checks.that(sd >= 0 && Double.isFinite(sd), "sd has to be 0 or more, not " + sd);
    }

    /** The name of a member's child of this number: no two members and numbers have one in common. */
    int name(int child, int number) {
        return child * (max + 1) + number;
    }

    /** The number of children of the message of this tuple. */
    int of(long seed, Message message) {
        Draw draw = Draw.of(seed, Draw.Purpose.CHILDREN, message);
        for (int i = 0; ; i++) {
            double drawn = Math.rint(mean + sd * draw.normal(i));
            if (drawn >= min && drawn <= max) {
                return (int) drawn;
            }
        }
    }
}
