package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import harness.storm.Line;
import harness.storm.Receiver;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.metric.api.IMetricsConsumer.DataPoint;
import org.apache.storm.metric.api.IMetricsConsumer.TaskInfo;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.junit.jupiter.api.Test;

/** What is reported here has the names of {@code metrics.json}, which Python's types make ({@code harness.schemas}). */
class MetricNamesTest {
    private static final Map<String, Object> CONF = Map.of(Series.BUCKET_S, 2);

    private final Contexts contexts = new Contexts();

    @Test
    void wrappersReportTheListedMeasurementsFieldsAndTags() throws IOException {
        Map<String, Set<String>> fields = new TreeMap<>();
        Map<String, Set<String>> tags = new TreeMap<>();
        for (Map<String, Object> report : List.of(bolt(), spout(), worker())) {
            report.forEach((series, values) -> {
                if (!series.equals(Series.END_MS)) {
                    Line line = Line.parse(series + " " + values + " 1");
                    fields.computeIfAbsent(line.measurement(), name -> new TreeSet<>()).addAll(line.fields().keySet());
                    tags.computeIfAbsent(line.measurement(), name -> new TreeSet<>()).addAll(line.tags().keySet());
                }
            });
        }
        Map<String, Map<String, Object>> listed = listedBy("wrapped components");
        assertEquals(listed.keySet(), fields.keySet());
        listed.forEach((name, metric) -> {
            Set<String> wanted = new TreeSet<>();
            for (String tag : List.of("stream", "peer")) {
                if (metric.get(tag).equals(true)) {
                    wanted.add(tag);
                }
            }
            assertEquals(wanted, tags.get(name), name);
            if (metric.get("histogram").equals(true)) {
                assertFalse(fields.get(name).isEmpty(), name);
            } else {
                assertEquals(new TreeSet<>((Collection<?>) metric.get("fields")), fields.get(name), name);
            }
        });
    }

    @Test
    void theConsumerReportsTheListedMeasurement() throws Exception {
        try (Receiver receiver = new Receiver()) {
            LineProtocolConsumer consumer = new LineProtocolConsumer();
            consumer.prepare(Map.of(), Map.of("url", receiver.url(), "token_file", "", "ca_file", "", "spool", "",
                "topology", "t"), contexts.task(5), null);
            consumer.handleDataPoints(new TaskInfo("host", 6701, "end", 5, 1L, 2),
                List.of(new DataPoint("harness.no-series", 1)));
            Line line = Line.parse(receiver.await(all -> !all.isEmpty()).get(0));
            consumer.cleanup();
            Map<String, Map<String, Object>> listed = listedBy("metrics consumer");
            assertEquals(listed.keySet(), Set.of(line.measurement()));
            assertEquals(listed.get(line.measurement()).get("fields"), List.copyOf(line.fields().keySet()));
        }
    }

    private Map<String, Object> bolt() {
        Inputs inputs = new Inputs(contexts.task(2));
        Tuple tick = new TupleImpl(contexts.task(2), new Values("n"), "__system", -1, "__tick");
        inputs.of(tick).count++;
        ServiceTimes times = new ServiceTimes(2);
        times.cpu(5);
        times.served(0, 10);
        times.served(20, 30);
        Outputs outputs = new Outputs(contexts.task(2));
        outputs.emitted("default", List.of(4));
        Series series = new Series();
        inputs.drainTo(series);
        times.drainTo(series);
        outputs.drainTo(series);
        return series.value();
    }

    private static Map<String, Object> spout() {
        AckTimes acks = new AckTimes(true);
        acks.emitting("acked");
        acks.acked("acked");
        acks.emitting("failed");
        acks.failed("failed");
        Series series = new Series();
        acks.drainTo(series);
        return series.value();
    }

    private Map<String, Object> worker() {
        WorkerUse use = WorkerUse.publishOnce(CONF, contexts.task(2, "names"));
        try {
            return contexts.report(2, 2, Series.PREFIX + "worker");
        } finally {
            use.release();
        }
    }

    private static Map<String, Map<String, Object>> listedBy(String reporter) throws IOException {
        try (InputStream file = MetricNamesTest.class.getResourceAsStream("/metrics.json")) {
            String text = new String(file.readAllBytes(), StandardCharsets.UTF_8);
            Map<String, Map<String, Object>> listed = new TreeMap<>();
            ((Map<?, ?>) JSONValue.parse(text)).forEach((name, metric) -> {
                Map<String, Object> entry = new HashMap<>();
                ((Map<?, ?>) metric).forEach((key, value) -> entry.put((String) key, value));
                if (entry.get("reporter").equals(reporter)) {
                    listed.put((String) name, entry);
                }
            });
            return listed;
        }
    }
}
