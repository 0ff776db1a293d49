package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import harness.storm.Receiver;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.storm.shade.net.minidev.json.JSONArray;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An instrumented topology on a real cluster (in this JVM, two workers over Netty), measured into a real HTTP server. */
@Tag("deep")
class InstrumentedTopologyTest {
    @TempDir
    static Path folder;

    private static Submission submission;

    @BeforeAll
    static void start() throws Exception {
        submission = new Submission(2, folder);
    }

    @AfterAll
    static void stop() {
        submission.close();
    }

    @Test
    void everyTupleIsCountedOnce() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Map<String, Object> result = submit("sample-1", SampleTopology.class, receiver);
            assertEquals(List.of("source", "clock", "counted", "direct", "pool", "sink", "window"), result.get("wrapped"));
            assertEquals(Map.of(), result.get("unwrapped"));

            int failed = SampleTopology.MESSAGES / SampleTopology.FAIL_EVERY;
            long passed = SampleTopology.MESSAGES - failed;
            receiver.await(all -> {
                List<Line> read = parse(all);
                return sum(read, "acked", in("ack", "source")) == passed
                    && sum(read, "failed", in("ack", "source")) == failed
                    && sum(read, "count", in("received", "sink").and(stream("default"))) == 2 * passed
                    && sum(read, "count", in("received", "clock")) == 2 * passed
                    && sum(read, "count", in("received", "window")) == 2 * passed
                    && sum(read, "count", in("received", "direct")) == passed
                    && sum(read, "count", in("received", "counted")) == sum(read, "count", in("emitted", "window"))
                        + sum(read, "count", in("emitted", "clock"))
                    && read.stream().anyMatch(in("received", "sink").and(stream("__tick")))
                    && read.stream().anyMatch(in("worker", null));
            });
            List<Line> lines = settled(receiver);

            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", in("emitted", "source")));
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", in("received", "pool")));
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", in("service", "pool")));
            assertEquals(2 * passed, sum(lines, "count", in("emitted", "pool").and(stream("default"))));
            assertEquals(passed, sum(lines, "count", in("emitted", "pool").and(stream("unheard"))));
            assertEquals(0, sum(lines, "count", in("transferred", "pool").and(stream("unheard"))));
            assertEquals(passed, sum(lines, "count", in("transferred", "pool").and(stream("straight"))));
            // two windowed bolts get every loose tuple
            assertEquals(4 * passed, sum(lines, "count", in("transferred", "pool").and(stream("loose"))));
            assertEquals(2 * passed / SampleTopology.WINDOW, sum(lines, "count", in("emitted", "window")));
            // ticks are received, and not among service times
            assertEquals(2 * passed, sum(lines, "count", in("service", "sink")));

            Map<String, Long> sent = byTask(lines, "transferred", "peer", "default", "pool", "source", "window", "clock");
            Map<String, Long> received = byTask(lines, "received", "task", "default",
                "pool", "sink", "counted");
            assertEquals(sent, received, "what was sent to a task is what it received");

            for (String component : List.of("pool", "sink", "window", "clock", "counted", "direct")) {
                Predicate<Line> hist = in("service_hist", component);
                assertEquals(sum(lines, "count", in("service", component)),
                    sumAll(lines, hist.and(line -> line.tag("peer").equals("wall"))), component);
                assertEquals(sum(lines, "cpu_count", in("service", component)),
                    sumAll(lines, hist.and(line -> line.tag("peer").equals("cpu"))), component);
                long tasks = lines.stream().filter(in("service", component)).filter(line -> line.count("count") > 0)
                    .map(line -> line.tag("task")).distinct().count();
                assertEquals(sum(lines, "count", in("service", component)) - tasks,
                    sum(lines, "count", in("interarrival", component)), component);
            }
            assertEquals(passed, sum(lines, "count", in("ack", "source")));
            assertEquals(passed, sumAll(lines, in("ack_hist", "source")));
            List<String> ids = new ArrayList<>();
            for (Line line : lines) {
                if (line.fields().get("failed_ids") instanceof String text) {
                    ((JSONArray) JSONValue.parse(text)).forEach(id -> ids.add((String) id));
                    assertEquals(0, line.count("failed_ids_cut"));
                }
            }
            assertEquals(List.of("m-0", "m-100", "m-200", "m-300"), ids.stream().sorted().toList());

            for (Line line : lines) {
                assertEquals("sample-1", line.tag("topology"));
                assertEquals(Utils.hostname(), line.tag("host"));
                assertTrue(Integer.parseInt(line.tag("port")) > 0);
            }
            assertTrue(receiver.authorizations().stream().allMatch("Token s3cret"::equals));
        }
    }

    /** Stateful bolts are acked at checkpoints, whose tuples come on a stream of Storm's own. */
    @Test
    void aStatefulTopologyKeepsItsCheckpoints() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Map<String, Object> result = submit("stateful", StormsOwnTopologies.class, receiver);
            assertEquals(List.of("source", "sink", "state"), result.get("wrapped"));
            receiver.await(all -> sum(parse(all), "acked", in("ack", "source")) == SampleTopology.MESSAGES);
            List<Line> lines = settled(receiver);
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", in("received", "state").and(stream("default"))));
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", in("service", "state")));
            assertTrue(sum(lines, "count", in("received", "state").and(stream("$checkpoint"))) > 0);
            assertTrue(sum(lines, "count", in("system_service", "state").and(stream("$checkpoint"))) > 0);
        }
    }

    /** Trident's coordinators emit directly and count the tasks that emit returns. */
    @Test
    void aTridentTopologyCompletesItsBatches() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Map<String, Object> result = submit("trident", StormsOwnTopologies.class, receiver);
            assertEquals(Map.of(), result.get("unwrapped"));
            receiver.await(all -> sum(parse(all), "acked", in("ack", "$mastercoord-bg0")) >= 3);
        }
    }

    /** Submits; the topology runs on until the cluster ends. */
    private static Map<String, Object> submit(String topology, Class<?> main, Receiver receiver) throws Exception {
        Map<String, Object> settings = submission.settings(topology, receiver.url());
        settings.put("main", main.getName());
        Submission.Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        Map<String, Object> result = Submit.object(exit.answer());
        assertEquals(topology, result.get("topology"));
        return result;
    }

    /** All lines, once every task has reported a bucket that ended after all there is now: idle buckets are reported too. */
    private static List<Line> settled(Receiver receiver) throws Exception {
        List<Line> now = parse(receiver.lines());
        long lastNs = now.stream().mapToLong(Line::timestampNs).max().orElseThrow();
        Set<String> tasks = now.stream().map(line -> line.tag("task")).collect(Collectors.toSet());
        return parse(receiver.await(all -> parse(all).stream()
            .filter(line -> line.timestampNs() > lastNs && !line.measurement().equals("worker"))
            .map(line -> line.tag("task")).collect(Collectors.toSet()).containsAll(tasks)));
    }

    private static List<Line> parse(List<String> lines) {
        return lines.stream().map(Line::parse).toList();
    }

    private static Predicate<Line> in(String measurement, String component) {
        return line -> line.measurement().equals(measurement)
            && (component == null || line.tag("component").equals(component));
    }

    private static Predicate<Line> stream(String stream) {
        return line -> line.tag("stream").equals(stream);
    }

    private static long sum(List<Line> lines, String field, Predicate<Line> which) {
        return lines.stream().filter(which).mapToLong(line -> line.count(field)).sum();
    }

    private static long sumAll(List<Line> lines, Predicate<Line> which) {
        return lines.stream().filter(which).flatMap(line -> line.fields().values().stream())
            .mapToLong(value -> (Long) value).sum();
    }

    private static Map<String, Long> byTask(
            List<Line> lines, String measurement, String tag, String stream, String... components) {
        return lines.stream()
            .filter(line -> line.measurement().equals(measurement) && line.tag("stream").equals(stream))
            .filter(line -> List.of(components).contains(line.tag("component")))
            .filter(line -> line.count("count") > 0)
            .collect(Collectors.groupingBy(line -> line.tag(tag), Collectors.summingLong(line -> line.count("count"))));
    }
}
