package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.topologies.Draw.Purpose;
import org.junit.jupiter.api.Test;

class DrawTest {

    /** Computed from the definition in Draw's documentation by a program in another language. */
    @Test
    void bitsAreAsDocumented() {
        assertEquals(0x75bd1cb46e5ef9b8L, new Draw(0, Purpose.KEY, 0, 0, 0).bits(0));
        assertEquals(0x7505ad55b97e5846L, new Draw(1, Purpose.KEY, 42, 0, 0).bits(0));
        assertEquals(0x212826eff862cf97L, new Draw(1, Purpose.KEY, 42, 7, 2).bits(0));
        assertEquals(0x8d448483c265a369L, new Draw(-5, Purpose.SERVICE, 1L << 40, 3, 1).bits(1));
        assertEquals(0.45711787550816874, new Draw(1, Purpose.KEY, 42, 0, 0).uniform(0));
        assertEquals(0.6619811849560833, new Draw(1, Purpose.CHILDREN, 42, 0, 1).normal(0), 1e-15);
    }

    @Test
    void everythingThatNamesADrawChangesIt() {
        long bits = new Draw(1, Purpose.KEY, 42, 3, 2).bits(0);
        assertNotEquals(bits, new Draw(2, Purpose.KEY, 42, 3, 2).bits(0));
        assertNotEquals(bits, new Draw(1, Purpose.SERVICE, 42, 3, 2).bits(0));
        assertNotEquals(bits, new Draw(1, Purpose.KEY, 43, 3, 2).bits(0));
        assertNotEquals(bits, new Draw(1, Purpose.KEY, 42, 2, 3).bits(0));
        assertNotEquals(bits, new Draw(1, Purpose.KEY, 42, 3, 2).bits(1));
    }

    /** Mean 1/2 and variance 1/12 of U(0, 1), 0 and 1 of the normal; within four standard errors. */
    @Test
    void momentsOverMessages() {
        int n = 100_000;
        double sum = 0;
        double sumSq = 0;
        double normalSum = 0;
        double normalSumSq = 0;
        for (int i = 0; i < n; i++) {
            Draw draw = new Draw(11, Purpose.SERVICE, i, 0, 1);
            double u = draw.uniform(0);
            assertTrue(u >= 0 && u < 1);
            sum += u;
            sumSq += u * u;
            double z = draw.normal(0);
            normalSum += z;
            normalSumSq += z * z;
        }
        double root = Math.sqrt(n);
        assertEquals(0.5, sum / n, 4 * Math.sqrt(1 / 12.0) / root);
        assertEquals(1 / 3.0, sumSq / n, 4 * Math.sqrt(4 / 45.0) / root);
        assertEquals(0, normalSum / n, 4 / root);
        assertEquals(1, normalSumSq / n, 4 * Math.sqrt(2) / root);
    }

    @Test
    void belowStaysBelow() {
        for (int i = 0; i < 10_000; i++) {
            int drawn = new Draw(1, Purpose.PATH, i, 0, 0).below(3, 0);
            assertTrue(drawn >= 0 && drawn < 3);
        }
    }
}
