package harness.storm.instrument;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Counts of durations in bins of a log scale, 16 to an octave. Not safe for several threads.
 *
 * <p>Below 32 ns every whole number has its bin. Above, the octave from 2^k to 2^(k+1) is cut into 16 bins of the equal
 * width w = 2^(k-4), so a bin's upper bound is at most 1/16 above its lower bound. A bin is named by its upper bound u,
 * which does not belong to it: it counts the durations d with u - w &lt;= d &lt; u, where w is 1 for u &lt;= 32 and
 * 2^(floor(log2(u - 1)) - 4) above.
 */
final class Histogram {
    private static final int PER_OCTAVE_LOG2 = 4;
    private static final int PER_OCTAVE = 1 << PER_OCTAVE_LOG2;

    private final int[] counts = new int[bin(Long.MAX_VALUE) + 1];

    /**
     * Counts one duration.
     *
     * @throws IllegalArgumentException if it is negative, which no clock used here can give
     */
    void add(long ns) {
        counts[bin(ns)]++;
    }

    /** The bins that are not empty, upper bound to count, and starts again from zero. */
    Map<String, Object> drain() {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < counts.length; i++) {
            if (counts[i] != 0) {
                fields.put(Long.toUnsignedString(upper(i)), counts[i]);
                counts[i] = 0;
            }
        }
        return fields;
    }

    static int bin(long ns) {
        if (ns < PER_OCTAVE) {
            if (ns < 0) {
                throw new IllegalArgumentException("negative duration: " + ns + " ns");
            }
            return (int) ns;
        }
        int shift = 63 - Long.numberOfLeadingZeros(ns) - PER_OCTAVE_LOG2;
        return (shift << PER_OCTAVE_LOG2) + (int) (ns >>> shift);
    }

    /** The first duration in ns above the bin; unsigned, as the last one is 2^63. */
    static long upper(int bin) {
        if (bin < PER_OCTAVE) {
            return bin + 1L;
        }
        int shift = (bin >>> PER_OCTAVE_LOG2) - 1;
        long step = (bin & (PER_OCTAVE - 1)) + PER_OCTAVE;
        return (step + 1) << shift;
    }
}
