package harness.storm.instrument;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Arrivals and service times of one task. Only touched from the executor's thread.
 *
 * <p>The wall clock is read around every execute. The thread's CPU clock is a system call of up to 1 microsecond, needed
 * before and after, so it is read around every execute only as long as these are few: after a bucket with more than
 * {@value #CPU_PER_BUCKET} of them, around a random part of the next one's, chosen independently of the tuples, so that
 * about that many are read. {@code cpu_count} says how many; the bucket's total of CPU time is estimated by
 * {@code cpu_sum_ns * count / cpu_count}. A reading at the end of one execute cannot serve as the start of the next:
 * between the two the thread polls its queue, which costs CPU time that is not service.
 *
 * <p>The wall clock's readings are within the CPU clock's, so that they time nothing else; CPU times contain the two
 * readings of the wall clock and about one of the CPU clock itself.
 */
final class ServiceTimes {
    static final int CPU_PER_BUCKET = 500;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private final Moments interarrival = new Moments();
    private final Moments wall = new Moments();
    private final Moments cpu = new Moments();
    private final Histogram wallHistogram = new Histogram();
    private final Histogram cpuHistogram = new Histogram();
    private long lastArrivalNs;
    private boolean arrivedBefore;
    /** The chance of a CPU reading, as a bound on a random number of 32 bits. */
    private long cpuBound = 1L << 32;
    private long random;

    /** @param seed makes tasks read at different executes */
    ServiceTimes(int seed) {
        random = seed * 0x9E3779B97F4A7C15L + 1;
        random = random == 0 ? 1 : random;
    }

    static long cpuNow() {
        return THREADS.getCurrentThreadCpuTime();
    }

    /** Whether to read the CPU clock around the next execute. */
    boolean cpuWanted() {
        if (cpuBound >= 1L << 32) {
            return true;
        }
        random ^= random << 13; // xorshift, Marsaglia 2003
        random ^= random >>> 7;
        random ^= random << 17;
        return (random >>> 32) < cpuBound;
    }

    void cpu(long ns) {
        cpu.add(ns);
        cpuHistogram.add(ns);
    }

    void served(long arrivedNs, long leftNs) {
        if (arrivedBefore) {
            interarrival.add(arrivedNs - lastArrivalNs);
        }
        arrivedBefore = true;
        lastArrivalNs = arrivedNs;
        wall.add(leftNs - arrivedNs);
        wallHistogram.add(leftNs - arrivedNs);
    }

    void drainTo(Series series) {
        cpuBound = (long) ((1L << 32) * Math.min(1.0, (double) CPU_PER_BUCKET / Math.max(1, wall.count())));
        Map<String, Object> arrivals = new LinkedHashMap<>();
        interarrival.drainTo(arrivals, "count", "");
        Map<String, Object> service = new LinkedHashMap<>();
        wall.drainTo(service, "count", "wall_");
        cpu.drainTo(service, "cpu_count", "cpu_");
        series.add("interarrival", arrivals).add("service", service)
            .add("service_hist", "", "wall", wallHistogram.drain())
            .add("service_hist", "", "cpu", cpuHistogram.drain());
    }
}
