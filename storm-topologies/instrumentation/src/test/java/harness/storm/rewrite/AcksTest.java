package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Acks of random topologies, trees, batch sizes (which change at any time), orders and failures, against a ledger that user code keeps: of every message,
 * how many tuples of its tree are not acked yet. It holds without the layer, so it is what a topology relies on.
 */
class AcksTest {
    private static final int WAITS_FOR_EVER_MS = 29_000;
    private static final int TRIALS = 120;

    private static Ledger ledger;

    @ParameterizedTest
    @CsvSource({"false, false, false, 0", "false, false, false, 0.02", "true, false, false, 0", "true, false, false, 0.02",
        "true, false, false, 0.2", "false, true, false, 0", "false, true, false, 0.02", "true, true, false, 0",
        "true, true, false, 0.02", "true, false, true, 0", "true, false, true, 0.02", "true, false, true, 0.2",
        "true, true, true, 0", "true, true, true, 0.02"})
    void everyMessageIsAnsweredOnceAndNoneIsAckedEarly(boolean batched, boolean helped, boolean resized, double failing) {
        int acked = 0;
        int failed = 0;
        int tuples = 0;
        int delivered = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            ledger = new Ledger(new Random(1000L * trial + 7), failing);
            Net net = run(trial, batched, helped, resized);
            assertTrue(ledger.messages > 0 && ledger.order.size() > 0);
            assertEquals(ledger.messages, ledger.acked.size() + ledger.failed.size(), "every message is answered");
            acked += ledger.acked.size();
            failed += ledger.failed.size();
            tuples += ledger.received;
            delivered += net.delivered;
        }
        assertTrue(acked > 0);
        assertEquals(failing > 0, failed > 0);
        if (batched) {
            assertTrue(delivered < tuples * (resized ? 0.9 : 0.8), delivered + " deliveries of " + tuples + " tuples");
        } else if (!helped) {
            assertEquals(tuples, delivered);
        } else {
            assertTrue(delivered < tuples, "some were not delivered, and served where they were made");
        }
    }

    private static Net run(int trial, boolean batched, boolean helped, boolean resized) {
        Random random = ledger.random;
        StormTopology topology = topology(random);
        Map<String, Object> conf = new HashMap<>();
        Map<String, BatchSize> sizes = new TreeMap<>();
        if (batched) {
            for (String key : List.of("source", "a", "a:more", "b", "c", "d", "d:more", "source:default")) {
                if (random.nextInt(4) > 0) {
                    sizes.put(key, new BatchSize(1 + random.nextInt(7), WAITS_FOR_EVER_MS));
                }
            }
            sizes.put("b:default", new BatchSize(3, WAITS_FOR_EVER_MS));
        }
        Map<String, HelpSettings> helping = helped ? Map.of("d", new HelpSettings(0.3, 50, 10)) : Map.of();
        Rewriter.plan(topology, conf, sizes, helping, null).apply(topology, conf);
        Ratio ratio = Ratio.of("t-1:6700", "c", "d", 0.3);
        for (int i = random.nextInt(4); i >= 0; i--) {
            if (ratio.value() < 0.8) {
                ratio.helpIsAskedFor();
            } else {
                ratio.helperIsBusy();
            }
        }
        Net net = new Net(topology, conf, true, trial);
        Watermarks marks = new Watermarks(50, 10);
        Relief relief = Relief.of("t-1:6700",
            new ReliefPlan(Map.of("c", marks, "d", marks), Map.of("d", "c"), Map.of("d", 0.3), false));
        ledger.resized = resized;
        LiveSizes.of("t-1").set(Map.of());
        for (int i = 0; i < 30; i++) {
            relief.look(i, task -> 100 * random.nextInt(2)); // help with all begins, and ends in both ways
            net.nextTuples();
            for (int k = random.nextInt(12); k > 0 && net.step(); k--) {
                continue;
            }
        }
        ledger.last = true;
        net.deactivate();
        for (int i = 0; i < 8; i++) { // a tick for every layer of bolts, and what it makes
            net.deliverAll();
            net.tick();
        }
        net.tasks.values().forEach(tasks -> tasks.forEach(relief::leave));
        LiveSizes.of("t-1").set(Map.of());
        return net;
    }

    /** Other batch sizes, at any time: some of them 1, some as submitted. */
    private static void resize() {
        if (!ledger.resized || ledger.random.nextInt(50) > 0) {
            return;
        }
        Map<String, Map<String, BatchSize>> told = new TreeMap<>();
        for (String component : List.of("source", "a", "b", "c", "d")) {
            Map<String, BatchSize> sizes = new TreeMap<>();
            for (String stream : List.of("default", "more", "straight")) {
                if (ledger.random.nextInt(4) > 0) {
                    sizes.put(stream, new BatchSize(Math.max(1, ledger.random.nextInt(7) - 1), WAITS_FOR_EVER_MS));
                }
            }
            told.put(component, sizes);
        }
        LiveSizes.of("t-1").set(told);
    }

    private static StormTopology topology(Random random) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Source(), 2);
        group(builder.setBolt("a", new Joiner(), 3), "source", "default", random);
        BoltDeclarer b = builder.setBolt("b", new Joiner(), 2);
        group(b, "a", "default", random);
        group(b, "a", "more", random);
        group(b, "source", "more", random);
        BoltDeclarer c = builder.setBolt("c", new Joiner(), 2);
        group(c, "b", "default", random);
        group(c, "a", "more", random);
        c.directGrouping("b", "straight");
        builder.setBolt("d", new Joiner(), 2).shuffleGrouping("c");
        BoltDeclarer e = builder.setBolt("e", new Joiner(), 2);
        group(e, "d", "default", random);
        group(e, "d", "more", random);
        group(e, "c", "more", random);
        return builder.createTopology();
    }

    private static void group(BoltDeclarer bolt, String source, String stream, Random random) {
        switch (random.nextInt(7)) {
            case 0 -> bolt.fieldsGrouping(source, stream, new Fields("key"));
            case 1 -> bolt.allGrouping(source, stream);
            case 2 -> bolt.globalGrouping(source, stream);
            case 3 -> bolt.noneGrouping(source, stream);
            case 4 -> bolt.localOrShuffleGrouping(source, stream);
            case 5 -> bolt.customGrouping(source, stream, new PartialKeyGrouping(new Fields("key")));
            default -> bolt.shuffleGrouping(source, stream);
        }
    }

    /** What user code knows. */
    private static final class Ledger {
        final Random random;
        final double failing;
        final Map<String, Integer> open = new HashMap<>();
        final Set<String> broken = new HashSet<>();
        final Set<String> acked = new TreeSet<>();
        final Set<String> failed = new TreeSet<>();
        final Map<List<Object>, Long> order = new HashMap<>();
        int messages;
        int received;
        long serial;
        boolean last;
        boolean resized;

        Ledger(Random random, double failing) {
            this.random = random;
            this.failing = failing;
        }

        void emitted(Set<String> of, int copies) {
            of.forEach(message -> open.merge(message, copies, Integer::sum));
        }

        void received(int task, Tuple tuple) {
            received++;
            if (tuple.getSourceComponent().equals("d")) {
                return; // which may come from a helper as well, and then by another way
            }
            Long before = order.put(List.of(tuple.getSourceTask(), task), tuple.getLong(2));
            assertTrue(before == null || before < tuple.getLong(2), () -> "overtaken: " + tuple);
        }

        void answered(Tuple tuple, boolean well) {
            for (String message : messages(tuple)) {
                open.merge(message, -1, Integer::sum);
                if (!well) {
                    broken.add(message);
                }
            }
        }

        void ackedMessage(Object id) {
            assertEquals(0, open.get(id), () -> id + " is acked with tuples open");
            assertFalse(broken.contains(id), () -> id + " is acked and has failed");
            assertTrue(!failed.contains(id) && acked.add((String) id), () -> id + " is answered twice");
        }

        void failedMessage(Object id) {
            assertFalse(broken.isEmpty(), () -> id + " failed and nothing was failed");
            assertTrue(!acked.contains(id) && failed.add((String) id), () -> id + " is answered twice");
        }
    }

    @SuppressWarnings("unchecked")
    private static Set<String> messages(Tuple tuple) {
        return (Set<String>) tuple.getValueByField("messages");
    }

    private static void declare(OutputFieldsDeclarer declarer) {
        Fields fields = new Fields("key", "messages", "serial");
        declarer.declare(fields);
        declarer.declareStream("more", fields);
        declarer.declareStream("straight", true, fields);
    }

    public static final class Source extends BaseRichSpout {
        private static final long serialVersionUID = 1L;
        private transient SpoutOutputCollector collector;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            collector = output;
        }

        @Override
        public void nextTuple() {
            for (int i = ledger.random.nextInt(3); i > 0; i--) {
                String id = "m-" + ledger.messages++;
                Set<String> of = Set.of(id);
                String stream = ledger.random.nextBoolean() ? "more" : "default";
                List<Integer> tasks = collector.emit(stream, values(of), id);
                ledger.emitted(of, tasks.size());
            }
        }

        @Override
        public void ack(Object id) {
            ledger.ackedMessage(id);
        }

        @Override
        public void fail(Object id) {
            ledger.failedMessage(id);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    private static Values values(Set<String> messages) {
        resize();
        return new Values(ledger.random.nextInt(5), messages, ledger.serial++);
    }

    /** Holds inputs, emits anchored to any of them, acks and fails them in any order, some of them as copies. */
    public static final class Joiner extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;
        private transient TopologyContext context;
        private transient List<Tuple> held;
        private transient boolean helping;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext own, OutputCollector output) {
            collector = output;
            context = own;
            held = new ArrayList<>();
        }

        @Override
        public void execute(Tuple tuple) {
            if (TupleUtils.isTick(tuple)) {
                answer(ledger.last ? 0 : held.size());
                return;
            }
            ledger.received(context.getThisTaskId(), tuple);
            helping = tuple.getSourceComponent().equals(context.getThisComponentId());
            held.add(ledger.random.nextInt(10) == 0 ? new TupleImpl(tuple) : tuple);
            if (ledger.random.nextInt(3) > 0) {
                emit();
            }
            answer(helping ? 0 : ledger.random.nextInt(6)); // no ticks come to a bolt within another
        }

        private void emit() {
            List<Tuple> anchors = new ArrayList<>();
            Set<String> of = new TreeSet<>();
            for (int i = ledger.random.nextInt(3); i >= 0; i--) {
                Tuple anchor = held.get(ledger.random.nextInt(held.size()));
                anchors.add(anchor);
                of.addAll(messages(anchor));
            }
            String component = context.getThisComponentId();
            if (component.equals("b") && ledger.random.nextBoolean()) {
                int task = context.getComponentTasks("c").get(ledger.random.nextInt(2));
                collector.emitDirect(task, "straight", anchors, values(of));
                ledger.emitted(of, 1);
            } else if (!component.equals("e")) {
                String stream = ledger.random.nextBoolean() ? "more" : "default";
                List<Integer> tasks = collector.emit(stream, anchors, values(of));
                // what is helped goes to no task, and to one place
                ledger.emitted(of, component.equals("c") && !helping && stream.equals("default") ? 1 : tasks.size());
            }
        }

        private void answer(int keep) {
            while (held.size() > keep) {
                resize();
                Tuple tuple = held.remove(ledger.random.nextInt(held.size()));
                boolean well = ledger.random.nextDouble() >= ledger.failing;
                ledger.answered(tuple, well);
                if (well) {
                    collector.ack(tuple);
                } else {
                    collector.fail(tuple);
                }
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    /** The rule itself, on its own. */
    @ParameterizedTest
    @CsvSource({"1", "5"})
    void aPendingThingIsAnsweredOnce(int parts) {
        Message message = new Message("m", parts);
        message.expect();
        for (int part = 0; part < parts; part++) {
            assertFalse(message.done());
        }
        assertTrue(message.done());
        assertFalse(message.failed());
        Message failing = new Message("f", parts);
        assertTrue(failing.failed());
        assertFalse(failing.failed());
        for (int part = 0; part < parts; part++) {
            assertFalse(failing.done());
        }
        assertNull(new Message(null, 1).id());
    }
}
