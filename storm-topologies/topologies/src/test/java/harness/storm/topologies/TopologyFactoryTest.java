package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import harness.storm.keygroups.KeyedStreams;
import harness.storm.keygroups.TableGrouping;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TopologyFactoryTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir Path folder;

    private TopologySettings settings(String name) throws Exception {
        return SettingsReader.read(Path.of(TopologyFactoryTest.class.getResource("/" + name).toURI()));
    }

    @Test
    void componentsHaveTheirExecutorsAndTasks() throws Exception {
        StormTopology topology = TopologyFactory.build(settings("all-in-one.json"));
        assertEquals(Set.of("spout"), topology.get_spouts().keySet());
        assertEquals(Set.of("multiplier", "window", "sender"), topology.get_bolts().keySet());
        assertParallelism(1, 16, topology.get_spouts().get("spout").get_common());
        assertParallelism(2, 16, topology.get_bolts().get("multiplier").get_common());
        assertParallelism(16, 16, topology.get_bolts().get("sender").get_common());
    }

    private static void assertParallelism(int executors, int tasks, ComponentCommon common) throws IOException {
        assertEquals(executors, common.get_parallelism_hint());
        assertEquals(tasks, conf(common).get(Config.TOPOLOGY_TASKS));
    }

    private static Map<?, ?> conf(ComponentCommon common) throws IOException {
        return JSON.readValue(common.get_json_conf(), Map.class);
    }

    @Test
    void windowsAreStormsOwn() throws Exception {
        StormTopology topology = TopologyFactory.build(settings("all-in-one.json"));
        Map<?, ?> conf = conf(topology.get_bolts().get("window").get_common());
        assertEquals(10, conf.get(Config.TOPOLOGY_BOLTS_WINDOW_LENGTH_COUNT));
        assertEquals(10, conf.get(Config.TOPOLOGY_BOLTS_SLIDING_INTERVAL_COUNT));
    }

    @Test
    void streamsAndFieldsAreDeclared() throws Exception {
        StormTopology topology = TopologyFactory.build(settings("join-split.json"));
        List<String> fields = List.of("key", "json", "members");
        assertEquals(fields, outputs(topology.get_spouts().get("spout").get_common(), "default"));
        assertEquals(fields, outputs(topology.get_bolts().get("json").get_common(), "default"));
        assertEquals(fields, outputs(topology.get_bolts().get("join").get_common(), "stream-5"));
        assertEquals(fields, outputs(topology.get_bolts().get("join").get_common(), "stream-6"));
        assertEquals(Set.of(), topology.get_bolts().get("sender-1").get_common().get_streams().keySet());
    }

    private static List<String> outputs(ComponentCommon common, String stream) {
        return common.get_streams().get(stream).get_output_fields();
    }

    @Test
    void theJoinSubscribesToBothInputs() throws Exception {
        StormTopology topology = TopologyFactory.build(settings("join-split.json"));
        Map<GlobalStreamId, Grouping> join = topology.get_bolts().get("join").get_common().get_inputs();
        GlobalStreamId json = new GlobalStreamId("json", "default");
        assertEquals(Set.of(json, new GlobalStreamId("multiplier", "default")), join.keySet());
        join.values().forEach(grouping -> assertEquals(List.of("key"), grouping.get_fields()));
        Map<GlobalStreamId, Grouping> sender = topology.get_bolts().get("sender-2").get_common().get_inputs();
        assertEquals(Set.of(new GlobalStreamId("join", "stream-6")), sender.keySet());
    }

    @Test
    void eachSpoutReadsATopicOfItsOwnAndEachJoinEmitsOnTheStreamsThatAreNamed() throws Exception {
        ObjectNode json = (ObjectNode) JSON.readTree(TopologyFactoryTest.class.getResource("/join-split.json"));
        ObjectNode more = ((ObjectNode) json.at("/components/spout")).deepCopy();
        ((ObjectNode) json.get("components")).set("more", more.put("topic", "more-in"));
        ((ObjectNode) json.at("/streams/1")).put("source", "more");
        ((ObjectNode) json.at("/streams/4")).put("stream", "fish");
        ((ObjectNode) json.at("/streams/5")).put("stream", "chips");
        Path file = folder.resolve("two.json");
        Files.writeString(file, json.toString());
        StormTopology topology = TopologyFactory.build(SettingsReader.read(file));
        Map<String, String> topics = new HashMap<>();
        topology.get_spouts().forEach((name, s) -> topics.put(name, Utils.javaDeserialize(
                s.get_spout_object().get_serialized_java(), MessageSpout.class).topic()));
        assertEquals(Map.of("spout", "run-in", "more", "more-in"), topics);
        ComponentCommon join = topology.get_bolts().get("join").get_common();
        assertEquals(Set.of("fish", "chips"), join.get_streams().keySet());
    }

    /** States go from task to task of a keyed component; tables come from all that send to it. */
    @Test
    void aKeyedComponentIsRoutedToByTable() throws Exception {
        StormTopology topology = TopologyFactory.build(settings("keyed.json"));
        ComponentCommon parse = topology.get_bolts().get("parse").get_common();
        assertEquals(Set.of("default", KeyedStreams.TABLES), parse.get_streams().keySet());
        assertEquals(1, conf(parse).get(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS));
        ComponentCommon count = topology.get_bolts().get("count").get_common();
        assertEquals(Set.of("default", KeyedStreams.TABLES, KeyedStreams.STATES), count.get_streams().keySet());
        Map<GlobalStreamId, Grouping> inputs = count.get_inputs();
        assertEquals(
                Set.of(
                        new GlobalStreamId("parse", "default"),
                        new GlobalStreamId("parse", KeyedStreams.TABLES),
                        new GlobalStreamId("count", KeyedStreams.STATES)),
                inputs.keySet());
        byte[] grouping = inputs.get(new GlobalStreamId("parse", "default")).get_custom_serialized();
        assertInstanceOf(TableGrouping.class, Utils.javaDeserialize(grouping, Object.class));
        ComponentCommon total = topology.get_bolts().get("total").get_common();
        assertEquals(Set.of("default", KeyedStreams.STATES), total.get_streams().keySet());
        assertEquals(Set.of("default"), topology.get_spouts().get("spout").get_common().get_streams().keySet());
    }

    @Test
    void everyGroupingIsBuilt() throws Exception {
        assertEquals(Grouping._Fields.SHUFFLE, grouping("shuffle").getSetField());
        assertEquals(List.of("key"), grouping("fields").get_fields());
        assertEquals(Grouping._Fields.LOCAL_OR_SHUFFLE, grouping("local-or-shuffle").getSetField());
        assertEquals(Grouping._Fields.ALL, grouping("all").getSetField());
        // Storm writes a global grouping as a fields grouping on no field.
        assertEquals(List.of(), grouping("global").get_fields());
        assertEquals(Grouping._Fields.NONE, grouping("none").getSetField());
        Object partialKey = Utils.javaDeserialize(grouping("partial-key").get_custom_serialized(), Object.class);
        assertInstanceOf(PartialKeyGrouping.class, partialKey);
    }

    private Grouping grouping(String name) throws Exception {
        ObjectNode json = (ObjectNode) JSON.readTree(TopologyFactoryTest.class.getResource("/all-in-one.json"));
        ((ObjectNode) json.at("/streams/0")).put("grouping", name);
        Path file = folder.resolve(name + ".json");
        Files.writeString(file, json.toString());
        Bolt bolt = TopologyFactory.build(SettingsReader.read(file)).get_bolts().get("multiplier");
        return bolt.get_common().get_inputs().get(new GlobalStreamId("spout", "default"));
    }

    /** Storm's workers do this to every component. */
    @Test
    void everyComponentCanBeDeserialised() throws Exception {
        for (String name : List.of("all-in-one.json", "join-split.json", "keyed.json", "wikipedia-edits.json")) {
            StormTopology topology = TopologyFactory.build(settings(name));
            topology.get_spouts().values().forEach(s -> assertNotNull(
                    Utils.javaDeserialize(s.get_spout_object().get_serialized_java(), MessageSpout.class)));
            topology.get_bolts().values().forEach(b -> assertNotNull(
                    Utils.javaDeserialize(b.get_bolt_object().get_serialized_java(), Object.class)));
        }
    }
}
