import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
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

/** The tutorial's topology: orders get a price from a service that answers slowly, and are added up by shop. */
public class Orders {

    private static final double ORDERS_PER_S = 50;
    private static final double LEAST_MS = 6;
    private static final double MOST_MS = 18;

    /** One argument, the topology's name. */
    public static void main(String[] args) throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("orders", new Source(), 1);
        builder.setBolt("price", new Price(), 1).setNumTasks(4).shuffleGrouping("orders");
        builder.setBolt("total", new Total(), 1).setNumTasks(4).fieldsGrouping("price", new Fields("shop"));
        Config conf = new Config();
        conf.setNumWorkers(1);
        conf.setMaxSpoutPending(1000);
        // Idle bolts look for tuples a thousand times between two sleeps otherwise, at the cost of a core.
        conf.put(Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL2_COUNT, 1);
        // Each tuple to the next executor, whichever is busy.
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        StormSubmitter.submitTopology(args[0], conf, builder.createTopology());
    }

    /** Orders at random times. */
    public static class Source extends BaseRichSpout {
        private final Random random = new Random(1);
        private transient SpoutOutputCollector output;
        private long next;
        private long dueNanos;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            output = collector;
            dueNanos = System.nanoTime();
        }

        @Override
        public void nextTuple() {
            long early = dueNanos - System.nanoTime();
            if (early > 0) {
                LockSupport.parkNanos(Math.min(early, 1_000_000));
                return;
            }
            dueNanos += (long) (-Math.log(1 - random.nextDouble()) * 1e9 / ORDERS_PER_S);
            output.emit(new Values("shop-" + next % 7, next), next);
            next++;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("shop", "order"));
        }
    }

    /** Asks for a price, and waits for the answer. */
    public static class Price extends BaseBasicBolt {
        private final Random random = new Random(2);

        @Override
        public void execute(Tuple order, BasicOutputCollector output) {
            double answerMs = LEAST_MS + random.nextDouble() * (MOST_MS - LEAST_MS);
            long until = System.nanoTime() + (long) (answerMs * 1e6);
            for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            output.emit(new Values(order.getStringByField("shop"), 1 + order.getLongByField("order") % 100));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("shop", "price"));
        }
    }

    /** The sum of each shop. */
    public static class Total extends BaseBasicBolt {
        private final Map<String, Long> sums = new HashMap<>();

        @Override
        public void execute(Tuple priced, BasicOutputCollector output) {
            sums.merge(priced.getStringByField("shop"), priced.getLongByField("price"), Long::sum);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // It is the last one.
        }
    }
}
