package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import harness.storm.instrument.InstrumentedBolt;
import harness.storm.instrument.InstrumentedSpout;
import harness.storm.instrument.LineProtocolConsumer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.ShellComponent;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.testing.FixedBatchSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

class InstrumenterTest {

    @Test
    void everyBoltAndSpoutIsWrappedAndNothingElseChanges() {
        StormTopology topology = SampleTopology.topology();
        StormTopology before = topology.deepCopy();
        Instrumenter.Result result = Instrumenter.wrap(topology);
        assertEquals(List.of("source", "clock", "counted", "direct", "pool", "sink", "window"), result.wrapped());
        assertEquals(Map.of(), result.unwrapped());
        topology.get_bolts().forEach((id, bolt) -> {
            assertInstanceOf(InstrumentedBolt.class, object(bolt.get_bolt_object()));
            assertEquals(before.get_bolts().get(id).get_common(), bolt.get_common());
        });
        assertInstanceOf(InstrumentedSpout.class, object(topology.get_spouts().get("source").get_spout_object()));
    }

    @Test
    void whatCannotBeMeasuredIsLeftAndNamed() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        builder.setBolt("shell", new Shell()).shuffleGrouping("source");
        StormTopology topology = builder.createTopology();
        Bolt bolt = topology.get_bolts().get("shell");
        Bolt process = new Bolt(ComponentObject.shell(new ShellComponent("python3", "bolt.py")), bolt.get_common());
        Bolt named = new Bolt(ComponentObject.java_object(new JavaObject("a.Bolt", List.of())), bolt.get_common());
        topology.put_to_bolts("process", process);
        topology.put_to_bolts("named", named);
        byte[] before = bolt.get_bolt_object().get_serialized_java();

        Instrumenter.Result result = Instrumenter.wrap(topology);

        assertEquals(List.of("source"), result.wrapped());
        assertEquals(Map.of(
            "shell", "runs in a process of its own (Shell)",
            "process", "runs in a process of its own (shell component)",
            "named", "made by the worker from a class name (Java object specification)"), result.unwrapped());
        assertArrayEquals(before, topology.get_bolts().get("shell").get_bolt_object().get_serialized_java());
    }

    @Test
    void statefulBoltsAreWrappedAndTheirCheckpointSpoutIsNot() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        builder.setBolt("state", new Stateful()).shuffleGrouping("source");
        Instrumenter.Result result = Instrumenter.wrap(builder.createTopology());
        assertEquals(List.of("source", "state"), result.wrapped());
        assertEquals(Map.of("$checkpointspout", "Storm's own (checkpoint spout)"), result.unwrapped());
    }

    @Test
    @SuppressWarnings("unchecked") // the varargs of Storm's test spout
    void tridentTopologiesAreWrappedWhole() {
        TridentTopology trident = new TridentTopology();
        trident.newStream("words", new FixedBatchSpout(new Fields("word"), 2, new Values("a"), new Values("b")))
            .groupBy(new Fields("word")).aggregate(new Count(), new Fields("count"));
        StormTopology topology = trident.build();
        Instrumenter.Result result = Instrumenter.wrap(topology);
        assertEquals(Map.of(), result.unwrapped());
        assertEquals(topology.get_bolts_size() + topology.get_spouts_size(), result.wrapped().size());
    }

    @Test
    void theTopologysOwnConsumersAndRegistrationsStay() {
        Map<String, Object> own = Map.of("class", "a.Consumer");
        Map<String, Object> conf = new HashMap<>(Map.of(
            "topology.metrics.consumer.register", List.of(own), "topology.kryo.register", List.of("a.Class")));
        SubmitSettings.Metrics metrics = new SubmitSettings.Metrics("http://h/write", "/t", "/c", "/s", "name", 2, 3);
        Instrumenter.configure(conf, metrics);
        assertEquals(List.of("a.Class", "java.util.Collections$EmptyMap"), conf.get("topology.kryo.register"));
        assertEquals(2, conf.get("harness.bucket_s"));
        assertEquals(List.of(own, Map.of("class", LineProtocolConsumer.class.getName(), "parallelism.hint", 3,
            "max.retain.metric.tuples", 0,
            "argument", Map.of("url", "http://h/write", "token_file", "/t", "ca_file", "/c", "spool", "/s", "topology", "name"))),
            conf.get("topology.metrics.consumer.register"));
    }

    private static Object object(ComponentObject component) {
        return Utils.javaDeserialize(component.get_serialized_java(), Object.class);
    }

    private static final class Shell extends ShellBolt implements IRichBolt {
        private static final long serialVersionUID = 1L;

        Shell() {
            super("python3", "bolt.py");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
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
    }
}
