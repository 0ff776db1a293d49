package harness.storm.instrument;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.task.TopologyContext;

/**
 * CPU time, garbage collection and heap of the worker's process. The first task of a topology to be prepared in this JVM
 * reports them, for all.
 */
final class WorkerUse {
    private static final Set<String> REPORTED = new HashSet<>();
    private static final OperatingSystemMXBean SYSTEM =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);

    private final String topologyId;
    private long cpuNs = cpuNow();
    private long gcMs = gcNow();

    private WorkerUse(String topologyId) {
        this.topologyId = topologyId;
    }

    /** Publishes unless another task does; the result's {@link #release} ends it. */
    static WorkerUse publishOnce(Map<String, Object> conf, TopologyContext context) {
        WorkerUse use = new WorkerUse(context.getStormId());
        synchronized (REPORTED) {
            if (REPORTED.add(context.getStormId())) {
                Series.publish(conf, context, "worker", use::report);
            }
        }
        return use;
    }

    /** Lets another task report: for clusters of one JVM, where workers of the same topology follow one another. */
    void release() {
        synchronized (REPORTED) {
            REPORTED.remove(topologyId);
        }
    }

    private Series report() {
        long cpuBefore = cpuNs;
        long gcBefore = gcMs;
        cpuNs = cpuNow();
        gcMs = gcNow();
        long heapBytes = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
        return new Series().add("worker",
            Map.of("cpu_ns", cpuNs - cpuBefore, "gc_ms", gcMs - gcBefore, "heap_bytes", heapBytes));
    }

    private static long cpuNow() {
        return SYSTEM.getProcessCpuTime();
    }

    private static long gcNow() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
            .mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }
}
