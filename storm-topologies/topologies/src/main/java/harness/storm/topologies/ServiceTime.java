package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.locks.LockSupport;

/**
 * Time that a bolt spends on each tuple it receives, beside its real work.
 *
 * <p>The demand of a tuple is drawn by its {@link Draw} for {@code SERVICE}: u = uniform(0), z =
 * normal(0), and
 *
 * <ul>
 *   <li>constant: mean;
 *   <li>exponential: -mean ln(1 - u);
 *   <li>uniform: 2 mean u, that is from 0 to twice the mean;
 *   <li>lognormal: exp(m + s z) with s&#178; = ln(1 + cv&#178;) and m = ln(mean) - s&#178;/2.
 * </ul>
 *
 * @param kind what the time is spent as
 * @param distribution of the demand
 * @param meanMs its mean, in milliseconds
 * @param cv standard deviation over mean; given for lognormal, else null
 */
record ServiceTime(Kind kind, Distribution distribution, double meanMs, Double cv)
        implements Serializable {

    /** What the demand is spent as. */
    enum Kind {
        /**
         * CPU time of the executing thread: the thread computes until its own CPU clock has advanced
         * by the demand, so waiting for a core comes on top of it.
         */
        @JsonProperty("cpu")
        CPU,
        /** Wall time without using the CPU: the thread is parked until a deadline on nanoTime. */
        @JsonProperty("wait")
        WAIT
    }

    /** Shape of the demand's distribution. */
    enum Distribution {
        @JsonProperty("constant")
        CONSTANT,
        @JsonProperty("exponential")
        EXPONENTIAL,
        @JsonProperty("lognormal")
        LOGNORMAL,
        @JsonProperty("uniform")
        UNIFORM
    }

    private static final double NS_PER_MS = 1e6;
    /** Steps between two looks at the CPU clock, which itself costs some hundred nanoseconds. */
    private static final int STEPS_PER_LOOK = 200;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Takes the result of the computing, so that the compiler cannot leave it out. */
    @SuppressWarnings("unused")
    private static volatile double result;

    ServiceTime {
        Checks.present("kind", kind);
        Checks.present("distribution", distribution);
        Checks.that(meanMs >= 0 && Double.isFinite(meanMs), "mean_ms has to be 0 or more, not " + meanMs);
        if (distribution == Distribution.LOGNORMAL) {
            Checks.that(cv != null && cv > 0 && Double.isFinite(cv), "lognormal needs a positive cv");
        } else {
            Checks.that(cv == null, "cv is for lognormal only and has to be null");
        }
    }

    /** Draws the demand of a tuple, in nanoseconds. */
    long demandNs(long seed, Message message) {
        Draw draw = Draw.of(seed, Draw.Purpose.SERVICE, message);
        double meanNs = meanMs * NS_PER_MS;
        return Math.round(
                switch (distribution) {
                    case CONSTANT -> meanNs;
                    case EXPONENTIAL -> -meanNs * Math.log(1 - draw.uniform(0));
                    case UNIFORM -> 2 * meanNs * draw.uniform(0);
                    case LOGNORMAL -> {
                        double variance = Math.log(1 + cv * cv);
                        yield meanNs * Math.exp(Math.sqrt(variance) * draw.normal(0) - variance / 2);
                    }
                });
    }

    /** Spends the demand of a tuple. */
    void spend(long seed, Message message) {
        long demandNs = demandNs(seed, message);
        switch (kind) {
            case CPU -> compute(demandNs);
            case WAIT -> rest(demandNs);
        }
    }

    private static void compute(long demandNs) {
        long endNs = THREADS.getCurrentThreadCpuTime() + demandNs;
        double x = 1;
        while (THREADS.getCurrentThreadCpuTime() < endNs) {
            for (int i = 0; i < STEPS_PER_LOOK; i++) {
                x = Math.sqrt(x + i);
            }
        }
        result = x;
    }

    private static void rest(long demandNs) {
        long deadlineNs = System.nanoTime() + demandNs;
        long leftNs = demandNs;
        // A park may end early without a reason; after an interrupt (Storm ends the worker) it would
        // always do so, and the loop would spin.
        while (leftNs > 0 && !Thread.currentThread().isInterrupted()) {
            LockSupport.parkNanos(leftNs);
            leftNs = deadlineNs - System.nanoTime();
        }
    }
}
