package harness.storm.instrument;

import java.util.Map;

/**
 * Count, sum and sum of squares of durations in ns. Not safe for several threads.
 *
 * <p>The squares are a double: the square of a pause of 4 s would not fit into a long.
 */
final class Moments {
    private long count;
    private long sumNs;
    private double sumSqNs2;

    void add(long ns) {
        count++;
        sumNs += ns;
        sumSqNs2 += (double) ns * ns;
    }

    long count() {
        return count;
    }

    /** Puts {@code <prefix>sum_ns} and {@code <prefix>sumsq_ns2} and starts again from zero. */
    void drainTo(Map<String, Object> fields, String countName, String prefix) {
        fields.put(countName, count);
        fields.put(prefix + "sum_ns", sumNs);
        fields.put(prefix + "sumsq_ns2", sumSqNs2);
        count = 0;
        sumNs = 0;
        sumSqNs2 = 0;
    }
}
