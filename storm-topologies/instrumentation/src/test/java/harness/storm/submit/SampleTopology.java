package harness.storm.submit;

import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.SubmitOptions;
import org.apache.storm.generated.TopologyInitialStatus;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.TupleUtils;
import org.apache.storm.utils.Utils;
import org.apache.storm.windowing.TupleWindow;

/**
 * A topology that knows nothing of the harness: {@link #MESSAGES} messages, each failed or doubled by {@code pool} (from
 * threads of its own), sent on to {@code sink} (which also gets ticks), to {@code window} (count windows), to {@code clock}
 * (time windows), and directly to the task of {@code direct} with the lowest number.
 */
public final class SampleTopology {
    static final int MESSAGES = 400;
    /** Every so many messages one is failed. */
    static final int FAIL_EVERY = 100;
    static final int WINDOW = 10;

    private SampleTopology() {
    }

    /**
     * @param args the topology's name, then anything to do besides: {@code twice}, {@code throw}, {@code exit},
     *     {@code watch}, {@code inactive}, {@code inactive-then-active}; or {@code hang} to submit nothing and go on */
    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            return;
        }
        if (args[0].isEmpty()) {
            System.err.println("usage: the topology needs a name");
            System.exit(2);
        }
        String besides = args.length > 1 ? args[1] : "";
        if (besides.equals("hang")) {
            Thread.sleep(Long.MAX_VALUE);
        }
        Config conf = new Config();
        conf.setNumWorkers(2);
        conf.setNumAckers(1);
        conf.setMessageTimeoutSecs(600); // no message may time out, however busy the machine
        conf.put(Config.TOPOLOGY_FALL_BACK_ON_JAVA_SERIALIZATION, false);
        if (besides.startsWith("inactive")) {
            StormSubmitter.submitTopology(
                args[0], conf, topology(), new SubmitOptions(TopologyInitialStatus.INACTIVE));
        } else {
            StormSubmitter.submitTopology(args[0], conf, topology());
        }
        switch (besides) {
            case "twice" -> StormSubmitter.submitTopology(args[0] + "-again", conf, topology());
            case "throw" -> throw new IllegalStateException("main is not happy\nat all");
            case "exit" -> System.exit(5);
            case "inactive-then-active" -> {
                try (NimbusClient nimbus = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
                    nimbus.getClient().activate(args[0]);
                }
            }
            case "watch" -> Thread.sleep(Long.MAX_VALUE);
            default -> {
            }
        }
    }

    static StormTopology topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Source(), 1);
        builder.setBolt("pool", new Pool(), 2).setNumTasks(4).shuffleGrouping("source");
        builder.setBolt("sink", new Sink(), 2).setNumTasks(3).fieldsGrouping("pool", new Fields("n"))
            .addConfiguration(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 1);
        builder.setBolt("window", new CountingWindow().withTumblingWindow(BaseWindowedBolt.Count.of(WINDOW)), 1)
            .globalGrouping("pool", "loose");
        builder.setBolt("clock", new CountingWindow().withTumblingWindow(BaseWindowedBolt.Duration.of(50)), 1)
            .globalGrouping("pool", "loose");
        builder.setBolt("counted", new Sink(), 1).shuffleGrouping("window").shuffleGrouping("clock");
        builder.setBolt("direct", new Sink(), 2).directGrouping("pool", "straight");
        return builder.createTopology();
    }

    public static final class Source extends NumberedSpout {
        private static final long serialVersionUID = 1L;

        public Source() {
            super(MESSAGES);
        }
    }

    /** Emits from threads of its own. */
    public static final class Pool extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;
        private transient ExecutorService threads;
        private int directTask;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
            threads = Executors.newFixedThreadPool(3);
            directTask = context.getComponentTasks("direct").stream().min(Integer::compare).orElseThrow();
        }

        @Override
        public void execute(Tuple tuple) {
            threads.execute(() -> {
                long n = tuple.getLong(0);
                if (n % FAIL_EVERY == 0) {
                    collector.fail(tuple);
                    return;
                }
                for (int copy = 0; copy < 2; copy++) {
                    collector.emit(tuple, new Values(n));
                    collector.emit("loose", new Values(n));
                }
                collector.emitDirect(directTask, "straight", tuple, new Values(n));
                collector.emit("unheard", new Values(n));
                collector.ack(tuple);
            });
        }

        @Override
        public void cleanup() {
            threads.shutdownNow();
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("n"));
            declarer.declareStream("loose", new Fields("n"));
            declarer.declareStream("straight", true, new Fields("n"));
            declarer.declareStream("unheard", new Fields("n"));
        }
    }

    public static final class CountingWindow extends BaseWindowedBolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void execute(TupleWindow window) {
            collector.emit(new Values((long) window.get().size()));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("n"));
        }
    }

    public static final class Sink extends BaseBasicBolt {
        private static final long serialVersionUID = 1L;

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            if (!TupleUtils.isTick(tuple)) {
                tuple.getLong(0);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }
}
