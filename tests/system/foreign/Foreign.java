import java.util.Map;
import java.util.Random;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/** Somebody's topology, which knows nothing of the harness: numbers, doubled, added up by key. */
public class Foreign {

    /** Arguments: the topology's name, and how its main behaves. */
    public static void main(String[] args) throws Exception {
        String how = args[1];
        if (how.equals("never")) {
            System.err.println("nothing to do today");
            return;
        }
        TopologyBuilder builder = new TopologyBuilder();
        if (how.equals("busy")) { // one executor for all sums, three quarters of the time
            builder.setSpout("numbers", new Numbers(true, 1, 5), 1);
            builder.setBolt("twice", new Twice(), 1).shuffleGrouping("numbers");
            builder.setBolt("sum", new Sum(2), 1).setNumTasks(4).fieldsGrouping("twice", new Fields("key"));
        } else {
            builder.setSpout("numbers", new Numbers(!how.equals("untracked"), 10, 1), 2);
            builder.setBolt("twice", new Twice(), 4).shuffleGrouping("numbers");
            builder.setBolt("sum", new Sum(1), 4).fieldsGrouping("twice", new Fields("key"));
        }
        Config conf = new Config();
        conf.setNumWorkers(1);
        conf.setMaxSpoutPending(1000);
        // Idle bolts look for tuples a thousand times between two sleeps otherwise, at the cost of a core.
        conf.put(Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL2_COUNT, 1);
        StormSubmitter.submitTopology(args[0], conf, builder.createTopology());
        switch (how) {
            case "twice" -> StormSubmitter.submitTopology(args[0] + "-2", conf, builder.createTopology());
            case "watch" -> Thread.sleep(Long.MAX_VALUE);
            case "exit" -> System.exit(3);
            default -> {
            }
        }
    }

    /** Pauses of so many milliseconds, after one in so many of which there is a number, by chance. */
    public static class Numbers extends BaseRichSpout {
        private final boolean tracked;
        private final long pauseMs;
        private final int every;
        private transient SpoutOutputCollector collector;
        private transient Random random;
        private long next;

        Numbers(boolean tracked, long pauseMs, int every) {
            this.tracked = tracked;
            this.pauseMs = pauseMs;
            this.every = every;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            collector = output;
            random = new Random(27);
        }

        @Override
        public void nextTuple() {
            Utils.sleep(pauseMs);
            if (random.nextInt(every) != 0) {
                return;
            }
            if (tracked) {
                collector.emit(new Values(next), next);
            } else {
                collector.emit(new Values(next));
            }
            next++;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("number"));
        }
    }

    /** Two tuples for one. */
    public static class Twice extends BaseBasicBolt {
        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            long number = tuple.getLong(0);
            collector.emit(new Values(number % 8, number));
            collector.emit(new Values(number % 5, number));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "number"));
        }
    }

    /** Takes so many milliseconds. */
    public static class Sum extends BaseBasicBolt {
        private final long takesMs;
        private long sum;

        Sum(long takesMs) {
            this.takesMs = takesMs;
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            Utils.sleep(takesMs);
            sum += tuple.getLong(1);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }

    /** A main that fails before it submits. */
    public static class Failing {
        public static void main(String[] args) {
            throw new IllegalStateException("no numbers today");
        }
    }
}
