package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.ShellComponent;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.testing.FixedBatchSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

class RewriterTest {
    private final Map<String, Object> conf = new HashMap<>();

    @Test
    void streamsAndInputsAreAddedAndNoneIsChanged() throws Exception {
        StormTopology topology = topology();
        StormTopology before = topology.deepCopy();
        Rewriter.Result result = apply(topology, Map.of("a", new BatchSize(5, 5)));
        assertEquals(List.of("a:default", "a:straight"), result.batched());
        assertEquals(Map.of("a:unheard", "nothing subscribes to its stream unheard"), result.left());
        assertEquals(before.get_spouts().get("source"), topology.get_spouts().get("source"), "it has no part in it");
        ComponentCommon a = topology.get_bolts().get("a").get_common();
        assertEquals(List.of("default", "harness.batch/default", "harness.batch/straight", "harness.route/default",
            "harness.route/straight", "straight", "unheard"), a.get_streams().keySet().stream().sorted().toList());
        assertTrue(a.get_streams().get("harness.batch/default").is_direct());
        ComponentCommon b = topology.get_bolts().get("b").get_common();
        assertTrue(b.get_inputs().get(new GlobalStreamId("a", "harness.batch/default")).is_set_direct());
        assertTrue(b.get_inputs().get(new GlobalStreamId("a", "harness.route/default")).is_set_custom_serialized());
        assertTrue(!b.get_inputs().containsKey(new GlobalStreamId("a", "harness.route/straight")), "nothing to choose");
        assertInstanceOf(RewrittenBolt.class, Utils.javaDeserialize(
            topology.get_bolts().get("b").get_bolt_object().get_serialized_java(), Object.class));
        StormCommon.validateBasic(topology);

        StormTopology plain = HiddenStreams.without(topology);
        before.get_bolts().forEach((id, bolt) ->
            assertEquals(bolt.get_common(), plain.get_bolts().get(id).get_common(), "hidden from " + id));
        assertSame(topology.get_bolts().get("a").get_bolt_object(), plain.get_bolts().get("a").get_bolt_object());
    }

    @Test
    void aStreamsOwnSizeGoesBeforeItsComponents() throws Exception {
        StormTopology topology = topology();
        apply(topology, new TreeMap<>(Map.of("a", new BatchSize(5, 5), "a:default", new BatchSize(7, 1),
            "a:straight", new BatchSize(9, 1))));
        RewrittenBolt bolt = Utils.javaDeserialize(
            topology.get_bolts().get("a").get_bolt_object().get_serialized_java(), RewrittenBolt.class);
        java.lang.reflect.Field sizes = RewrittenBolt.class.getDeclaredField("sizes");
        sizes.setAccessible(true);
        assertEquals(Map.of("default", new BatchSize(7, 1), "straight", new BatchSize(9, 1)), sizes.get(bolt));
    }

    @Test
    void batchesAreRegisteredBesideTheTopologysOwnClasses() {
        Map<String, String> mine = Map.of(Batch.class.getName(), BatchSerializer.class.getName());
        conf.put(Config.TOPOLOGY_KRYO_REGISTER, List.of("a.Class"));
        apply(topology(), Map.of("a", new BatchSize(5, 5)));
        assertEquals(List.of("a.Class", mine), conf.get(Config.TOPOLOGY_KRYO_REGISTER));
        conf.put(Config.TOPOLOGY_KRYO_REGISTER, Map.of("a.Class", "a.Serializer"));
        apply(topology(), Map.of("a", new BatchSize(5, 5)));
        Map<String, String> both = new HashMap<>(mine);
        both.put("a.Class", "a.Serializer");
        assertEquals(both, conf.get(Config.TOPOLOGY_KRYO_REGISTER));
    }

    @Test
    void withoutBatchesNothingChanges() {
        StormTopology topology = topology();
        StormTopology before = topology.deepCopy();
        assertEquals(new Rewriter.Result(List.of(), Map.of(), Map.of()), apply(topology, Map.of()));
        assertEquals(before, topology);
        assertEquals(Map.of(), conf);
    }

    @Test
    void whatIsNotThereIsNamedWithWhatIs() {
        assertEquals("topology.batching: there is no component c; the topology has a, b, source", refused("c"));
        assertEquals("topology.batching: there is no component c; the topology has a, b, source", refused("c:default"));
        assertEquals("topology.batching: component a has no stream other; it has default, straight, unheard",
            refused("a:other"));
        assertEquals("topology.batching: component b has no stream default; it has none", refused("b:default"));
        assertEquals("topology.batching: nothing of b can be batched: it has no streams", refused("b"));
        assertEquals("topology.batching: nothing of a:unheard can be batched: nothing subscribes to its stream unheard",
            refused("a:unheard"));
    }

    @Test
    void aWaitAsLongAsMessagesLastIsRefused() {
        conf.put(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS, 10);
        Map<String, BatchSize> sizes = Map.of("a", new BatchSize(5, 10_000));
        assertEquals("topology.batching: a waits for 10000 ms, and messages time out after 10 s; make flush_ms smaller",
            assertThrows(RewriteException.class, () -> Rewriter.plan(topology(), conf, sizes)).getMessage());
    }

    @Test
    void sizesAreAboveZero() {
        assertThrows(IllegalArgumentException.class, () -> new BatchSize(0, 5));
        assertThrows(IllegalArgumentException.class, () -> new BatchSize(5, 0));
    }

    @Test
    void whatCannotBeRewrittenIsNamed() {
        StormTopology topology = topology();
        Bolt b = topology.get_bolts().get("b");
        topology.put_to_bolts("b", new Bolt(ComponentObject.shell(new ShellComponent("python3", "b.py")), b.get_common()));
        Map<String, BatchSize> sizes = Map.of("source", new BatchSize(5, 5), "a", new BatchSize(5, 5));
        assertEquals("topology.batching: nothing of a can be batched: its subscriber b runs in a process of its own (shell"
            + " component); nothing subscribes to its stream unheard",
            assertThrows(RewriteException.class, () -> Rewriter.plan(topology, conf, sizes)).getMessage());
        assertEquals("topology.backpressure: b can be neither watched nor paused: it runs in a process of its own (shell"
            + " component)", assertThrows(RewriteException.class,
                () -> Rewriter.plan(topology, conf, Map.of(), Map.of(), new Watermarks(50, 10))).getMessage());
        Rewriter.Result result = apply(topology, Map.of("source", new BatchSize(5, 5)));
        assertEquals(List.of("source:default"), result.batched());
        assertEquals(List.of("source:straight", "source:unheard"), new ArrayList<>(new TreeMap<>(result.left()).keySet()));
    }

    @Test
    @SuppressWarnings("unchecked") // the varargs of Storm's test spout
    void tridentTopologiesAreRefused() {
        TridentTopology trident = new TridentTopology();
        trident.newStream("words", new FixedBatchSpout(new Fields("word"), 2, new Values("a"), new Values("b")))
            .groupBy(new Fields("word")).aggregate(new Count(), new Fields("count"));
        StormTopology topology = trident.build();
        String id = topology.get_bolts().keySet().stream().filter(bolt -> bolt.startsWith("spout-")).findFirst().orElseThrow();
        String message = assertThrows(RewriteException.class,
            () -> Rewriter.plan(topology, conf, Map.of(id, new BatchSize(5, 5)))).getMessage();
        assertTrue(message.contains(id + " is part of a Trident topology, which has batches of its own"), message);
    }

    private String refused(String key) {
        return assertThrows(RewriteException.class,
            () -> Rewriter.plan(topology(), conf, Map.of(key, new BatchSize(5, 5)))).getMessage();
    }

    @Test
    void watchedBoltsHearOfEachOtherAndSpoutsMayPause() {
        StormTopology topology = topology();
        Rewriter.Result result = Rewriter.plan(topology, conf, Map.of(), Map.of(), new Watermarks(50, 10))
            .apply(topology, conf);
        assertEquals(Map.of(), result.helped());
        topology.get_bolts().forEach((id, bolt) -> {
            assertTrue(bolt.get_common().get_streams().containsKey(HiddenStreams.SIGNAL));
            topology.get_bolts().keySet().forEach(from -> assertTrue(bolt.get_common().get_inputs()
                .get(new GlobalStreamId(from, HiddenStreams.SIGNAL)).is_set_all()));
        });
        assertEquals(List.of(Map.of("class", QueueFills.class.getName())), conf.get("topology.metrics.reporters"));
        StormTopology plain = HiddenStreams.without(topology);
        assertEquals(topology().get_bolts().keySet(), plain.get_bolts().keySet());
        plain.get_bolts().forEach((id, bolt) ->
            assertEquals(topology().get_bolts().get(id).get_common(), bolt.get_common()));
    }

    private Rewriter.Result apply(StormTopology topology, Map<String, BatchSize> sizes) {
        return Rewriter.plan(topology, conf, sizes).apply(topology, conf);
    }

    private static StormTopology topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Parts.Source(), 1);
        builder.setBolt("a", new Parts.Relay(), 2).shuffleGrouping("source");
        builder.setBolt("b", new Parts.End(), 2).fieldsGrouping("a", new Fields("n")).directGrouping("a", "straight");
        return builder.createTopology();
    }
}
