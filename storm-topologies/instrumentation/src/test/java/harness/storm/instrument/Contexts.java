package harness.storm.instrument;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/**
 * Storm's own contexts of the tasks of a small topology: {@code source} (task 1) to {@code middle} (tasks 2, 3) by shuffle,
 * {@code middle} to {@code end} (tasks 4, 5) on the streams default (fields) and straight (direct).
 */
final class Contexts {
    /** What the task registered: bucket length, task, name. */
    final Map<Integer, Map<Integer, Map<String, IMetric>>> metrics = new HashMap<>();
    private final StormTopology topology;
    private final Map<Integer, String> tasks = Map.of(1, "source", 2, "middle", 3, "middle", 4, "end", 5, "end");

    Contexts() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Spout());
        builder.setBolt("middle", new Bolt(), 2).shuffleGrouping("source");
        builder.setBolt("end", new Bolt(), 2).fieldsGrouping("middle", new Fields("n")).directGrouping("middle", "straight");
        topology = builder.createTopology();
    }

    TopologyContext task(int task) {
        return task(task, "topology-1");
    }

    TopologyContext task(int task, String topologyId) {
        Map<String, Fields> streams = Map.of("default", new Fields("n"), "straight", new Fields("n"));
        return new TopologyContext(topology, new HashMap<>(), tasks,
            Map.of("source", List.of(1), "middle", List.of(2, 3), "end", List.of(4, 5)),
            Map.of("source", streams, "middle", streams, "end", streams,
                "__system", Map.of("__tick", new Fields("rate_secs"))),
            Map.of(), topologyId, "code", "pids", task, 6700, List.copyOf(tasks.keySet()),
            Map.of(), Map.of(), new HashMap<>(), metrics, new AtomicBoolean(false), null);
    }

    /** What a metric reports now. */
    @SuppressWarnings("unchecked")
    Map<String, Object> report(int bucketS, int task, String name) {
        return (Map<String, Object>) metrics.get(bucketS).get(task).get(name).getValueAndReset();
    }

    static class Spout extends BaseRichSpout {
        private static final long serialVersionUID = 1L;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context,
                org.apache.storm.spout.SpoutOutputCollector collector) {
        }

        @Override
        public void nextTuple() {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    static class Bolt extends BaseRichBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context,
                org.apache.storm.task.OutputCollector collector) {
        }

        @Override
        public void execute(Tuple tuple) {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    private static void declare(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("n"));
        declarer.declareStream("straight", true, new Fields("n"));
    }
}
