package harness.storm.submit;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A topology with a grouping of every kind, which notes in this JVM what each task got from each: its cluster is in the JVM of
 * the test, with two workers that talk over Netty.
 *
 * <p>{@link #MESSAGES} messages go from {@code source} to one component for every grouping, and from there, anchored, to
 * {@code end} by field and to {@code straight} directly. Where it is told to fail, the components whose names begin with
 * {@code f} fail every so many at the first attempt. What fails is sent again.
 */
public final class OrderedTopology {
    static final int MESSAGES = 3000;
    static final int FAIL_EVERY = 150;
    static final List<String> GROUPINGS = List.of("fields", "partial", "all", "first", "custom", "shuffle", "local", "none");
    static final List<String> RANDOM = List.of("shuffle", "local", "none");

    /** By topology. */
    static final Map<String, Notes> NOTES = new ConcurrentHashMap<>();

    private OrderedTopology() {
    }

    /** What happened to one topology. */
    static final class Notes {
        /** By "component sending task > receiving task": message numbers, in order. */
        final Map<String, List<Integer>> received = new ConcurrentSkipListMap<>();
        /** By message: what the spout's emit returned at the first attempt. */
        final Map<Integer, List<Integer>> returned = new ConcurrentSkipListMap<>();
        final Set<Integer> acked = ConcurrentHashMap.newKeySet();
        final AtomicLong acks = new AtomicLong();
        final AtomicLong fails = new AtomicLong();
        final AtomicLong refusals = new AtomicLong();
        final AtomicLong emits = new AtomicLong();
        final Set<String> failedOnce = ConcurrentHashMap.newKeySet();

        long count(String component) {
            return received.entrySet().stream().filter(way -> way.getKey().startsWith(component + " "))
                .mapToLong(way -> way.getValue().size()).sum();
        }
    }

    /** @param args the topology's name, and {@code fail} or {@code well} */
    public static void main(String[] args) throws Exception {
        boolean failing = args[1].equals("fail");
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Source(args[0]), 1);
        Relay relay = new Relay(args[0], failing);
        builder.setBolt("fields", relay, 3).fieldsGrouping("source", new Fields("key"));
        builder.setBolt("partial", relay, 3).customGrouping("source", new PartialKeyGrouping(new Fields("key")));
        builder.setBolt("all", relay, 2).allGrouping("source");
        builder.setBolt("first", relay, 2).globalGrouping("source");
        builder.setBolt("custom", relay, 3).customGrouping("source", new Some());
        builder.setBolt("shuffle", relay, 3).shuffleGrouping("source");
        builder.setBolt("local", relay, 3).localOrShuffleGrouping("source");
        builder.setBolt("none", relay, 3).noneGrouping("source");
        var end = builder.setBolt("end", new Relay(args[0], false), 4);
        var straight = builder.setBolt("straight", new Relay(args[0], false), 2);
        for (String grouping : GROUPINGS) {
            end.fieldsGrouping(grouping, new Fields("key"));
            straight.directGrouping(grouping, "straight");
        }
        Config conf = new Config();
        conf.setNumWorkers(2);
        conf.setNumAckers(1);
        conf.setMessageTimeoutSecs(600); // no message may time out, however busy the machine
        conf.setMaxSpoutPending(200);
        conf.put(Config.TOPOLOGY_FALL_BACK_ON_JAVA_SERIALIZATION, false);
        StormSubmitter.submitTopology(args[0], conf, builder.createTopology());
    }

    private static void declare(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("key", "n"));
        declarer.declareStream("straight", true, new Fields("key", "n"));
    }

    public static final class Source extends BaseRichSpout {
        private static final long serialVersionUID = 1L;
        private final String topology;
        private transient SpoutOutputCollector collector;
        private transient Notes notes;
        private transient Queue<Integer> again;
        private int next;

        Source(String topology) {
            this.topology = topology;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            collector = output;
            notes = NOTES.get(topology);
            again = new ArrayDeque<>();
        }

        @Override
        public void nextTuple() {
            Integer n = again.poll();
            if (n == null && next < MESSAGES) {
                n = next++;
            }
            if (n != null) {
                List<Integer> tasks = collector.emit(new Values("key " + n % 17, n), n);
                notes.emits.incrementAndGet();
                notes.returned.putIfAbsent(n, List.copyOf(tasks));
            }
        }

        @Override
        public void ack(Object id) {
            notes.acks.incrementAndGet();
            notes.acked.add((Integer) id);
        }

        @Override
        public void fail(Object id) {
            notes.fails.incrementAndGet();
            again.add((Integer) id);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    public static final class Relay extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private final String topology;
        private final boolean failing;
        private transient OutputCollector collector;
        private transient TopologyContext context;
        private transient Notes notes;
        private transient String name;

        Relay(String topology, boolean failing) {
            this.topology = topology;
            this.failing = failing;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext own, OutputCollector output) {
            collector = output;
            context = own;
            name = own.getThisComponentId();
            notes = NOTES.get(topology);
        }

        @Override
        public void execute(Tuple tuple) {
            int n = tuple.getIntegerByField("n");
            notes.received.computeIfAbsent(name + " " + tuple.getSourceTask() + " > " + context.getThisTaskId(),
                way -> java.util.Collections.synchronizedList(new ArrayList<>())).add(n);
            if (failing && name.startsWith("f") && n % FAIL_EVERY == 0 && notes.failedOnce.add(name + n)) {
                notes.refusals.incrementAndGet();
                collector.fail(tuple);
                return;
            }
            if (!name.equals("end") && !name.equals("straight")) {
                collector.emit(tuple, new Values(tuple.getValue(0), n));
                List<Integer> straight = context.getComponentTasks("straight");
                collector.emitDirect(straight.get(n % straight.size()), "straight", tuple, new Values(tuple.getValue(0), n));
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    /** No task, or one, or two. */
    public static final class Some implements CustomStreamGrouping {
        private static final long serialVersionUID = 1L;
        private transient List<Integer> tasks;
        private transient int seen;

        @Override
        public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targetTasks) {
            tasks = targetTasks;
        }

        @Override
        public List<Integer> chooseTasks(int taskId, List<Object> values) {
            seen++;
            return switch (seen % 3) {
                case 0 -> List.of();
                case 1 -> List.of(tasks.get(seen % tasks.size()));
                default -> List.of(tasks.get(2), tasks.get(seen % 2));
            };
        }
    }
}
