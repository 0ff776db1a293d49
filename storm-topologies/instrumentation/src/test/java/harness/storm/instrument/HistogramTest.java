package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class HistogramTest {

    /** Lower bound from the upper one, by the class's documentation rather than its code. */
    private static long lower(long upper) {
        long width = upper <= 32 ? 1 : Long.highestOneBit(upper - 1) / 16;
        return upper - width;
    }

    @Test
    void everyDurationIsInItsBinAndBinsAreNarrow() {
        Random random = new Random(1);
        for (int i = 0; i < 200_000; i++) {
            long ns = random.nextLong() >>> 1 + random.nextInt(63);
            long upper = Histogram.upper(Histogram.bin(ns));
            if (upper > 0) { // all but the last bin, whose bound is 2^63
                assertTrue(lower(upper) <= ns && ns < upper, ns + " in [" + lower(upper) + ", " + upper + ")");
                if (ns >= 16) {
                    assertTrue((upper - lower(upper)) * 16 <= lower(upper), "at most 1/16 wide: " + ns);
                }
            }
        }
    }

    @Test
    void binsFollowOneAnotherWithoutGaps() {
        for (int bin = 0; bin < Histogram.bin(Long.MAX_VALUE); bin++) {
            assertEquals(bin, Histogram.bin(Histogram.upper(bin) - 1));
            assertEquals(bin + 1, Histogram.bin(Histogram.upper(bin)));
        }
    }

    @Test
    void drainGivesWhatWasCountedAndStartsAgain() {
        Histogram histogram = new Histogram();
        histogram.add(0);
        histogram.add(1_000_000);
        histogram.add(1_000_000);
        histogram.add(Long.MAX_VALUE);
        // 10^6 is in the octave from 2^19, cut into bins of 2^15: (floor(10^6 / 2^15) + 1) * 2^15
        assertEquals(Map.of("1", 1, "1015808", 2, "9223372036854775808", 1), histogram.drain());
        assertEquals(Map.of(), histogram.drain());
    }

    @Test
    void aNegativeDurationIsAnError() {
        assertThrows(IllegalArgumentException.class, () -> new Histogram().add(-1));
    }
}
