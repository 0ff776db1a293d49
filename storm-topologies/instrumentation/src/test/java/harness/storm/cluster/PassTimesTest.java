package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.cluster.PassTimes.Kind;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Passes against Storm's own scheduler on the same clusters, in the same JVM: how fast the machine is does not count. */
class PassTimesTest {
    /** Four times what was found (docs/performance.md). */
    private static final double MOST = 3;

    @TempDir
    private Path folder;

    @Test
    void aPassThatMovesEachExecutorCostsAboutWhatStormsOwnDoes() {
        PassTimes times = new PassTimes(folder);
        times.measure(80, 40);
        double storms = times.quantileMs(Kind.STORMS_PLACED, 0.5);
        double moved = times.quantileMs(Kind.MOVED, 0.5);
        double held = times.quantileMs(Kind.HELD, 0.5);
        assertTrue(moved < MOST * storms, moved + " ms, and Storm's own scheduler from nothing " + storms);
        assertTrue(held < moved, held + " ms with nothing to do, " + moved + " with each executor to move");
    }
}
