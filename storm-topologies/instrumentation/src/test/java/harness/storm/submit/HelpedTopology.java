package harness.storm.submit;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/**
 * Leron's topology (section 6.2), which notes in this JVM what became of each message: word, two of compute, exclam1, which
 * waits 2 ms for each, and exclam2. As many messages are under way as exclam1's queue has room for, unless it is flooded.
 */
public final class HelpedTopology {
    static final int MESSAGES = 1500;
    private static final int ROOM = 64;
    private static final long SERVICE_NS = 2_000_000;

    /** By topology. */
    static final Map<String, Notes> NOTES = new ConcurrentHashMap<>();

    private HelpedTopology() {
    }

    /** What happened to one topology. */
    static final class Notes {
        final AtomicLong acks = new AtomicLong();
        final AtomicLong fails = new AtomicLong();
        final AtomicLong computed = new AtomicLong();
        final AtomicLong served = new AtomicLong();
        final AtomicLong helped = new AtomicLong();
        final ConcurrentLinkedQueue<Long> received = new ConcurrentLinkedQueue<>();
    }

    /** @param args the topology's name, and {@code flooded}: two workers, and all messages are under way at once */
    public static void main(String[] args) throws Exception {
        boolean flooded = List.of(args).contains("flooded");
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("word", new Word(args[0]), 1);
        builder.setBolt("compute", new Passing(args[0]), 2).shuffleGrouping("word");
        builder.setBolt("exclam1", new Passing(args[0]), 1).shuffleGrouping("compute");
        builder.setBolt("exclam2", new Passing(args[0]), 1).shuffleGrouping("exclam1");
        Config conf = new Config();
        conf.setNumWorkers(flooded ? 2 : 1);
        conf.setNumAckers(1);
        conf.setMessageTimeoutSecs(600); // no message may time out, however busy the machine
        conf.setMaxSpoutPending(flooded ? MESSAGES : ROOM - 2);
        conf.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, ROOM);
        StormSubmitter.submitTopology(args[0], conf, builder.createTopology());
    }

    public static final class Word extends NumberedSpout {
        private static final long serialVersionUID = 1L;
        private final String name;

        Word(String name) {
            super(MESSAGES);
            this.name = name;
        }

        @Override
        public void ack(Object id) {
            NOTES.get(name).acks.incrementAndGet();
        }

        @Override
        public void fail(Object id) {
            NOTES.get(name).fails.incrementAndGet();
        }
    }

    /** Any of the bolts: what it is it knows by where its tuples come from. */
    public static final class Passing extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        private final String name;
        private transient OutputCollector collector;
        private transient String component;

        Passing(String name) {
            this.name = name;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
            component = context.getThisComponentId();
        }

        @Override
        public void execute(Tuple tuple) {
            Notes notes = NOTES.get(name);
            switch (tuple.getSourceComponent()) {
                case "word" -> notes.computed.incrementAndGet();
                case "compute" -> {
                    LockSupport.parkNanos(SERVICE_NS);
                    (component.equals("exclam1") ? notes.served : notes.helped).incrementAndGet();
                }
                default -> notes.received.add(tuple.getLong(0));
            }
            if (!component.equals("exclam2")) {
                collector.emit(tuple, List.copyOf(tuple.getValues()));
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("n"));
        }
    }
}
