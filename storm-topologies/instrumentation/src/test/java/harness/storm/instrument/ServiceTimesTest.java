package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ServiceTimesTest {

    @Test
    void momentsAreThoseOfTheTimesGiven() {
        ServiceTimes times = new ServiceTimes(1);
        times.served(1_000, 1_300);
        times.cpu(200);
        times.served(2_000, 2_500);
        times.cpu(400);
        times.served(4_000, 4_010);
        times.cpu(6);
        Map<String, Object> service = drain(times, "service");
        assertEquals(Map.of("count", 3L, "wall_sum_ns", 810L, "wall_sumsq_ns2", 340_100.0,
            "cpu_count", 3L, "cpu_sum_ns", 606L, "cpu_sumsq_ns2", 200_036.0), service);
    }

    @Test
    void aGapThatCrossesABucketIsInTheLaterOne() {
        ServiceTimes times = new ServiceTimes(1);
        times.served(1_000, 1_300);
        assertEquals(0L, drain(times, "interarrival").get("count"));
        times.served(9_000, 9_100);
        assertEquals(Map.of("count", 1L, "sum_ns", 8_000L, "sumsq_ns2", 64e6), drain(times, "interarrival"));
    }

    @Test
    void pausesOfHoursDoNotOverflow() {
        ServiceTimes times = new ServiceTimes(1);
        long hour = 3_600_000_000_000L;
        times.served(0, hour);
        assertEquals((double) hour * hour, drain(times, "service").get("wall_sumsq_ns2"));
    }

    @Test
    void atLowRatesEveryExecuteHasItsCpuTime() {
        ServiceTimes times = new ServiceTimes(1);
        for (int bucket = 0; bucket < 3; bucket++) {
            for (int i = 0; i < ServiceTimes.CPU_PER_BUCKET; i++) {
                assertTrue(times.cpuWanted());
                times.served(i, i + 1);
            }
            drain(times, "service");
        }
    }

    /** A binomial of mean 500 and standard deviation 22; within 5 of these, and other executes in other tasks. */
    @Test
    void atHighRatesARandomPartHas() {
        int executes = 100_000;
        boolean[][] wanted = new boolean[2][executes];
        for (int task = 0; task < 2; task++) {
            ServiceTimes times = new ServiceTimes(task);
            int count = 0;
            for (int bucket = 0; bucket < 2; bucket++) {
                count = 0;
                for (int i = 0; i < executes; i++) {
                    wanted[task][i] = times.cpuWanted();
                    count += wanted[task][i] ? 1 : 0;
                    times.served(i, i + 1);
                }
                drain(times, "service");
            }
            assertEquals(ServiceTimes.CPU_PER_BUCKET, count, 5 * 22);
        }
        assertFalse(java.util.Arrays.equals(wanted[0], wanted[1]));
    }

    private static Map<String, Object> drain(ServiceTimes times, String measurement) {
        Series series = new Series();
        times.drainTo(series);
        return Line.parse(measurement + " " + series.value().get(measurement) + " 0").fields();
    }
}
