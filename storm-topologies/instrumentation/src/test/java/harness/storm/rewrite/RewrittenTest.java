package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What user code sees of the layer, and when batches leave. */
class RewrittenTest {
    private static final int LATER_MS = 29_000;

    private static SpoutOutputCollector source;
    private static OutputCollector relay;
    private static final Map<String, TopologyContext> CONTEXTS = new HashMap<>();
    private static final List<Tuple> AT_RELAY = new ArrayList<>();
    private static final List<Tuple> AT_END = new ArrayList<>();
    private static final List<Object> ANSWERS = new ArrayList<>();
    private static CountDownLatch arrived;

    @BeforeEach
    void forget() {
        LiveSizes.of("t-1").set(Map.of());
        AT_RELAY.clear();
        AT_END.clear();
        ANSWERS.clear();
    }

    @Test
    void aRowLooksLikeTheTupleThatWasEmitted() {
        Net net = net(3, LATER_MS, true);
        for (int i = 0; i < 3; i++) {
            assertEquals(List.of(2), source.emit(new Values(i), "m" + i));
        }
        net.deliverAll();
        assertEquals(1, net.delivered);
        assertEquals(3, AT_RELAY.size());
        Tuple row = AT_RELAY.get(1);
        assertEquals("a-source", row.getSourceComponent());
        assertEquals(1, row.getSourceTask());
        assertEquals("default", row.getSourceStreamId());
        assertEquals(new Fields("n").toList(), row.getFields().toList());
        assertEquals(List.of(1), row.getValues());
        assertEquals(1, row.getMessageId().getAnchors().size());
    }

    @Test
    void userCodeKnowsNothingOfHiddenStreams() {
        net(3, LATER_MS, true);
        TopologyContext context = CONTEXTS.get("b-relay");
        assertEquals(List.of(new GlobalStreamId("a-source", "default")), List.copyOf(context.getThisSources().keySet()));
        assertEquals(List.of("default", "straight", "unheard"), context.getThisStreams().stream().sorted().toList());
        assertEquals(List.of("default"), List.copyOf(context.getThisTargets().keySet()));
        assertEquals("b-relay", context.getThisComponentId());
        assertEquals(List.of(3), context.getComponentTasks("c-end"));
        assertEquals(List.of("n"), context.getComponentOutputFields("a-source", "default").toList());
        assertFalse(context.toJSONString().contains("harness."), context.toJSONString());
        context.setTaskData("k", "v");
        assertEquals("v", context.getTaskData("k"));
    }

    @Test
    void aFullBatchLeavesAtOnceAndOthersAtATick() {
        Net net = net(2, LATER_MS, true);
        for (int i = 0; i < 5; i++) {
            relay.emit(new Values(i));
        }
        net.deliverAll();
        assertEquals(List.of(0, 1, 2, 3), numbers(AT_END));
        net.tick();
        net.deliverAll();
        assertEquals(List.of(0, 1, 2, 3, 4), numbers(AT_END));
        Map<String, Object> report = report(net, 2);
        assertEquals("messages=3i,tuples=5i,capacity=6i,full=2i,timed=0i,ordered=0i,forced=1i,bytes=0i,bytes_tuples=0i,size=2i,"
            + "flush_ms=29000i",
            report.get("batch,stream=default"));
    }

    @Test
    void userCodesOwnFlushAndItsEndLetBatchesLeave() {
        Net net = net(9, LATER_MS, true);
        relay.emit(new Values(1));
        relay.flush();
        net.deliverAll();
        assertEquals(List.of(1), numbers(AT_END));
        relay.emit(new Values(2));
        net.cleanup();
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_END));
    }

    /** A spout that is deactivated is not asked for tuples, and may still emit as it is acked. */
    @Test
    void aSpoutsBatchesLeaveWhenItIsDeactivatedAndNothingWaitsThen() {
        Net net = net(9, LATER_MS, true);
        source.emit(new Values(1), "m1");
        net.deactivate();
        net.deliverAll();
        assertEquals(List.of(1), numbers(AT_RELAY));
        source.emit(new Values(2), "m2");
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_RELAY));
        net.activate();
        source.emit(new Values(3), "m3");
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_RELAY));
    }

    /** It waits for the timer's thread, however long that takes on a busy machine. */
    @Test
    void aBoltsBatchLeavesAfterItsTime() throws Exception {
        Net net = net(9, 1, true);
        arrived = new CountDownLatch(1);
        relay.emit(new Values(1));
        while (!net.step()) {
            arrived.await(1, TimeUnit.MILLISECONDS);
        }
        assertEquals(List.of(1), numbers(AT_END));
        assertTrue(((String) report(net, 2).get("batch,stream=default")).contains("timed=1i"));
    }

    @Test
    void aSpoutsBatchLeavesAfterItsTimeAsItIsAskedForTuples() {
        Net net = net(9, 1, true);
        source.emit(new Values(1), "m1");
        long emittedNs = System.nanoTime();
        while (!net.step()) {
            net.nextTuples();
        }
        assertTrue(System.nanoTime() - emittedNs >= 900_000, "not before its time");
        assertEquals(List.of(1), numbers(AT_RELAY));
    }

    @Test
    void messagesInFlightAreCountedAsWithoutBatches() {
        Net net = net(2, LATER_MS, true);
        for (int i = 0; i < 5; i++) {
            source.emit(new Values(i), "m" + i);
        }
        assertEquals(5, source.getPendingCount());
        net.deliverAll();
        AT_RELAY.forEach(relay::ack);
        net.deliverAll();
        assertEquals(List.of("m0", "m1", "m2", "m3"), ANSWERS.stream().sorted().toList());
        assertEquals(1, source.getPendingCount());
    }

    @Test
    void withoutAckersMessagesAreAckedAsTheyLeave() {
        Net net = net(2, LATER_MS, false);
        for (int i = 0; i < 3; i++) {
            source.emit(new Values(i), "m" + i);
        }
        assertEquals(List.of("m0", "m1"), ANSWERS);
        net.deactivate();
        assertEquals(List.of("m0", "m1", "m2"), ANSWERS);
    }

    @Test
    void aRowAnsweredTwiceCountsOnceAndOneFailureFailsAll() {
        Net net = net(2, LATER_MS, true);
        for (int i = 0; i < 4; i++) {
            source.emit(new Values(i), "m" + i);
        }
        net.deliverAll();
        relay.ack(AT_RELAY.get(0));
        relay.ack(AT_RELAY.get(0));
        net.deliverAll();
        assertEquals(List.of(), ANSWERS);
        relay.fail(AT_RELAY.get(3));
        relay.ack(AT_RELAY.get(2));
        relay.ack(AT_RELAY.get(1));
        net.deliverAll();
        assertEquals(List.of("failed m2", "failed m3", "m0", "m1"), ANSWERS.stream().sorted().toList());
    }

    @Test
    void whatTimesOutIsFailedMessageByMessage() {
        Net net = net(2, LATER_MS, true);
        source.emit(new Values(1), "m1");
        source.emit(new Values(2), "m2");
        net.timeOut();
        net.deliverAll();
        assertEquals(List.of("failed m1", "failed m2"), ANSWERS);
    }

    /** A message to nobody is acked by Storm, through its ackers. */
    @Test
    void aMessageThatIsSentToNoTaskIsAcked() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Source(), 1);
        builder.setBolt("b-relay", new Relay(), 1).customGrouping("a-source", new GroupingsTest.Every());
        builder.setBolt("c-end", new End(), 1).directGrouping("a-source", "straight");
        Net net = start(builder.createTopology(), Map.of("a-source", new BatchSize(2, LATER_MS)), true);
        // by what it has seen, tasks and names: 1 + 8 + 0 = 9, to no task
        assertEquals(List.of(), source.emit(new Values(0), "m0"));
        source.emitDirect(2, "straight", new Values(1), "m1");
        net.deliverAll();
        assertEquals(List.of("m0", "m1"), ANSWERS.stream().sorted().toList());
    }

    /** The only stream's only subscriber is a direct one: the hidden route has none. */
    @Test
    void directTuplesAreBatchedByTask() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Source(), 1);
        builder.setBolt("b-relay", new Relay(), 2).directGrouping("a-source", "straight");
        Net net = start(builder.createTopology(), Map.of("a-source", new BatchSize(2, LATER_MS)), true);
        for (int i = 0; i < 6; i++) {
            source.emitDirect(2 + i % 2, "straight", new Values(i), "m" + i);
        }
        net.deliverAll();
        assertEquals(2, net.delivered);
        assertEquals(List.of(0, 1, 2, 3), AT_RELAY.stream().map(tuple -> tuple.getInteger(0)).sorted().toList());
    }

    @Test
    void whatWaitsLeavesBeforeTheFirstTupleOfAnotherSize() {
        Net net = net(9, LATER_MS, true);
        relay.emit(new Values(1));
        relay.emit(new Values(2));
        tell("b-relay", 2);
        net.deliverAll();
        assertEquals(List.of(), numbers(AT_END));
        relay.emit(new Values(3));
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_END));
        relay.emit(new Values(4));
        net.deliverAll();
        assertEquals(List.of(1, 2, 3, 4), numbers(AT_END));
        // two of nine that left as they were, then two of two
        assertEquals("messages=2i,tuples=4i,capacity=11i,full=1i,timed=0i,ordered=0i,forced=1i,bytes=0i,bytes_tuples=0i,"
            + "size=2i,flush_ms=29000i", report(net, 2).get("batch,stream=default"));
    }

    /** A task that nothing is asked of takes sizes over all the same. */
    @Test
    void theReportHasTheSizeThatHoldsFromThenOn() {
        Net net = net(9, LATER_MS, true);
        source.emit(new Values(1), "m1");
        tell("a-source", 1);
        String report = (String) report(net, 1).get("batch,stream=default");
        assertTrue(report.endsWith(",size=1i,flush_ms=29000i"), report);
        net.deliverAll();
        assertEquals(List.of(1), numbers(AT_RELAY));
        source.emit(new Values(2), "m2");
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_RELAY));
    }

    @Test
    void whatIsLeftOutIsAsSubmitted() {
        Net net = net(2, LATER_MS, true);
        tell("b-relay", 7);
        LiveSizes.of("t-1").set(Map.of("b-relay", Map.of("another", new BatchSize(9, 9)), "c-end", Map.of()));
        relay.emit(new Values(1));
        relay.emit(new Values(2));
        net.deliverAll();
        assertEquals(List.of(1, 2), numbers(AT_END));
    }

    /** An input that came before anything was batched waits for nothing, so what is anchored to it must not wait either. */
    @Test
    void aTupleOfBeforeAnythingWasBatchedIsAckedAfterWhatWasAnchoredToIt() {
        Net net = net(1, LATER_MS, true);
        source.emit(new Values(1), "m1");
        net.deliverAll();
        tell("b-relay", 5);
        relay.emit(AT_RELAY.get(0), new Values(10));
        relay.ack(AT_RELAY.get(0));
        assertEquals(List.of(), ANSWERS);
        net.deliverAll();
        assertEquals(List.of(10), numbers(AT_END));
        assertEquals(List.of(), ANSWERS, "the end has not acked");
    }

    @Test
    void credentialsHoldSizesThatUserCodeDoesNotSee() {
        LiveSizes plugin = new LiveSizes();
        plugin.prepare(Map.of("storm.id", "t-1"));
        plugin.updateSubject(null, Map.of("a", "b"));
        assertEquals(Map.of(), LiveSizes.of("t-1").get());
        Map<String, String> credentials = Map.of("a", "b", LiveSizes.KEY, "{\"x\": {\"y\": {\"size\": 3, \"flush_ms\": 4}}}");
        plugin.populateSubject(null, credentials);
        assertEquals(Map.of("x", Map.of("y", new BatchSize(3, 4))), LiveSizes.of("t-1").get());
        for (String wrong : List.of("{", "[]", "{\"x\": 1}", "{\"x\": {\"y\": {\"size\": 0, \"flush_ms\": 4}}}",
            "{\"x\": {\"y\": {\"size\": 1.5, \"flush_ms\": 4}}}", "{\"x\": {\"y\": {\"size\": 1}}}")) {
            plugin.updateSubject(null, Map.of(LiveSizes.KEY, wrong));
            assertEquals(Map.of("x", Map.of("y", new BatchSize(3, 4))), LiveSizes.of("t-1").get(), wrong);
        }
        assertEquals(Map.of("a", "b"), LiveSizes.without(credentials));
        assertNull(LiveSizes.without(null));
    }

    private static void tell(String component, int size) {
        LiveSizes.of("t-1").set(Map.of(component, Map.of("default", new BatchSize(size, LATER_MS))));
    }

    private static Net net(int size, int flushMs, boolean ackers) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Source(), 1);
        builder.setBolt("b-relay", new Relay(), 1).shuffleGrouping("a-source");
        builder.setBolt("c-end", new End(), 1).shuffleGrouping("b-relay");
        BatchSize of = new BatchSize(size, flushMs);
        return start(builder.createTopology(), Map.of("a-source", of, "b-relay", of), ackers);
    }

    private static Net start(StormTopology topology, Map<String, BatchSize> sizes, boolean ackers) {
        Map<String, Object> conf = new HashMap<>(Map.of(Series.BUCKET_S, 2));
        Rewriter.plan(topology, conf, sizes).apply(topology, conf);
        return new Net(topology, conf, ackers, 1);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> report(Net net, int task) {
        return (Map<String, Object>) net.metrics.get(2).get(task).get("harness.rewritten").getValueAndReset();
    }

    private static List<Integer> numbers(List<Tuple> tuples) {
        return tuples.stream().map(tuple -> tuple.getInteger(0)).toList();
    }

    public static final class Source extends Parts.Source {
        private static final long serialVersionUID = 1L;

        @Override
        public void open(Map<String, Object> conf, TopologyContext own, SpoutOutputCollector output) {
            source = output;
        }

        @Override
        public void ack(Object id) {
            ANSWERS.add(id);
        }

        @Override
        public void fail(Object id) {
            ANSWERS.add("failed " + id);
        }
    }

    public static final class Relay extends Parts.Relay {
        private static final long serialVersionUID = 1L;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext own, OutputCollector output) {
            CONTEXTS.put(own.getThisComponentId(), own);
            relay = output;
        }

        @Override
        public void execute(Tuple tuple) {
            if (!tuple.getSourceStreamId().startsWith("__")) {
                AT_RELAY.add(tuple);
            }
        }
    }

    public static final class End extends Parts.End {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple) {
            if (!tuple.getSourceStreamId().startsWith("__")) {
                AT_END.add(tuple);
            }
        }
    }
}
