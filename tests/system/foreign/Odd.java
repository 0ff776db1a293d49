import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.SubmitOptions;
import org.apache.storm.generated.TopologyInitialStatus;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/** A line of a ticking spout, a bolt and a sink, submitted in ways that are allowed and seldom. */
public class Odd {
    private static final Map<String, String> BOLTS = Map.of(
        "backslash", "C:\\", "comma", "one\\,two", "strange", "split, words=1 \"größe\"");

    /** Arguments: the topology's name, and what is odd. */
    public static void main(String[] args) throws Exception {
        String name = args[0];
        String how = args[1];
        String bolt = BOLTS.getOrDefault(how, "middle");
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("ticks", how.equals("bursts") ? new Bursts() : new Ticks(), 1);
        boolean silent = how.equals("silent") || how.equals("forgetful");
        builder.setBolt(bolt, new Step(silent, false), 2).setNumTasks(4).shuffleGrouping("ticks");
        builder.setBolt("end", new Step(false, true), 2).shuffleGrouping(bolt);
        Config conf = new Config();
        conf.setMaxSpoutPending(50);
        SubmitOptions options = new SubmitOptions(TopologyInitialStatus.ACTIVE);
        switch (how) {
            case "logged" -> conf.setNumEventLoggers(2);
            case "limited" -> conf.setMaxTaskParallelism(3);
            case "inactive" -> options.set_initial_status(TopologyInitialStatus.INACTIVE);
            case "heap" -> conf.put(Config.TOPOLOGY_WORKER_CHILDOPTS, "-Xms700m -Xmx700m");
            case "forgetful" -> conf.setMessageTimeoutSecs(5);
            case "secrets" -> {
                conf.put("shop.url", "jdbc:mysql://db/shop?user=me&password=" + args[2]);
                conf.put("shop", List.of(Map.of("api-token", args[3])));
            }
            case "bytes" -> {
                System.out.write(new byte[] {'m', (byte) 0xe4, '\n', (byte) 0xff});
                System.err.write(0xfe);
            }
            case "closed" -> {
                System.out.close();
                System.setErr(new PrintStream(PrintStream.nullOutputStream()));
            }
            case "unended" -> System.out.print("{\"description\": 1, \"topology\": \"another\"}");
            case "large" -> System.out.println("a table of " + new long[40_000_000].length + " numbers");
            case "asks" -> {
                try (NimbusClient nimbus = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
                    if (nimbus.getClient().getTopologySummaries().stream().anyMatch(t -> t.get_name().equals(name))
                        || nimbus.getClient().getClusterInfo().get_topologies_size() > 0) {
                        throw new IllegalStateException("something runs");
                    }
                }
            }
            case "file" -> {
                List<String> lines = Files.readAllLines(Path.of("words.txt"), StandardCharsets.UTF_8);
                System.out.println(lines.size() + " words");
            }
            case "child" -> new ProcessBuilder("sleep", "600").inheritIO().start();
            case "needs" -> new Helper().help();
            default -> {
            }
        }
        if (how.equals("file-told")) {
            if (!new File("none.txt").exists()) {
                System.err.println("cannot read none.txt");
                System.out.println("usage: Odd NAME HOW");
                throw new IllegalArgumentException("no words");
            }
        }
        StormSubmitter.submitTopology(how.equals("dotted") ? name + ".v2" : name, conf, builder.createTopology(), options);
        if (how.equals("inactive")) {
            try (NimbusClient nimbus = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
                nimbus.getClient().deactivate(name);
            }
        }
    }

    /** Is left out of the jar by a test. */
    public static class Helper {
        int help() {
            return 1;
        }
    }

    /** A main whose own parent is left out of the jar by a test. */
    public static class Child extends Helper {
        public static void main(String[] args) throws Exception {
            Odd.main(args);
        }
    }

    /** Fifty numbers a second. */
    public static class Ticks extends BaseRichSpout {
        protected transient SpoutOutputCollector collector;
        protected long next;
        private long began;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            collector = output;
            began = System.nanoTime();
        }

        @Override
        public void nextTuple() {
            if ((System.nanoTime() - began) / 20_000_000 > next) {
                collector.emit(new Values(next), next);
                next++;
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("number"));
        }
    }

    /** Twenty at once, and half a second of sleep in the same call. */
    public static class Bursts extends Ticks {
        @Override
        public void nextTuple() {
            for (int i = 0; i < 20; i++, next++) {
                collector.emit(new Values(next), next);
            }
            Utils.sleep(500);
        }
    }

    /** Passes on, acks unless it is silent. */
    public static class Step extends BaseRichBolt {
        private final boolean silent;
        private final boolean last;
        private transient OutputCollector collector;

        Step(boolean silent, boolean last) {
            this.silent = silent;
            this.last = last;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void execute(Tuple tuple) {
            if (!last) {
                collector.emit(tuple, new Values(tuple.getLong(0)));
            }
            if (!silent) {
                collector.ack(tuple);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("number"));
        }
    }
}
