package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.storm.Config;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.grouping.LoadMapping;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tasks that are chosen and what reaches them, beside a topology without the layer, and beside Storm's groupers. */
class GroupingsTest {
    private static final int TUPLES = 4000; // four laps of what Storm shuffles by load
    /** Tasks are numbered by {@link Net} in the order of names: the source is task 1, the relay 2. */
    private static final List<Integer> SINKS = List.of(3, 4, 5, 6);

    /** By task that emitted: what its emits returned. */
    private static Map<Integer, List<List<Integer>>> returned;
    /** By sending and receiving task: the numbers that came, in order. */
    private static Map<List<Integer>, List<Integer>> received;

    @ParameterizedTest
    @ValueSource(strings = {"fields", "partial-key", "all", "global", "direct", "custom", "two", "one-local"})
    void deterministicGroupingsChooseTheSameTasksInTheSameOrder(String grouping) {
        Integer[] local = grouping.equals("one-local") ? new Integer[] {1, 2, 5} : new Integer[0];
        run(grouping, Map.of(), 0, net -> { }, local);
        Map<Integer, List<List<Integer>>> returnedBefore = returned;
        Map<List<Integer>, List<Integer>> receivedBefore = received;
        assertTrue(receivedBefore.values().stream().mapToInt(List::size).sum() >= 2 * TUPLES);
        for (int size : new int[] {1, 2, 7, 1000}) {
            run(grouping, Map.of(), size, net -> { }, local);
            assertEquals(returnedBefore, returned, () -> "tasks that emit returned, size " + size);
            assertEquals(receivedBefore, received, () -> "what came to tasks, size " + size);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"shuffle", "none", "local-or-shuffle"})
    void tuplesOfRandomGroupingsReachTheTasksThatWereChosen(String grouping) {
        for (boolean loadAware : new boolean[] {true, false}) {
            Integer[] local = grouping.equals("local-or-shuffle") ? new Integer[] {1, 2, 4, 6} : new Integer[0];
            run(grouping, Map.of(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, !loadAware), 7, net -> { }, local);
            Map<List<Integer>, List<Integer>> chosen = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
            returned.forEach((task, all) -> {
                for (int i = 0; i < all.size(); i++) {
                    assertEquals(1, all.get(i).size());
                    chosen.computeIfAbsent(List.of(task, all.get(i).get(0)), way -> new ArrayList<>()).add(number(task, i));
                }
            });
            assertEquals(chosen, received);
            if (local.length > 0) {
                Set<Integer> sinks = new HashSet<>();
                returned.get(2).forEach(sinks::addAll);
                assertEquals(Set.of(4, 6), sinks, "the worker's own tasks, as there are any");
            }
        }
    }

    /** The relay is one task of one executor, so what it gets numbered i it emits as the i-th. */
    private static int number(int task, int emitted) {
        return task == 1 ? emitted : received.get(List.of(1, 2)).get(emitted);
    }

    /** Storm's round robin goes through all tasks before it comes back to one. */
    @Test
    void shufflingWithoutLoadIsStormsRoundRobin() {
        run("shuffle", Map.of(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true), 7, net -> { });
        List<List<Integer>> tasks = returned.get(2);
        assertEquals(new HashSet<>(SINKS),
            new HashSet<>(tasks.subList(0, 4).stream().map(chosen -> chosen.get(0)).toList()));
        for (int i = 4; i < tasks.size(); i++) {
            assertEquals(tasks.get(i - 4), tasks.get(i));
        }
    }

    /** Storm draws by weights that follow from load, each exactly as often as its weight in a thousand. */
    @Test
    void shufflingByLoadHasStormsShares() {
        LoadMapping load = new LoadMapping();
        load.setLocal(Map.of(3, 0.9, 4, 0.0, 5, 0.0, 6, 0.1));
        Map<Integer, Long> even = shares(0, load, 0);
        Map<Integer, Long> before = shares(0, load, 30);
        assertNotEquals(even, before, "load changes what Storm chooses");
        assertEquals(before, shares(7, load, 30));
        assertEquals(even, shares(7, load, 0));
    }

    private static Map<Integer, Long> shares(int size, LoadMapping load, int refreshed) {
        run("shuffle", Map.of(), size, net -> {
            String stream = size > 0 ? HiddenStreams.route("default") : "default";
            for (int i = 0; i < refreshed; i++) {
                net.grouper("b-relay", stream, "c-sink").refreshLoad(load);
            }
        });
        Map<Integer, Long> shares = new TreeMap<>();
        returned.get(2).forEach(tasks -> shares.merge(tasks.get(0), 1L, Long::sum));
        return shares;
    }

    /** Groupers belong to Storm's executors: tasks of one executor take turns, so do theirs. */
    @ParameterizedTest
    @ValueSource(ints = {0, 5})
    void tasksOfOneExecutorShareAGrouper(int size) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Numbers(400), 2);
        builder.setBolt("c-sink", new Sink(), 4).shuffleGrouping("a-source");
        Map<String, Object> conf = new HashMap<>(Map.of(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true));
        deliver(builder.createTopology(), conf, size > 0 ? Map.of("a-source", size) : Map.of(), net -> { });
        for (int i = 0; i < 400; i += 2) {
            Set<Integer> four = new HashSet<>();
            for (int task = 1; task <= 2; task++) {
                four.addAll(returned.get(task).get(i));
                four.addAll(returned.get(task).get(i + 1));
            }
            assertEquals(Set.of(3, 4, 5, 6), four, "two emits of each of two tasks");
        }
    }

    @Test
    void wrongEmitsAreRefusedAsStormDoes() {
        for (int size : new int[] {0, 1, 5}) {
            assertEquals("Cannot emitDirect to a task expecting a regular grouping",
                refusal(size, collector -> collector.emitDirect(2, new Values(1, 1))));
            assertTrue(refusal(size, collector -> collector.emit("straight", new Values(1, 1)))
                .startsWith("Cannot do regular emit to direct stream"));
            assertEquals("Unknown stream ID: nowhere",
                refusal(size, collector -> collector.emit("nowhere", new Values(1))));
        }
    }

    private static String refusal(int size, Consumer<SpoutOutputCollector> emit) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Numbers(1), 1);
        group(builder.setBolt("b-regular", new Sink(), 1), "a-source", "shuffle");
        group(builder.setBolt("c-direct", new Sink(), 1), "a-source", "direct");
        String[] message = new String[1];
        deliver(builder.createTopology(), new HashMap<>(), size > 0 ? Map.of("a-source", size) : Map.of(), net ->
            message[0] = assertThrows(IllegalArgumentException.class, () -> emit.accept(Numbers.last)).getMessage());
        return message[0];
    }

    private static void run(
            String grouping, Map<String, Object> settings, int size, Consumer<Net> before, Integer... local) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Numbers(TUPLES), 1);
        group(builder.setBolt("b-relay", new Relay(grouping.equals("direct")), 1), "a-source", "global");
        group(builder.setBolt("c-sink", new Sink(), 4), "b-relay", grouping);
        if (grouping.equals("two")) {
            group(builder.setBolt("d-another", new Sink(), 3), "b-relay", "fields");
            group(builder.setBolt("e-zero", new Sink(), 1), "b-relay", "global");
        }
        StormTopology topology = builder.createTopology();
        Map<String, Integer> sizes = size > 0 ? Map.of("a-source", size, "b-relay", size) : Map.of();
        deliver(topology, new HashMap<>(settings), sizes, before, local);
    }

    private static void deliver(StormTopology topology, Map<String, Object> conf, Map<String, Integer> sizes,
            Consumer<Net> before, Integer... local) {
        returned = new TreeMap<>();
        received = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
        Map<String, BatchSize> batching = new HashMap<>();
        sizes.forEach((key, size) -> batching.put(key, new BatchSize(size, 29_000)));
        Rewriter.plan(topology, conf, batching).apply(topology, conf);
        Net net = new Net(topology, conf, true, 1, local);
        before.accept(net);
        for (int i = 0; i < TUPLES; i++) {
            net.nextTuples();
            if (i % 5 == 0) {
                net.step();
            }
        }
        net.deactivate();
        for (int i = 0; i < 3; i++) {
            net.deliverAll();
            net.tick();
        }
    }

    private static void group(BoltDeclarer bolt, String source, String grouping) {
        switch (grouping) {
            case "fields" -> bolt.fieldsGrouping(source, new Fields("key"));
            case "partial-key" -> bolt.customGrouping(source, new PartialKeyGrouping(new Fields("key")));
            case "all", "two" -> bolt.allGrouping(source);
            case "global" -> bolt.globalGrouping(source);
            case "direct" -> bolt.directGrouping(source, "straight");
            case "custom" -> bolt.customGrouping(source, new Every());
            case "none" -> bolt.noneGrouping(source);
            case "one-local", "local-or-shuffle" -> bolt.localOrShuffleGrouping(source);
            default -> bolt.shuffleGrouping(source);
        }
    }

    /** Chooses by what it saw: none, one, or two tasks, in an order of its own. */
    public static final class Every implements CustomStreamGrouping {
        private static final long serialVersionUID = 1L;
        private transient List<Integer> tasks;
        private transient GlobalStreamId stream;
        private transient int seen;

        @Override
        public void prepare(WorkerTopologyContext context, GlobalStreamId id, List<Integer> targetTasks) {
            tasks = targetTasks;
            stream = id;
        }

        @Override
        public List<Integer> chooseTasks(int taskId, List<Object> values) {
            seen += (Integer) values.get(0) + taskId + stream.get_componentId().length();
            int first = seen % tasks.size();
            return switch (seen % 3) {
                case 0 -> List.of();
                case 1 -> List.of(tasks.get(first));
                default -> List.of(tasks.get(first), tasks.get((first + 1) % tasks.size()), tasks.get(first));
            };
        }
    }

    private static void declare(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("key", "n"));
        declarer.declareStream("straight", true, new Fields("key", "n"));
    }

    private static void note(int task, List<Integer> tasks) {
        returned.computeIfAbsent(task, key -> new ArrayList<>()).add(List.copyOf(tasks));
    }

    public static final class Numbers extends BaseRichSpout {
        private static final long serialVersionUID = 1L;
        private static SpoutOutputCollector last;
        private final int count;
        private transient SpoutOutputCollector collector;
        private transient int task;
        private transient int next;

        Numbers(int count) {
            this.count = count;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            collector = output;
            last = output;
            task = context.getThisTaskId();
        }

        @Override
        public void nextTuple() {
            if (next < count) {
                note(task, collector.emit(new Values(next % 11, next), next));
                next++;
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    public static class Sink extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;
        private transient int task;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
            task = context.getThisTaskId();
        }

        @Override
        public void execute(Tuple tuple) {
            if (tuple.getSourceStreamId().startsWith("__")) {
                return;
            }
            received.computeIfAbsent(List.of(tuple.getSourceTask(), task), way -> new ArrayList<>())
                .add(tuple.getIntegerByField("n"));
            pass(tuple, collector, task);
            collector.ack(tuple);
        }

        void pass(Tuple tuple, OutputCollector output, int own) {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    public static final class Relay extends Sink {
        private static final long serialVersionUID = 1L;
        private final boolean direct;

        Relay(boolean direct) {
            this.direct = direct;
        }

        @Override
        void pass(Tuple tuple, OutputCollector output, int own) {
            if (direct) {
                int to = SINKS.get(tuple.getInteger(1) * 7 % 4);
                output.emitDirect(to, "straight", tuple, tuple.getValues());
                note(own, List.of(to));
            } else {
                note(own, output.emit(tuple, tuple.getValues()));
            }
        }
    }
}
