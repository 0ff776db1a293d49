package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.windowing.TupleWindow;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Leron's ratio and versatile bolt, on the topology of its section 6.2: word, compute twice, exclam1, exclam2. */
class HelpTest {
    private static final int WORDS = 600;
    private static final HelpSettings HELP = new HelpSettings(0.1, 50, 10);

    private static final Map<String, Integer> EXECUTED = new TreeMap<>();
    private static final List<Tuple> AT_END = new ArrayList<>();

    /** Steady requests: 1 - (1 - delta)^n, the paper's closed form, with delta 0.1. */
    @Test
    void theRatioFollowsEquationOne() {
        Ratio ratio = new Ratio(0.1);
        for (double expected : new double[] {0.1, 0.19, 0.271, 0.3439, 0.40951}) {
            ratio.helpIsAskedFor();
            assertEquals(expected, ratio.value(), 1e-12);
        }
        ratio.helperIsBusy();
        assertEquals(0.40951 * 0.9, ratio.value(), 1e-12);
        for (int n = 0; n < 1000; n++) {
            ratio.helpIsAskedFor();
        }
        assertTrue(ratio.value() <= 1);
    }

    @Test
    void sharesAreDealtWithinOne() {
        Random random = new Random(5);
        for (int trial = 0; trial < 100; trial++) {
            Share share = new Share();
            double asked = 0;
            int chosen = 0;
            double constant = random.nextDouble();
            for (int i = 0; i < 500; i++) {
                double next = trial % 2 == 0 ? constant : random.nextDouble();
                asked += next;
                chosen += share.next(next) ? 1 : 0;
                assertTrue(Math.abs(asked - chosen) <= 1 + 1e-6, asked + " asked, " + chosen + " chosen");
            }
        }
        Share none = new Share();
        Share all = new Share();
        assertEquals(0, IntStream.range(0, 100).filter(i -> none.next(0)).count());
        assertEquals(100, IntStream.range(0, 100).filter(i -> all.next(1)).count());
    }

    /** As many helped as the ratio says, of each of two tasks; "counts of exclam2 and compute equal" (section 6.2). */
    @ParameterizedTest
    @CsvSource({"0, 0", "1, 0", "5, 0", "1, 7", "5, 7"})
    void helpedTuplesPassByTheHelpedBoltAndNoneIsLost(int requests, int size) {
        EXECUTED.clear();
        AT_END.clear();
        StormTopology topology = topology();
        Map<String, Object> conf = new HashMap<>(Map.of(Series.BUCKET_S, 2));
        Map<String, BatchSize> sizes = new HashMap<>();
        if (size > 0) {
            List.of("a-word", "b-compute", "c-exclam1").forEach(id -> sizes.put(id, new BatchSize(size, 29_000)));
        }
        Rewriter.plan(topology, conf, sizes, Map.of("c-exclam1", HELP), null).apply(topology, conf);
        Ratio ratio = Ratio.of("t-1:6700", "b-compute", "c-exclam1", HELP.delta());
        while (ratio.value() > 1e-15) {
            ratio.helperIsBusy();
        }
        for (int i = 0; i < requests; i++) {
            ratio.helpIsAskedFor();
        }
        Net net = new Net(topology, conf, true, 1);
        for (int i = 0; i < WORDS; i++) {
            net.nextTuples();
        }
        net.deactivate();
        for (int i = 0; i < 4; i++) {
            net.deliverAll();
            net.tick();
        }
        long helped = 0;
        for (int task = 2; task <= 3; task++) {
            int emitted = EXECUTED.get("b-compute " + task);
            Map<String, Double> help = help(net.metrics.get(2).get(task));
            assertEquals(emitted, help.get("offered"));
            assertEquals(ratio.value(), help.get("ratio"), 1e-12);
            assertEquals(emitted * ratio.value(), help.get("tuples"), 1);
            assertEquals(help.get("tuples").intValue(), EXECUTED.getOrDefault("next " + task, 0));
            helped += help.get("tuples").longValue();
        }
        assertEquals(WORDS - helped, (long) EXECUTED.get("c-exclam1 4"));
        assertEquals(IntStream.range(0, WORDS).mapToObj(n -> n + "!").sorted().toList(),
            AT_END.stream().map(tuple -> tuple.getString(0)).sorted().toList());
        for (Tuple tuple : AT_END) {
            assertEquals("c-exclam1", tuple.getSourceComponent());
            assertEquals("default", tuple.getSourceStreamId());
            assertEquals(List.of("n"), tuple.getFields().toList());
        }
        assertEquals(WORDS, Word.acked);
    }

    @Test
    void spoutsPauseWhileAQueueIsFull() {
        AT_END.clear();
        StormTopology topology = topology();
        Map<String, Object> conf = new HashMap<>();
        Watermarks marks = new Watermarks(50, 10);
        Rewriter.plan(topology, conf, Map.of(), Map.of(), marks).apply(topology, conf);
        Net net = new Net(topology, conf, true, 1);
        Relief relief = Relief.of("t-1:6700", new ReliefPlan(
            Map.of("b-compute", marks, "c-exclam1", marks, "d-exclam2", marks), Map.of(), Map.of(), true));
        relief.look(1, task -> task == 5 ? 50 : 0);
        net.nextTuples();
        net.deliverAll();
        assertEquals(List.of(), AT_END);
        relief.look(2, task -> 0);
        net.nextTuples();
        net.deliverAll();
        assertEquals(1, AT_END.size());
        net.tasks.values().forEach(tasks -> tasks.forEach(relief::leave));
    }

    private static Map<String, Double> help(Map<String, IMetric> metrics) {
        Map<?, ?> report = (Map<?, ?>) metrics.get("harness.rewritten").getValueAndReset();
        Map<String, Double> fields = new HashMap<>();
        for (String field : ((String) report.get("help,stream=default,peer=c-exclam1")).split(",")) {
            fields.put(field.substring(0, field.indexOf('=')),
                Double.valueOf(field.substring(field.indexOf('=') + 1).replace("i", "")));
        }
        return fields;
    }

    @Test
    void helpThatWouldBeWrongIsRefused() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new Word(), 1);
        builder.setBolt("first", new Parts.Relay(), 1).shuffleGrouping("spout");
        builder.setBolt("keyed", new Parts.Relay(), 1).fieldsGrouping("first", new Fields("n"));
        builder.setBolt("two", new Parts.Relay(), 1).shuffleGrouping("keyed").shuffleGrouping("first");
        builder.setBolt("window", new Windowed().withTumblingWindow(BaseWindowedBolt.Count.of(2)), 1).shuffleGrouping("two");
        builder.setBolt("ticking", new Parts.Relay(), 1).shuffleGrouping("window")
            .addConfiguration("topology.tick.tuple.freq.secs", 1);
        builder.setBolt("good", new Parts.Relay(), 1).shuffleGrouping("ticking");
        builder.setBolt("chain", new Parts.Relay(), 1).shuffleGrouping("good");
        builder.setBolt("shared", new Parts.Relay(), 1).shuffleGrouping("chain");
        builder.setBolt("sharing", new Parts.Relay(), 1).shuffleGrouping("chain");
        StormTopology topology = builder.createTopology();
        Map<String, String> reasons = new TreeMap<>(Map.of(
            "first", "comes after a spout, spout, which cannot help",
            "keyed", "is grouped by fields, so it matters which task gets a tuple",
            "two", "has 2 inputs", "window", "has windows", "ticking", "gets ticks", "spout", "is a spout",
            "shared", "shares the stream chain:default with other subscribers"));
        reasons.forEach((id, reason) -> assertEquals("topology.helping: " + id + " cannot be helped: it " + reason,
            refused(topology, Map.of(id, HELP))));
        Rewriter.plan(topology, Map.of(), Map.of(), Map.of("good", HELP), null);
        assertEquals("topology.helping: chain cannot be helped: it has a helper that is helped itself, good",
            refused(topology, new TreeMap<>(Map.of("chain", HELP, "good", HELP))));
        assertEquals("topology.helping: there is no component nobody; the topology has chain, first, good, keyed, shared,"
            + " sharing, spout, ticking, two, window", refused(topology, Map.of("nobody", HELP)));
        assertThrows(IllegalArgumentException.class, () -> new HelpSettings(1, 50, 10));
        assertThrows(IllegalArgumentException.class, () -> new HelpSettings(0.1, 10, 10));
    }

    private static String refused(StormTopology topology, Map<String, HelpSettings> helping) {
        return assertThrows(RewriteException.class,
            () -> Rewriter.plan(topology, Map.of(), Map.of(), helping, null)).getMessage();
    }

    private static StormTopology topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-word", new Word(), 1);
        builder.setBolt("b-compute", new Compute(), 2).shuffleGrouping("a-word");
        builder.setBolt("c-exclam1", new Exclam(), 1).shuffleGrouping("b-compute");
        builder.setBolt("d-exclam2", new End(), 1).shuffleGrouping("c-exclam1");
        return builder.createTopology();
    }

    private static void count(String what) {
        EXECUTED.merge(what, 1, Integer::sum);
    }

    private static boolean isTick(Tuple tuple) {
        return tuple.getSourceStreamId().startsWith("__");
    }

    public static final class Word extends Parts.Source {
        private static final long serialVersionUID = 1L;
        private static int acked;
        private int next;

        @Override
        public void open(Map<String, Object> conf, TopologyContext own, SpoutOutputCollector output) {
            super.open(conf, own, output);
            acked = 0;
        }

        @Override
        public void nextTuple() {
            collector.emit(new Values(Integer.toString(next)), next++);
        }

        @Override
        public void ack(Object id) {
            acked++;
        }
    }

    public static final class Compute extends Parts.Relay {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple) {
            if (!isTick(tuple)) {
                count("b-compute " + context.getThisTaskId());
                collector.emit(tuple, tuple.getValues());
                collector.ack(tuple);
            }
        }
    }

    public static final class Exclam extends Parts.Relay {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple) {
            if (!isTick(tuple)) {
                boolean helping = tuple.getSourceComponent().equals(context.getThisComponentId());
                count((helping ? "next " : "c-exclam1 ") + context.getThisTaskId());
                collector.emit(tuple, new Values(tuple.getString(0) + "!"));
                collector.ack(tuple);
            }
        }
    }

    public static final class End extends Parts.End {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple) {
            if (!isTick(tuple)) {
                AT_END.add(tuple);
                collector.ack(tuple);
            }
        }
    }

    public static final class Windowed extends BaseWindowedBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(TupleWindow window) {
        }

        @Override
        public void declareOutputFields(org.apache.storm.topology.OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("n"));
        }
    }
}
