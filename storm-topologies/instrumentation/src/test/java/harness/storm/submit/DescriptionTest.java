package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.grouping.ShuffleGrouping;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

class DescriptionTest {

    @Test
    void componentsHaveTheNumbersThatNimbusWillGiveThem() {
        Map<?, ?> components = components(Description.of(SampleTopology.topology(), Map.of()));
        assertEquals(component("spout", 1, 1), components.get("source"));
        assertEquals(component("bolt", 2, 4), components.get("pool"), "its own number of tasks");
        assertEquals(component("bolt", 2, 2), components.get("direct"), "as many tasks as executors");
        components = components(Description.of(SampleTopology.topology(), Map.of("topology.max.task.parallelism", 1)));
        assertEquals(component("bolt", 1, 1), components.get("pool"));
    }

    @Test
    void windowsAreTold() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        window(builder, "sliding", window().withWindow(BaseWindowedBolt.Count.of(30), BaseWindowedBolt.Count.of(10)));
        window(builder, "timed", window().withTumblingWindow(BaseWindowedBolt.Duration.seconds(2)));
        window(builder, "mixed", window().withWindow(BaseWindowedBolt.Count.of(30), BaseWindowedBolt.Duration.of(10)));
        Map<?, ?> components = components(Description.of(builder.createTopology(), Map.of()));
        assertEquals(Map.of("kind", "count", "length", 30, "slide", 10), ((Map<?, ?>) components.get("sliding")).get("window"));
        assertEquals(Map.of("kind", "time", "length", 2000, "slide", 2000), ((Map<?, ?>) components.get("timed")).get("window"));
        assertNull(((Map<?, ?>) components.get("mixed")).get("window"));
    }

    @Test
    void everyGroupingHasAName() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        grouped(builder, "shuffle").shuffleGrouping("source");
        grouped(builder, "fields").fieldsGrouping("source", new Fields("n"));
        grouped(builder, "local-or-shuffle").localOrShuffleGrouping("source");
        grouped(builder, "all").allGrouping("source");
        grouped(builder, "global").globalGrouping("source");
        grouped(builder, "none").noneGrouping("source");
        grouped(builder, "direct").directGrouping("source");
        grouped(builder, "partial-key").partialKeyGrouping("source", new Fields("n"));
        grouped(builder, "custom").customGrouping("source", new OwnGrouping());
        List<?> streams = (List<?>) Description.of(builder.createTopology(), Map.of()).get("streams");
        assertEquals(9, streams.size());
        for (Object each : streams) {
            Map<?, ?> stream = (Map<?, ?>) each;
            assertEquals(stream.get("target"), stream.get("grouping"));
            assertEquals("source", stream.get("source"));
            assertEquals("default", stream.get("stream"));
        }
    }

    @Test
    void whatStormAddsIsMarked() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        builder.setBolt("state", new Stateful()).shuffleGrouping("source");
        Map<?, ?> components = components(Description.of(builder.createTopology(), Map.of()));
        assertEquals(true, ((Map<?, ?>) components.get("$checkpointspout")).get("storms"));
        assertEquals(false, ((Map<?, ?>) components.get("source")).get("storms"));
    }

    @Test
    void settingsAreItsOwnAndStormsDefaults() {
        Map<String, Object> description = Description.of(SampleTopology.topology(), Map.of("topology.debug", true));
        assertEquals(Map.of("topology.debug", true), description.get("settings"));
        assertEquals(32768, ((Map<?, ?>) description.get("defaults")).get("topology.executor.receive.buffer.size"));
    }

    private static Map<?, ?> components(Map<String, Object> description) {
        return (Map<?, ?>) description.get("components");
    }

    private static Map<String, Object> component(String kind, int executors, int tasks) {
        Map<String, Object> component = new HashMap<>(
            Map.of("kind", kind, "storms", false, "executors", executors, "tasks", tasks));
        component.put("window", null);
        return component;
    }

    private static BaseWindowedBolt window() {
        return new SampleTopology.CountingWindow();
    }

    private static void window(TopologyBuilder builder, String id, BaseWindowedBolt bolt) {
        builder.setBolt(id, bolt).shuffleGrouping("source");
    }

    private static BoltDeclarer grouped(TopologyBuilder builder, String id) {
        return builder.setBolt(id, new SampleTopology.Sink());
    }

    private static final class OwnGrouping implements CustomStreamGrouping {
        private static final long serialVersionUID = 1L;
        private final ShuffleGrouping other = new ShuffleGrouping();

        @Override
        public void prepare(org.apache.storm.task.WorkerTopologyContext context, GlobalStreamId stream, List<Integer> tasks) {
            other.prepare(context, stream, tasks);
        }

        @Override
        public List<Integer> chooseTasks(int task, List<Object> values) {
            return other.chooseTasks(task, values);
        }
    }

    private static final class Stateful extends BaseStatefulBolt<KeyValueState<String, Long>> {
        private static final long serialVersionUID = 1L;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        }

        @Override
        public void initState(KeyValueState<String, Long> state) {
        }

        @Override
        public void execute(Tuple tuple) {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }
}
