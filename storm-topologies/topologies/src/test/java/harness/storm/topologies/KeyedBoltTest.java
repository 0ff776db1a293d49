package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import harness.storm.instrument.Series;
import harness.storm.keygroups.KeyedStreams;
import harness.storm.keygroups.KeyedTarget;
import harness.storm.keygroups.RoutingTable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Two tasks of component {@code count} of keyed.json, 8 groups, with a sending task 5; what they send is delivered. */
class KeyedBoltTest {
    private static final int SENDER = 5;
    private static final int GROUPS = 8;
    private static final int BUCKET_S = 2;
    private static final KeyedTarget TOTAL = new KeyedTarget("total", 6, new HashMap<>(), "run-total");

    private final List<Task> tasks = new ArrayList<>();
    private final Map<Integer, Map<Integer, Map<String, IMetric>>> metrics = new HashMap<>();
    private StormTopology topology;

    private final class Task extends Fixtures.Recorder {
        final KeyedBolt bolt;
        final TopologyContext context;
        private final int id;

        Task(int id) {
            this(id, new OutputKey(1.0, null), null);
        }

        Task(int id, OutputKey key, Aggregate aggregate) {
            this.id = id;
            bolt = new KeyedBolt(Fixtures.WORKLOAD, null, key, aggregate, GROUPS, List.of(TOTAL));
            context = context(id);
            Map<String, Object> conf =
                    Map.of(Series.BUCKET_S, BUCKET_S, Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS, 3600);
            bolt.prepare(conf, context, new OutputCollector(this));
        }

        Tuple get(String component, int from, String stream, Object... values) {
            Tuple tuple = new TupleImpl(context, List.of(values), component, from, stream);
            bolt.execute(tuple);
            return tuple;
        }

        Tuple message(String key, long id) {
            return message(key, id, "text");
        }

        Tuple message(String key, long id, String payload) {
            byte[] members = Members.encode(List.of(Fixtures.member(1, id, 1000)));
            String json = Fixtures.message(1, id).withPayload(payload).toJson();
            return get("parse", SENDER, "default", key, json, members);
        }

        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            assertEquals("default", stream);
            return super.emit(stream, anchors, values);
        }

        @Override
        public void emitDirect(int to, String stream, Collection<Tuple> anchors, List<Object> values) {
            assertEquals(KeyedStreams.STATES, stream);
            tasks.stream().filter(t -> t.id == to).forEach(t -> t.get("count", id, stream, values.toArray()));
        }
    }

    private TopologyContext context(int task) {
        Map<Integer, String> all = new TreeMap<>(Map.of(SENDER, "parse", 7, "count", 8, "count"));
        Map<String, List<Integer>> byComponent = Map.of("parse", List.of(SENDER), "count", List.of(7, 8));
        Map<String, Fields> parse = Map.of(
                "default", Tuples.fields(), KeyedStreams.TABLES, KeyedStreams.fields(KeyedStreams.TABLES));
        Map<String, Fields> count = Map.of(KeyedStreams.STATES, KeyedStreams.fields(KeyedStreams.STATES));
        return new TopologyContext(
                topology, Map.of(), all, byComponent, Map.of("parse", parse, "count", count), Map.of(), "topology-1", null,
                null, task, 6700, List.of(task), Map.of(), Map.of(), new HashMap<>(), metrics,
                new AtomicBoolean(false), null);
    }

    @BeforeEach
    void prepare() throws Exception {
        topology = TopologyFactory.build(SettingsReader.read(Path.of(getClass().getResource("/keyed.json").toURI())));
        tasks.add(new Task(7));
        tasks.add(new Task(8));
    }

    /** A key of a group that is on a task at first: groups are dealt in turn. */
    private static String keyOn(int task) {
        return IntStream.range(0, 100)
                .mapToObj(i -> "key " + i)
                .filter(key -> RoutingTable.group(key, GROUPS) % 2 == task)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void itsOutputsAreThoseOfAJsonBolt() {
        Tuple sent = tasks.get(0).message(keyOn(0), 12);
        assertEquals(List.of(sent), tasks.get(0).acked);
        List<Object> values = tasks.get(0).emitted.get(0).values();
        assertEquals(keyOn(0), values.get(0)); // forwarded_share is 1
        assertEquals(Fixtures.message(1, 12).via("count", 7).toJson(), values.get(1));
    }

    /** Delays 12 and -5 of one plane: a row goes on with the sum so far, by its route. What is no such row fails. */
    @Test
    void aRowGoesOnWithItsAggregate() {
        OutputKey route = new OutputKey(null, List.of("origin", "destination"));
        metrics.clear(); // a task registers its report once
        Task task = new Task(7, route, new Aggregate(Aggregate.Kind.SUM, "delay", null, null));
        task.message(keyOn(0), 1, "origin=P1;destination=P2;delay=12");
        task.message(keyOn(0), 2, "origin=P2;destination=P1;delay=-5");
        assertEquals(List.of("P1/P2", "P2/P1"), task.emitted.stream().map(Fixtures.Emitted::key).toList());
        assertEquals("origin=P2;destination=P1;delay=-5;sum=7", task.emitted.get(1).message().payload());
        Tuple text = task.message(keyOn(0), 3);
        Tuple alone = task.message(keyOn(0), 4, "delay=1");
        assertEquals(List.of(text, alone), task.failed);
        assertEquals(2, task.emitted.size());
        task.errors.forEach(error -> assertInstanceOf(MalformedMessageException.class, error));
    }

    /** All groups change places: the message that comes before the state waits, unacked, and goes on behind it. */
    @Test
    void aMessageWaitsForItsGroup() {
        tasks.get(0).message(keyOn(0), 1);
        List<Integer> swapped = IntStream.range(0, GROUPS).mapToObj(g -> 1 - g % 2).collect(Collectors.toList());
        byte[] table = new RoutingTable("topology-1", 1, swapped).encode();
        tasks.get(1).get("parse", SENDER, KeyedStreams.TABLES, (Object) table);
        Tuple early = tasks.get(1).message(keyOn(0), 2);
        assertEquals(0, tasks.get(1).emitted.size());
        assertEquals(false, tasks.get(1).acked.contains(early));
        tasks.get(0).get("parse", SENDER, KeyedStreams.TABLES, (Object) table);
        assertEquals(1, tasks.get(1).emitted.size());
        assertEquals(true, tasks.get(1).acked.contains(early));
        tasks.forEach(task -> assertEquals(List.of(), task.errors));
        tasks.forEach(task -> assertEquals(List.of(), task.failed));
    }

    /**
     * What the tasks report has the names of {@code metrics.json}, which Python's types make ({@code harness.schemas}). Each
     * has 4 of 8 groups, and says of those that came when they did; the second time nothing came.
     */
    @Test
    void itReportsItsGroupsAndWhatCame() throws Exception {
        aMessageWaitsForItsGroup();
        List<String> reported = reported(8);
        Set<String> names = reported.stream().map(line -> line.substring(0, line.indexOf(','))).collect(Collectors.toSet());
        assertEquals(Set.of("key_group", "key_group_moved", "key_group_sent"), names);
        assertEquals(4, reported.stream().filter(line -> line.startsWith("key_group_moved,peer=")).count());
        String group = String.valueOf(RoutingTable.group(keyOn(0), GROUPS));
        String moved = reported.stream()
                .filter(line -> line.startsWith("key_group_moved,peer=" + group + " "))
                .findFirst()
                .orElseThrow();
        String way = group + ">" + RoutingTable.group(keyOn(0), TOTAL.groups());
        assertTrue(reported.contains("key_group_sent,stream=total,peer=" + way + " count=1i"), reported.toString());
        long bytes = 8 + 4 + 4 + keyOn(0).length() + 8 + 4 + "text".length() + 4; // the layout of GroupState
        assertTrue(moved.contains("table_version=1i") && moved.contains("held=1i"), moved);
        assertTrue(moved.contains("state_bytes=" + bytes + "i"), moved);
        assertTrue(reported.stream().anyMatch(l -> l.startsWith("key_group,peer=" + group + " ") && l.contains("state_tuples=2i")));
        assertEquals(fields(), Stream.of(reported, reported(7)).flatMap(List::stream).flatMap(KeyedBoltTest::fields).collect(
                Collectors.toSet()));
        assertEquals(List.of(), reported(8).stream().filter(line -> line.startsWith("key_group_moved")).toList());
    }

    /** A task's lines for the bucket that ends now, series and fields. */
    private List<String> reported(int task) {
        Map<?, ?> report =
                (Map<?, ?>) metrics.get(BUCKET_S).get(task).get(Series.PREFIX + "groups").getValueAndReset();
        return report.entrySet().stream()
                .filter(line -> line.getValue() instanceof String) // the other value is the time
                .map(line -> line.getKey() + " " + line.getValue())
                .toList();
    }

    private static Stream<String> fields(String line) {
        String series = line.substring(0, line.indexOf(','));
        return Stream.of(line.substring(line.indexOf(' ') + 1).split(","))
                .map(field -> series + " " + field.substring(0, field.indexOf('=')));
    }

    private static Set<String> fields() throws IOException {
        try (InputStream file = KeyedBoltTest.class.getResourceAsStream("/metrics.json")) {
            Set<String> listed = new HashSet<>();
            for (Map.Entry<String, JsonNode> metric : new ObjectMapper().readTree(file).properties()) {
                if (metric.getValue().get("reporter").asText().equals("keyed test bolts")) {
                    metric.getValue().get("fields").forEach(field -> listed.add(metric.getKey() + " " + field.asText()));
                }
            }
            return listed;
        }
    }

    @Test
    void whatIsNoTableIsReported() {
        tasks.get(0).get("parse", SENDER, KeyedStreams.TABLES, (Object) new byte[] {'{'});
        assertEquals(1, tasks.get(0).failed.size());
        assertInstanceOf(IOException.class, tasks.get(0).errors.get(0));
    }
}
