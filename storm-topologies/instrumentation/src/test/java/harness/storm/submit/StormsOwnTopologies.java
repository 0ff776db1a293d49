package harness.storm.submit;

import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.testing.FixedBatchSpout;
import org.apache.storm.trident.testing.MemoryMapState;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** A topology with a stateful bolt and one of Trident's, by name: Storm wraps their components in classes of its own. */
public final class StormsOwnTopologies {

    private StormsOwnTopologies() {
    }

    /** @param args {@code stateful} or {@code trident} */
    public static void main(String[] args) throws Exception {
        Config conf = new Config();
        conf.setNumWorkers(1);
        conf.setNumAckers(1);
        conf.setMessageTimeoutSecs(600); // no message may time out, however busy the machine
        conf.put(Config.TOPOLOGY_STATE_CHECKPOINT_INTERVAL, 200);
        StormSubmitter.submitTopology(args[0], conf, args[0].equals("trident") ? trident() : stateful());
    }

    private static StormTopology stateful() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new SampleTopology.Source());
        builder.setBolt("state", new Remembering()).shuffleGrouping("source");
        builder.setBolt("sink", new SampleTopology.Sink()).shuffleGrouping("state");
        return builder.createTopology();
    }

    @SuppressWarnings("unchecked") // the varargs of Storm's test spout
    private static StormTopology trident() {
        FixedBatchSpout words = new FixedBatchSpout(new Fields("word"), 2, new Values("a"), new Values("b"));
        words.setCycle(true);
        TridentTopology trident = new TridentTopology();
        trident.newStream("words", words).groupBy(new Fields("word"))
            .persistentAggregate(new MemoryMapState.Factory(), new Count(), new Fields("count"));
        return trident.build();
    }

    public static final class Remembering extends BaseStatefulBolt<KeyValueState<String, Long>> {
        private static final long serialVersionUID = 1L;
        private transient KeyValueState<String, Long> state;
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void initState(KeyValueState<String, Long> initial) {
            state = initial;
        }

        @Override
        public void execute(Tuple tuple) {
            long count = state.get("count", 0L) + 1;
            state.put("count", count);
            collector.emit(tuple, new Values(count));
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("n"));
        }
    }
}
