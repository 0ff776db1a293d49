package harness.storm.rewrite;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.storm.metrics2.MetricRegistryProvider;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.metrics2.reporters.StormReporter;

/**
 * How full the receive queues of this worker's tasks are, by Storm's own gauges.
 *
 * <p>Storm gives its registry of metrics to reporters only. So this is one, which keeps it and reports nothing.
 */
public final class QueueFills implements StormReporter {
    private static final String FILL = "receive-queue-pct_full";
    private static final Map<Integer, Gauge<?>> GAUGES = new ConcurrentHashMap<>();

    private static volatile StormMetricRegistry registry;

    /** The fill of a task's receive queue in percent; not a number where Storm does not say. */
    static double pct(int task) {
        Gauge<?> gauge = GAUGES.get(task);
        if (gauge == null && registry != null) {
            gauge = registry.getTaskGauges(task).get(FILL);
            if (gauge != null) {
                GAUGES.put(task, gauge);
            }
        }
        return gauge != null && gauge.getValue() instanceof Number share ? 100 * share.doubleValue() : Double.NaN;
    }

    @Override
    public void prepare(MetricRegistryProvider provider, Map<String, Object> topology, Map<String, Object> settings) {
        if (provider instanceof StormMetricRegistry own) {
            GAUGES.clear();
            registry = own;
        }
    }

    @Override
    public void prepare(MetricRegistry metrics, Map<String, Object> topology, Map<String, Object> settings) {
        throw new UnsupportedOperationException("Storm 2.8.3 calls the other one");
    }

    @Override
    public void start() {
    }

    @Override
    public void stop() {
    }

    @Override
    public void close() {
    }
}
