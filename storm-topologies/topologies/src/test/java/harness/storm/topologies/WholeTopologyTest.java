package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import harness.storm.keygroups.RoutingTable;
import harness.storm.rewrite.BatchSize;
import harness.storm.rewrite.Rewriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.TopologySummary;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Topologies in Storm's LocalCluster, between the topics of a real broker. */
@Tag("deep")
class WholeTopologyTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PARTITIONS = 4;
    private static final int TASKS = 4;
    private static final long PATIENCE_NS = 180_000_000_000L;

    @TempDir static Path folder;
    private static Broker broker;
    private static LocalCluster cluster;

    private final List<Record> records = new ArrayList<>();
    private KafkaConsumer<byte[], byte[]> output;
    private TopologySettings settings;

    /** A record of the output topic, read by the documented layout. */
    private record Record(String sink, String path, long thesisEnteredNs, List<Member> members) {
        static Record decode(byte[] value) {
            ByteBuffer in = ByteBuffer.wrap(value);
            assertEquals(1, in.get());
            String sink = text(in, Byte.toUnsignedInt(in.get()));
            String path = text(in, Short.toUnsignedInt(in.getShort()));
            long thesisEnteredNs = in.getLong();
            int count = in.getInt();
            byte[] rest = new byte[in.remaining()];
            in.get(rest);
            try {
                List<Member> members = Members.decode(rest);
                assertEquals(count, members.size());
                return new Record(sink, path, thesisEnteredNs, members);
            } catch (MalformedMessageException e) {
                throw new AssertionError(e);
            }
        }

        private static String text(ByteBuffer in, int length) {
            byte[] bytes = new byte[length];
            in.get(bytes);
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    @BeforeAll
    static void start() throws Exception {
        broker = new Broker(folder.resolve("kafka"));
        cluster = new LocalCluster.Builder().withSupervisors(1).withPortsPerSupervisor(3).build();
    }

    @AfterAll
    static void stop() throws Exception {
        if (cluster != null) {
            cluster.close();
        }
        if (broker != null) {
            broker.close();
        }
    }

    @AfterEach
    void kill() throws Exception {
        output.close();
        KillOptions now = new KillOptions();
        now.set_wait_secs(0);
        cluster.killTopologyWithOpts(settings.name(), now);
    }

    /** @param size tuples of a batch, on every stream; 0 for a topology that is not rewritten */
    private void submit(String name, int size) throws Exception {
        ObjectNode json = (ObjectNode) JSON.readTree(WholeTopologyTest.class.getResource("/" + name));
        String topic = name + "-" + size;
        json.put("name", json.get("name").asText() + "-" + size);
        json.withObjectProperty("spout").put("bootstrap", broker.bootstrap())
                .put("group", topic).put("commit_period_ms", 3_600_000);
        json.withObjectProperty("sink").put("bootstrap", broker.bootstrap()).put("topic", topic + "-out");
        ((ObjectNode) json.at("/components/spout")).put("topic", topic + "-in");
        json.withObjectProperty("components").forEach(c -> ((ObjectNode) c).put("tasks", TASKS).put("executors", 2));
        json.withObjectProperty("components").properties().stream()
                .filter(c -> c.getValue().hasNonNull("groups"))
                .forEach(c -> ((ObjectNode) c.getValue()).put("topic", topic + "-" + c.getKey()));
        // With two workers, and always serialising, tuples pass through Kryo as they do on a cluster.
        json.withObjectProperty("storm").put(Config.TOPOLOGY_WORKERS, 2)
                .put(Config.TOPOLOGY_TESTING_ALWAYS_TRY_SERIALIZE, true)
                .put(Config.TOPOLOGY_FALL_BACK_ON_JAVA_SERIALIZATION, false)
                .put(Config.TOPOLOGY_ACKER_EXECUTORS, 1)
                .put(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS, 3600);
        Path file = folder.resolve(name);
        Files.writeString(file, json.toString());
        settings = SettingsReader.read(file);
        broker.createTopics(PARTITIONS, input(), settings.sink().topic());
        for (TopologySettings.Component component : settings.components().values()) {
            if (component.groups() != null) {
                broker.createTopics(1, component.topic());
            }
        }
        output = broker.read(settings.sink().topic());
        StormTopology topology = TopologyFactory.build(settings);
        Map<String, Object> storm = new HashMap<>(settings.storm());
        Map<String, BatchSize> batching = new HashMap<>();
        if (size > 0) {
            settings.streams().forEach(stream -> batching.put(stream.source(), new BatchSize(size, 5)));
        }
        Rewriter.plan(topology, storm, batching).apply(topology, storm);
        cluster.submitTopology(settings.name(), storm, topology);
    }

    private String input() {
        return settings.components().get("spout").topic();
    }

    private void send(long firstId, long lastId) {
        for (long id = firstId; id <= lastId; id++) {
            String json = "{\"message_id\": " + id + ", \"payload\": \"text\"}";
            broker.send(input(), (int) (id % PARTITIONS), json);
        }
        broker.flush();
    }

    private void await(String what, BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + PATIENCE_NS;
        while (!condition.getAsBoolean()) {
            assertTrue(
                    System.nanoTime() < deadlineNs,
                    () -> "waited in vain for " + what + "; records: " + records.size());
            Broker.poll(output).forEach(value -> records.add(Record.decode(value)));
        }
    }

    private List<String> listed(String sink) {
        return records.stream()
                .filter(r -> r.sink().equals(sink))
                .flatMap(r -> r.members().stream().map(Member::label))
                .toList();
    }

    /** The children of these messages, by the task that fields grouping sends them to. */
    private Map<Integer, Set<String>> childrenByTask(long firstId, long lastId) {
        Map<Integer, Set<String>> byTask = new HashMap<>();
        for (long id = firstId; id <= lastId; id++) {
            Message message = new Message(id, 0, "text", "spout:1", null);
            int count = settings.components().get("multiplier").multiplier().of(settings.seed(), message);
            for (int child = 1; child <= count; child++) {
                String key = settings.keys().of(settings.seed(), message.withChild(child));
                byTask.computeIfAbsent(taskOf(key), t -> new HashSet<>()).add(id + "/" + child);
            }
        }
        return byTask;
    }

    /** Storm's fields grouping on one field, as an index into the target's tasks. */
    private static int taskOf(String key) {
        return Math.floorMod(Arrays.deepHashCode(new Object[] {key}), TASKS);
    }

    /**
     * All-in-one: how many members the windows let through is known beforehand, since keys, children and
     * Storm's hash are, with batches or without. Then a rebalance, with commits due only once an hour: nothing is sent twice.
     */
    @ParameterizedTest
    @ValueSource(ints = {0, 7})
    void allInOneLosesAndRepeatsNothing(int size) throws Exception {
        submit("all-in-one.json", size);
        int window = settings.components().get("window").window().length();
        send(1, 60);
        Map<Integer, Set<String>> byTask = childrenByTask(1, 60);
        int expected = byTask.values().stream().mapToInt(c -> c.size() / window * window).sum();
        await(expected + " members", () -> listed("sender").size() >= expected);

        assertEquals(expected, listed("sender").size());
        assertEquals(expected, Set.copyOf(listed("sender")).size());
        Set<String> children = new HashSet<>();
        byTask.values().forEach(children::addAll);
        assertTrue(children.containsAll(listed("sender")));
        records.forEach(r -> assertRecord(r, List.of("spout", "multiplier", "window", "sender"), window));

        RebalanceOptions options = new RebalanceOptions();
        options.set_wait_secs(2);
        options.set_num_workers(1);
        cluster.rebalance(settings.name(), options);
        Map<TopicPartition, Long> sent = new HashMap<>();
        for (int p = 0; p < PARTITIONS; p++) {
            sent.put(new TopicPartition(input(), p), 15L);
        }
        await("the spouts' commits when deactivated", () -> committed().equals(sent));
        await("the end of the rebalance", this::active);
        long[] next = {1000};
        await("outputs after the rebalance", () -> {
            send(next[0], next[0]++);
            return listed("sender").size() >= expected + 5 * window;
        });
        assertEquals(listed("sender").size(), Set.copyOf(listed("sender")).size(), "a message was read again");
    }

    private Map<TopicPartition, Long> committed() {
        try {
            Map<TopicPartition, Long> offsets = new HashMap<>();
            broker.committed(settings.spout().group()).forEach((p, o) -> offsets.put(p, o.offset()));
            return offsets;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private boolean active() {
        try {
            return cluster.getClusterInfo().get_topologies().stream()
                    .filter(t -> t.get_name().equals(settings.name()))
                    .map(TopologySummary::get_status)
                    .anyMatch("ACTIVE"::equals);
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private void assertRecord(Record record, List<String> components, int members) {
        List<String> path = List.of(record.path().split("/"));
        assertEquals(components, path.stream().map(step -> step.substring(0, step.indexOf(':'))).toList());
        assertEquals(components.get(components.size() - 1), record.sink());
        assertEquals(members, record.members().size());
        for (Member member : record.members()) {
            assertEquals(components.size(), member.hops().size());
            long reachedNs = member.enteredNs();
            for (Hop hop : member.hops()) {
                assertTrue(hop.receivedNs() >= reachedNs && hop.emittedNs() >= hop.receivedNs(), member.toString());
                reachedNs = hop.emittedNs();
            }
        }
        List<Long> entries = record.members().stream().map(Member::enteredNs).sorted().toList();
        assertTrue(entries.get(0) <= record.thesisEnteredNs() && record.thesisEnteredNs() <= entries.get(members - 1));
    }

    /** Join-split, one output a window on each stream: both sinks are told of the same members. */
    @ParameterizedTest
    @ValueSource(ints = {0, 7})
    void joinSplitTellsBothSinksOfEveryMember(int size) throws Exception {
        submit("join-split.json", size);
        int window = settings.components().get("join").window().length();
        send(1, 100);
        Map<Integer, Set<String>> byTask = childrenByTask(1, 100);
        for (long id = 1; id <= 100; id++) {
            // Through the json component a message stays child 0.
            Message message = new Message(id, 0, "text", "spout:1", null);
            String key = settings.keys().of(settings.seed(), message);
            byTask.computeIfAbsent(taskOf(key), t -> new HashSet<>()).add(id + "/0");
        }
        int expected = byTask.values().stream().mapToInt(c -> c.size() / window * window).sum();
        await(expected + " members at each sink",
                () -> listed("sender-1").size() >= expected && listed("sender-2").size() >= expected);
        assertEquals(expected, Set.copyOf(listed("sender-1")).size());
        assertEquals(expected, listed("sender-1").size());
        assertEquals(expected, listed("sender-2").size());
        assertEquals(Set.copyOf(listed("sender-1")), Set.copyOf(listed("sender-2")));
    }

    /**
     * Every group of two keyed components moves five times while messages flow. Each message comes out once, the messages
     * of a key that one task sent stay in order, and at last all go by the last tables.
     */
    @Test
    void keyGroupsMoveWhileMessagesFlow() throws Exception {
        submit("keyed.json", 0);
        String topology = cluster.getClusterInfo().get_topologies().stream()
                .filter(t -> t.get_name().equals(settings.name()))
                .map(TopologySummary::get_id)
                .findFirst()
                .orElseThrow();
        int each = 150;
        int last = 5;
        send(1, each);
        await("the first outputs", () -> !records.isEmpty());
        for (int version = 1; version <= last; version++) {
            publish(topology, version, "count");
            publish(topology, version, "total");
            send((long) version * each + 1, (long) (version + 1) * each);
            int expected = (version + 1) * each;
            await(expected + " outputs", () -> listed("sender").size() >= expected);
        }
        long[] next = {10_000};
        await("the last tables", () -> {
            send(next[0], next[0]++);
            return byTables(records.get(records.size() - 1), last);
        });
        await("what was sent", () -> listed("sender").size() == (last + 1) * each + (int) (next[0] - 10_000));
        int before = records.size();
        send(20_001, 20_200);
        await("messages by the last tables", () -> records.size() == before + 200);
        records.subList(before, before + 200).forEach(r -> assertTrue(byTables(r, last), r.path()));
        assertEquals(records.size(), Set.copyOf(listed("sender")).size(), "a message came out twice");
        assertOrderByKey();
    }

    /** Publishes a table: group g is on task g + version, modulo the tasks. */
    private void publish(String topology, int version, String component) {
        int groups = settings.components().get(component).groups();
        List<Integer> tasks = IntStream.range(0, groups).mapToObj(g -> (g + version) % TASKS).toList();
        byte[] json = new RoutingTable(topology, version, tasks).encode();
        broker.send(settings.components().get(component).topic(), 0, new String(json, StandardCharsets.UTF_8));
        broker.flush();
    }

    private String key(Record record) {
        long id = record.members().get(0).messageId();
        return settings.keys().of(settings.seed(), new Message(id, 0, "text", "spout:1", null));
    }

    private boolean byTables(Record record, int version) {
        return List.of("count", "total").stream().allMatch(component -> {
            int groups = settings.components().get(component).groups();
            int wanted = (RoutingTable.group(key(record), groups) + version) % TASKS;
            List<Integer> tasks = records.stream().map(r -> taskIn(r, component)).distinct().sorted().toList();
            return tasks.size() == TASKS && taskIn(record, component) == tasks.get(wanted);
        });
    }

    private static int taskIn(Record record, String component) {
        return Arrays.stream(record.path().split("/"))
                .filter(step -> step.startsWith(component + ":"))
                .mapToInt(step -> Integer.parseInt(step.substring(component.length() + 1)))
                .findFirst()
                .orElseThrow();
    }

    /** The third hop is that of {@code count}, the second that of the task which sent to it. */
    private void assertOrderByKey() {
        Map<String, List<List<Hop>>> bySender = new HashMap<>();
        for (Record record : records) {
            String name = taskIn(record, "parse") + " " + key(record);
            bySender.computeIfAbsent(name, n -> new ArrayList<>()).add(record.members().get(0).hops());
        }
        for (List<List<Hop>> hops : bySender.values()) {
            hops.sort(Comparator.comparingLong(h -> h.get(1).emittedNs()));
            List<Long> served = hops.stream().map(h -> h.get(2).emittedNs()).toList();
            assertEquals(served.stream().sorted().toList(), served);
        }
    }
}
