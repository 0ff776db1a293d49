package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.topologies.ServiceTime.Distribution;
import harness.storm.topologies.ServiceTime.Kind;
import java.lang.management.ManagementFactory;
import org.junit.jupiter.api.Test;

class ServiceTimeTest {

    @Test
    void aWaitIsAtLeastAsLongAsAsked() {
        ServiceTime service = new ServiceTime(Kind.WAIT, Distribution.CONSTANT, 20, null);
        long startedNs = System.nanoTime();
        service.spend(1, Fixtures.message(1, 1));
        assertTrue(System.nanoTime() - startedNs >= 20_000_000);
    }

    @Test
    void aWaitUsesNoCpuToSpeakOf() {
        ServiceTime service = new ServiceTime(Kind.WAIT, Distribution.CONSTANT, 200, null);
        long startedNs = cpuNs();
        service.spend(1, Fixtures.message(1, 1));
        assertTrue(cpuNs() - startedNs < 100_000_000, "half of the wait would mean that it spins");
    }

    @Test
    void cpuTimeIsSpentOnTheThreadsOwnClock() {
        ServiceTime service = new ServiceTime(Kind.CPU, Distribution.CONSTANT, 20, null);
        long startedNs = cpuNs();
        service.spend(1, Fixtures.message(1, 1));
        assertTrue(cpuNs() - startedNs >= 20_000_000);
    }

    @Test
    void anInterruptEndsAWait() {
        ServiceTime service = new ServiceTime(Kind.WAIT, Distribution.CONSTANT, 3_600_000, null);
        Thread.currentThread().interrupt();
        service.spend(1, Fixtures.message(1, 1));
        assertTrue(Thread.interrupted(), "the interrupt is left for Storm to see");
    }

    /** Mean and coefficient of variation by definition; 1/sqrt(3) for a uniform from 0 to twice the mean. */
    @Test
    void momentsOfTheDemand() {
        assertMoments(new ServiceTime(Kind.CPU, Distribution.CONSTANT, 0.5, null), 0);
        assertMoments(new ServiceTime(Kind.CPU, Distribution.EXPONENTIAL, 0.5, null), 1);
        assertMoments(new ServiceTime(Kind.CPU, Distribution.UNIFORM, 0.5, null), 1 / Math.sqrt(3));
        assertMoments(new ServiceTime(Kind.CPU, Distribution.LOGNORMAL, 0.5, 0.4), 0.4);
    }

    private static void assertMoments(ServiceTime service, double cv) {
        int n = 100_000;
        double sum = 0;
        double sumSq = 0;
        for (int id = 0; id < n; id++) {
            double demandMs = service.demandNs(5, Fixtures.message(1, id)) / 1e6;
            sum += demandMs;
            sumSq += demandMs * demandMs;
        }
        double mean = sum / n;
        double sd = Math.sqrt(Math.max(0, sumSq / n - mean * mean));
        assertEquals(service.meanMs(), mean, 4 * cv * service.meanMs() / Math.sqrt(n) + 1e-9, service.toString());
        assertEquals(cv, sd / mean, 0.02, service.toString());
    }

    @Test
    void refusesWhatIsNoDistribution() {
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(Kind.CPU, Distribution.CONSTANT, -1, null));
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(Kind.CPU, Distribution.LOGNORMAL, 1, null));
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(Kind.CPU, Distribution.LOGNORMAL, 1, 0.0));
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(Kind.CPU, Distribution.CONSTANT, 1, 0.5));
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(null, Distribution.CONSTANT, 1, null));
        assertThrows(IllegalArgumentException.class, () -> new ServiceTime(Kind.CPU, null, 1, null));
    }

    private static long cpuNs() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
