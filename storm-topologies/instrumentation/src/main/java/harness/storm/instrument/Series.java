package harness.storm.instrument;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.task.TopologyContext;

/**
 * What one task reports at the end of one bucket: series (a measurement and its tags), each with its fields.
 *
 * <p>Any bolt may publish its own, in {@code prepare}:
 *
 * <pre>{@code
 * Series.publish(conf, context, "held", () -> new Series().add("held", Map.of("members", "12/0,15/3")));
 * }</pre>
 *
 * <p>On the way to {@link LineProtocolConsumer} it is a metric of Storm's V1 API whose name begins with {@link #PREFIX}
 * and whose value is a {@code HashMap<String, Object>}: from the text of a measurement with its own tags
 * ({@code transferred,stream=default,peer=41}) to the text of its fields ({@code count=37i}), and from {@code end_ms} to
 * the bucket's end in milliseconds since the epoch. So Kryo needs no class that Storm does not register itself. The
 * consumer adds the tags topology, component, task, host and port, and the time.
 */
public final class Series {

    /** Metrics with names that begin so go to the harness; all others are left to other consumers. */
    public static final String PREFIX = "harness.";

    /** The topology setting, made by {@code Submit}, that holds the bucket's length in seconds. */
    public static final String BUCKET_S = "harness.bucket_s";

    /** Streams whose names begin so carry no data: like Storm's own, they are not among arrivals and service times. */
    public static final String CONTROL = "$harness/";

    static final String END_MS = "end_ms";

    private final HashMap<String, Object> value = new HashMap<>();

    /** A report for the bucket that ends now. */
    public Series() {
        value.put(END_MS, System.currentTimeMillis());
    }

    /** Adds a series without tags of its own. Field values: Long, Integer, finite Double or String. */
    public Series add(String measurement, Map<String, ?> fields) {
        return add(measurement, "", "", fields);
    }

    /**
     * Adds a series.
     *
     * @param measurement a name of {@code docs/run-directory.md}
     * @param stream stream id, or empty
     * @param peer source component, destination task or kind of clock, or empty
     * @param fields nothing is added when it is empty
     * @throws IllegalArgumentException if the same series was added before, or line protocol cannot hold a value
     */
    public Series add(String measurement, String stream, String peer, Map<String, ?> fields) {
        if (fields.isEmpty()) {
            return this;
        }
        StringBuilder key = new StringBuilder(LineProtocol.measurement(measurement));
        if (!stream.isEmpty()) {
            key.append(",stream=").append(LineProtocol.tag(stream));
        }
        if (!peer.isEmpty()) {
            key.append(",peer=").append(LineProtocol.tag(peer));
        }
        if (value.put(key.toString(), LineProtocol.fields(fields)) != null) {
            throw new IllegalArgumentException("series added twice: " + key);
        }
        return this;
    }

    /** Whether this topology was submitted with instrumentation. */
    public static boolean wanted(Map<String, Object> conf) {
        return conf.get(BUCKET_S) instanceof Number;
    }

    /**
     * Lets a task publish a report at the end of every bucket; does nothing in a topology that is not instrumented.
     *
     * <p>Storm calls the supplier on the executor's thread, between two calls of {@code execute}.
     *
     * @param name unique in the task
     * @param report returns null for nothing to report in this bucket
     */
    public static void publish(
            Map<String, Object> conf, TopologyContext context, String name, Supplier<Series> report) {
        if (wanted(conf)) {
            publish(conf, context, name, ((Number) conf.get(BUCKET_S)).intValue(), report);
        }
    }

    /**
     * Lets a task publish a report in a rhythm of its own; does nothing in a topology that is not instrumented.
     *
     * @param periodS seconds between two reports
     */
    @SuppressWarnings("deprecation") // V1 metrics: the only ones a metrics consumer gets with values of our own.
    public static void publish(
            Map<String, Object> conf, TopologyContext context, String name, int periodS, Supplier<Series> report) {
        if (wanted(conf)) {
            context.registerMetric(PREFIX + name, new Published(report), periodS);
        }
    }

    /** The metric's value. */
    HashMap<String, Object> value() {
        return value;
    }

    /** One report after another, each of a later time: of two points with the same one, a store keeps one. */
    private static final class Published implements IMetric {
        private final Supplier<Series> report;
        private long endMs;

        Published(Supplier<Series> report) {
            this.report = report;
        }

        /** An executor that was held up is asked for several periods within one millisecond. */
        @Override
        public Object getValueAndReset() {
            Series series = report.get();
            if (series == null) {
                return null;
            }
            endMs = Math.max((Long) series.value.get(END_MS), endMs + 1);
            series.value.put(END_MS, endMs);
            return series.value();
        }

        /** Not the interface's immutable empty map, which Kryo has no registration for. */
        @Override
        public Map<String, String> getDimensions() {
            return new HashMap<>();
        }
    }
}
