package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ChildrenTest {
    private static final int N = 50_000;

    /**
     * Appendix E's (1, 20, 10, 1.0): the bounds are nine deviations away, so the mean is 10, and the
     * variance of a normal number rounded to whole ones is 1 + 1/12 (Sheppard's correction).
     */
    @Test
    void momentsOfAppendixE() {
        double[] moments = moments(new Children(1, 20, 10, 1));
        double variance = 1 + 1 / 12.0;
        assertEquals(10, moments[0], 4 * Math.sqrt(variance / N));
        assertEquals(variance, moments[1], 4 * variance * Math.sqrt(2.0 / N));
    }

    /**
     * With a deviation far above the bounds' distance, truncating leaves nearly equal shares (0.33, 0.34,
     * 0.33 for 1, 2, 3 at sd 5); moving values to the bounds would put 0.38 on each end.
     */
    @Test
    void truncatesAndDoesNotClamp() {
        Children children = new Children(1, 3, 2, 5);
        int[] counts = new int[4];
        for (int id = 0; id < N; id++) {
            counts[children.of(1, Fixtures.message(1, id))]++;
        }
        assertEquals(1 / 3.0, counts[1] / (double) N, 0.02);
        assertEquals(1 / 3.0, counts[2] / (double) N, 0.02);
        assertEquals(1 / 3.0, counts[3] / (double) N, 0.02);
    }

    @Test
    void withoutDeviationAlwaysTheMean() {
        Children children = new Children(1, 20, 10, 0);
        for (int id = 0; id < 100; id++) {
            assertEquals(10, children.of(1, Fixtures.message(1, id)));
        }
    }

    @Test
    void refusesImpossibleSettings() {
        assertThrows(IllegalArgumentException.class, () -> new Children(0, 20, 10, 1));
        assertThrows(IllegalArgumentException.class, () -> new Children(5, 4, 4.5, 1));
        assertThrows(IllegalArgumentException.class, () -> new Children(1, 20, 21, 1));
        assertThrows(IllegalArgumentException.class, () -> new Children(1, 20, 10, -1));
        assertThrows(IllegalArgumentException.class, () -> new Children(1, 20, 10, Double.NaN));
        // No whole number is near the mean: every draw without deviation would be refused.
        assertTrue(new Children(1, 2, 1.5, 0).of(1, Fixtures.message(1, 1)) == 2);
    }

    private static double[] moments(Children children) {
        double sum = 0;
        double sumSq = 0;
        for (int id = 0; id < N; id++) {
            int n = children.of(1, Fixtures.message(1, id));
            assertTrue(n >= children.min() && n <= children.max());
            sum += n;
            sumSq += (double) n * n;
        }
        double mean = sum / N;
        return new double[] {mean, sumSq / N - mean * mean};
    }
}
