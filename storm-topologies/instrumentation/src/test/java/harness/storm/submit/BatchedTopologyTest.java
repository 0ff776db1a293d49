package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import harness.storm.Receiver;
import harness.storm.rewrite.LiveSizes;
import harness.storm.submit.OrderedTopology.Notes;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.generated.Credentials;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.thrift.TException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Batches on a real cluster (in this JVM, two workers over Netty), beside the same topologies without them. */
@Tag("deep")
class BatchedTopologyTest {
    private static final Map<String, Integer> BATCH = Map.of("size", 20, "flush_ms", 5);
    /** Groupings by which each emit arrives once. */
    private static final List<String> ONCE = List.of("fields", "first", "partial", "shuffle", "local", "none");

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
    void withoutFailuresEveryTupleTakesTheSameWayInTheSameOrder() throws Exception {
        Notes plain = run("plain", "well", Map.of());
        Notes batched = run("batched", "well", everything());
        Notes resized = run("resized", "well", everything(), true);
        assertEquals(0, plain.fails.get() + batched.fails.get() + resized.fails.get());
        for (Notes notes : List.of(plain, batched, resized)) {
            assertEquals(OrderedTopology.MESSAGES, notes.acks.get());
            assertEquals(OrderedTopology.MESSAGES, notes.emits.get());
            for (String grouping : OrderedTopology.RANDOM) {
                assertEquals(IntStream.range(0, OrderedTopology.MESSAGES).boxed().toList(),
                    notes.received.entrySet().stream().filter(way -> way.getKey().startsWith(grouping + " "))
                        .flatMap(way -> way.getValue().stream()).sorted().toList(), "each once, by " + grouping);
            }
        }
        assertEquals(deterministic(plain), deterministic(batched));
        assertEquals(deterministic(plain), deterministic(resized));
        assertEquals(chosen(plain), chosen(batched), "tasks that the spout's emit returned");
        Map<Integer, Long> returned = batched.returned.values().stream().flatMap(List::stream)
            .collect(Collectors.groupingBy(task -> task, TreeMap::new, Collectors.counting()));
        Map<Integer, Long> received = new TreeMap<>();
        batched.received.forEach((way, numbers) -> {
            if (!way.startsWith("end ") && !way.startsWith("straight ")) {
                received.put(Integer.parseInt(way.substring(way.indexOf('>') + 2)), (long) numbers.size());
            }
        });
        assertEquals(returned, received, "tasks that emit returned are those that got the tuples");
    }

    /** At least once: what fails is sent again with all that was in its batch, and nothing else is. */
    @Test
    void withFailuresEveryMessageIsAckedInTheEndAndNoTupleIsLost() throws Exception {
        int failures = 2 * OrderedTopology.MESSAGES / OrderedTopology.FAIL_EVERY; // by "fields" and by "first"
        for (Map<String, Object> batching : List.of(Map.<String, Object>of(), everything())) {
            Notes notes = run("failing-" + batching.size(), "fail", batching);
            assertEquals(OrderedTopology.MESSAGES, notes.acks.get(), "each is acked once");
            assertEquals(OrderedTopology.MESSAGES + notes.fails.get(), notes.emits.get());
            assertEquals(failures, notes.refusals.get());
            assertTrue(notes.fails.get() >= OrderedTopology.MESSAGES / OrderedTopology.FAIL_EVERY);
            if (batching.isEmpty()) {
                assertTrue(notes.fails.get() <= failures, "one for one");
            } else {
                assertTrue(notes.fails.get() > failures, "batches were full of others");
                // a failed row's outer tuple has 20 messages at most, and 20 roots of further batches behind it
                assertTrue(notes.fails.get() <= 400L * failures, notes.fails + " fails");
            }
            for (String grouping : ONCE) {
                assertEquals(notes.emits.get(), notes.count(grouping), "each emit arrives once, by " + grouping);
            }
            assertEquals(2 * notes.emits.get(), notes.count("all"));
            assertEquals(relayed(notes), notes.count("end"));
            assertEquals(relayed(notes), notes.count("straight"));
        }
    }

    /** Windows by count and by time, ticks, threads of the bolt's own, and metrics; only registered classes may travel. */
    @Test
    void theSampleTopologyIsMeasuredAsWithoutBatches() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Map<String, Object> settings = submission.settings("sample-batched", receiver.url());
            settings.put("batching", Map.of("source", BATCH, "pool", BATCH, "window", BATCH, "clock", BATCH));
            Map<String, Object> result = submit(settings);
            assertEquals(List.of("clock:default", "pool:default", "pool:loose", "pool:straight", "source:default",
                "window:default"), result.get("batched"));
            assertEquals(Map.of("pool:unheard", "nothing subscribes to its stream unheard"), result.get("unbatched"));

            int failed = SampleTopology.MESSAGES / SampleTopology.FAIL_EVERY;
            long passed = SampleTopology.MESSAGES - failed;
            List<Line> lines = receiver.await(all -> {
                List<Line> read = parse(all);
                return sum(read, "acked", "ack", "source") + sum(read, "failed", "ack", "source") == SampleTopology.MESSAGES
                    && sum(read, "count", "service", "sink") == 2 * passed
                    && sum(read, "count", "received", "clock") == 2 * passed
                    && sum(read, "count", "received", "window") == 2 * passed
                    && sum(read, "count", "service", "direct") == passed
                    && sum(read, "count", "received", "counted") == sum(read, "count", "emitted", "window")
                        + sum(read, "count", "emitted", "clock")
                    && sum(read, "count", "emitted", "window") == 2 * passed / SampleTopology.WINDOW
                    && sum(read, "tuples", "batch", "pool") == 7 * passed
                    && sum(read, "bytes_tuples", "batch", "pool") + sum(read, "bytes_tuples", "batch", "source") > 0
                    && read.stream().anyMatch(
                        line -> line.tag("stream").equals("__tick") && line.tag("component").equals("sink"));
            }).stream().map(Line::parse).toList();
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", "emitted", "source"));
            assertEquals(SampleTopology.MESSAGES, sum(lines, "count", "received", "pool"));
            assertTrue(sum(lines, "failed", "ack", "source") >= failed);
            assertTrue(lines.stream().noneMatch(line -> line.tag("stream").startsWith("harness.")), "nothing hidden is told of");
            for (String component : List.of("source", "pool")) {
                assertEquals(sum(lines, "count", "transferred", component), sum(lines, "tuples", "batch", component));
                assertTrue(sum(lines, "messages", "batch", component) < sum(lines, "tuples", "batch", component));
                assertEquals(20 * sum(lines, "messages", "batch", component), sum(lines, "capacity", "batch", component));
            }
            resize("sample-batched", List.of("pool"), 7);
            receiver.await(all -> {
                Map<String, Long> sizes = new TreeMap<>(); // by task, as reported last
                parse(all).stream().filter(line -> line.measurement().equals("batch") && line.tag("component").equals("pool")
                    && line.tag("stream").equals("default")).forEach(line -> sizes.put(line.tag("task"), line.count("size")));
                return !sizes.isEmpty() && sizes.values().stream().allMatch(size -> size == 7);
            });
            kill("sample-batched");
        }
    }

    /** Stateful bolts are acked at checkpoints, whose tuples must not overtake what waits before them. */
    @Test
    void aStatefulTopologyKeepsItsCheckpoints() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Map<String, Object> settings = submission.settings("stateful-batched", receiver.url());
            settings.put("main", StormsOwnTopologies.class.getName());
            settings.put("args", List.of("stateful"));
            settings.put("batching", Map.of("source", BATCH, "state", BATCH));
            assertEquals(List.of("source:default", "state:default"), submit(settings).get("batched"));
            receiver.await(all -> { // messages are acked and checkpoints are told of in buckets of their own
                List<Line> read = parse(all);
                return sum(read, "acked", "ack", "source") == SampleTopology.MESSAGES
                    && read.stream().anyMatch(line -> line.tag("stream").equals("$checkpoint"));
            });
            kill("stateful");
        }
    }

    @Test
    void whatCannotBeBatchedIsOneLine() throws Exception {
        Map<String, Object> settings = submission.settings("refused", "http://127.0.0.1:9/");
        settings.put("batching", Map.of("sauce", BATCH));
        Submission.Exit exit = submission.submit(settings);
        assertEquals(2, exit.status());
        assertEquals("topology.batching: there is no component sauce; the topology has clock, counted, direct, pool, sink,"
            + " source, window", exit.err().lines().reduce((first, last) -> last).orElse(""));
    }

    private static Map<String, Object> everything() {
        Map<String, Object> batching = new HashMap<>();
        batching.put("source", BATCH);
        OrderedTopology.GROUPINGS.forEach(grouping -> batching.put(grouping, BATCH));
        batching.put("fields:straight", Map.of("size", 3, "flush_ms", 2));
        return batching;
    }

    /** Runs until every message is acked, and nothing more arrives. */
    private static Notes run(String name, String how, Map<String, Object> batching) throws Exception {
        return run(name, how, batching, false);
    }

    /** @param resizing whether it is told other batch sizes again and again */
    private static Notes run(String name, String how, Map<String, Object> batching, boolean resizing) throws Exception {
        Notes notes = new Notes();
        OrderedTopology.NOTES.put(name, notes);
        Map<String, Object> settings = submission.settings(name, "http://127.0.0.1:9/");
        settings.put("main", OrderedTopology.class.getName());
        settings.put("args", List.of(name, how));
        settings.put("instrument", false);
        settings.put("batching", batching);
        submit(settings);
        int[] size = new int[1];
        await(() -> {
            if (resizing) {
                size[0] = size[0] % 5 + 1;
                resize(name, OrderedTopology.GROUPINGS, size[0]);
            }
            return notes.acked.size() == OrderedTopology.MESSAGES;
        }, true);
        long[] before = new long[1];
        await(() -> { // no ack waits for the tuples of attempts that had failed already
            long now = notes.received.values().stream().mapToLong(List::size).sum();
            boolean still = now == before[0];
            before[0] = now;
            return still && haveArrived(notes);
        }, false); // a count that does not come is asserted, by name
        kill(name);
        return notes;
    }

    /** Whether each emit has come to each grouping that does not choose how often, and all that they passed on to its end. */
    private static boolean haveArrived(Notes notes) {
        long emits = notes.emits.get();
        return ONCE.stream().allMatch(grouping -> notes.count(grouping) == emits) && notes.count("all") == 2 * emits
            && notes.count("end") == relayed(notes) && notes.count("straight") == relayed(notes);
    }

    private static long relayed(Notes notes) {
        return OrderedTopology.GROUPINGS.stream().mapToLong(notes::count).sum() - notes.refusals.get();
    }

    /** Gives a running topology other batch sizes for the default streams of components. */
    private static void resize(String name, List<String> components, int size) {
        String sizes = components.stream()
            .map(component -> "\"" + component + "\": {\"default\": {\"size\": " + size + ", \"flush_ms\": 3}}")
            .collect(Collectors.joining(", ", "{", "}"));
        try {
            submission.cluster.uploadNewCredentials(name, new Credentials(Map.of(LiveSizes.KEY, sizes)));
        } catch (TException e) {
            throw new IllegalStateException(e);
        }
    }

    /** At once: by itself Storm waits as long as messages last, and slots are few. */
    private static void kill(String name) throws Exception {
        KillOptions soon = new KillOptions();
        soon.set_wait_secs(0);
        submission.cluster.killTopologyWithOpts(name, soon);
    }

    /** @param must whether it is an error that the condition never comes true */
    private static void await(BooleanSupplier condition, boolean must) throws Exception {
        long giveUpNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Receiver.PATIENCE_MS);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > giveUpNs) {
                if (must) {
                    throw new TimeoutException("not every message was acked");
                }
                return;
            }
            Thread.sleep(500);
        }
    }

    private static Map<String, Object> submit(Map<String, Object> settings) throws Exception {
        Submission.Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        return Submit.object(exit.answer());
    }

    /** What does not depend on chance: all but three groupings, and what those pass on by field or directly. */
    private static Map<String, List<Integer>> deterministic(Notes notes) {
        Set<String> by = new HashSet<>();
        notes.received.keySet().stream()
            .filter(way -> OrderedTopology.RANDOM.contains(way.substring(0, way.indexOf(' '))))
            .forEach(way -> by.add(way.substring(way.indexOf('>') + 2)));
        Map<String, List<Integer>> ways = new TreeMap<>(notes.received);
        ways.keySet().removeIf(way -> OrderedTopology.RANDOM.contains(way.substring(0, way.indexOf(' ')))
            || by.contains(way.split(" ")[1]));
        return ways;
    }

    /** By message: tasks that were chosen, less those of groupings that draw. */
    private static Map<Integer, List<Integer>> chosen(Notes notes) {
        Set<Integer> random = new HashSet<>();
        notes.received.keySet().stream()
            .filter(way -> OrderedTopology.RANDOM.contains(way.substring(0, way.indexOf(' '))))
            .forEach(way -> random.add(Integer.parseInt(way.substring(way.indexOf('>') + 2))));
        Map<Integer, List<Integer>> chosen = new TreeMap<>();
        notes.returned.forEach((n, tasks) -> chosen.put(n, tasks.stream().filter(task -> !random.contains(task)).toList()));
        return chosen;
    }

    private static List<Line> parse(List<String> lines) {
        return lines.stream().map(Line::parse).toList();
    }

    private static long sum(List<Line> lines, String field, String measurement, String component) {
        Predicate<Line> which = line -> line.measurement().equals(measurement) && line.tag("component").equals(component)
            && !line.tag("stream").startsWith("__") && line.fields().containsKey(field);
        return lines.stream().filter(which).mapToLong(line -> line.count(field)).sum();
    }
}
