package harness.storm.topologies;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.LongSupplier;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;
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

/**
 * A sender that is never short of input and a receiver that counts: what a message costs shows as throughput.
 *
 * <p>{@code SaturatedPair NAME BATCHES SIZES WORKS_US PHASE_MS IN_FLIGHT}, lists separated by commas. There is a
 * stream for each batch size, tuple size and time of user code, called as {@link #stream}; the batches are made by
 * whoever submits. User code is a loop of the sender before each tuple. The sender takes one stream after another,
 * each for a phase, in rounds over all of them that are shuffled anew, and waits between two for its acks, so that
 * what disturbs the machine is spread over all of them.
 */
public final class SaturatedPair {
    private static final int ARGUMENTS = 6;
    private static final int MESSAGE_TIMEOUT_S = 30;
    private static final int LEAST_BATCH = 50;

    private SaturatedPair() {}

    /**
     * Submits the topology.
     *
     * @param args name, batch sizes, tuple sizes in bytes, microseconds of user code a tuple, length of a phase, most
     *     batches that are not acked; batches below {@value #LEAST_BATCH} count as that
     * @throws Exception from Storm, when the submission is refused
     */
    public static void main(String[] args) throws Exception {
        if (args.length != ARGUMENTS) {
            throw new IllegalArgumentException(
                    "usage: SaturatedPair NAME BATCHES SIZES WORKS_US PHASE_MS IN_FLIGHT");
        }
        Config conf = new Config();
        conf.setNumWorkers(2);
        conf.setMessageTimeoutSecs(MESSAGE_TIMEOUT_S);
        StormSubmitter.submitTopology(
                args[0],
                conf,
                topology(
                        numbers(args[1]),
                        numbers(args[2]),
                        numbers(args[3]),
                        Long.parseLong(args[4]),
                        Integer.parseInt(args[5])));
    }

    static StormTopology topology(int[] batches, int[] sizes, int[] worksUs, long phaseMs, int inFlight) {
        List<Phase> phases = new ArrayList<>();
        for (int batch : batches) {
            for (int size : sizes) {
                for (int workUs : worksUs) {
                    String stream = stream(batch, size, workUs);
                    phases.add(new Phase(stream, size, workUs, inFlight * Math.max(batch, LEAST_BATCH)));
                }
            }
        }
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sender", new Sender(phases, phaseMs), 1);
        var receiver = builder.setBolt("receiver", new Receiver(), 1);
        phases.forEach(phase -> receiver.shuffleGrouping("sender", phase.stream()));
        return builder.createTopology();
    }

    /**
     * Names the stream of one batch size, tuple size and time of user code.
     *
     * @param batch tuples in a message
     * @param size bytes of a tuple's payload
     * @param workUs microseconds of user code in the sender, a tuple
     * @return such as {@code b10-t100-w0}
     */
    static String stream(int batch, int size, int workUs) {
        return "b" + batch + "-t" + size + "-w" + workUs;
    }

    private static int[] numbers(String listed) {
        return Arrays.stream(listed.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    /** A stream that is sent on for a while, payload and user code of its tuples, and how many may be unanswered. */
    record Phase(String stream, int size, int workUs, int inFlight) implements java.io.Serializable {}

    /** Emits as fast as it can, with so many tuples at most that are not acked. */
    static final class Sender extends BaseRichSpout {
        private static final long serialVersionUID = 1;
        private static final long NS_PER_MS = 1_000_000;
        private static final long NS_PER_US = 1_000;

        private final ArrayList<Phase> phases;
        private final long phaseNs;
        private final Random random = new Random(1);
        private final ArrayList<Phase> round = new ArrayList<>();
        private transient LongSupplier clock;
        private transient SpoutOutputCollector collector;
        private transient byte[] payload;
        private Phase now;
        private long until;
        private long number;
        private int open;

        Sender(List<Phase> phases, long phaseMs) {
            this.phases = new ArrayList<>(phases);
            this.phaseNs = phaseMs * NS_PER_MS;
        }

        void open(LongSupplier nanoTime, SpoutOutputCollector output) {
            clock = nanoTime;
            collector = output;
        }

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
            open(System::nanoTime, output);
        }

        @Override
        public void nextTuple() {
            if (now == null || clock.getAsLong() - until >= 0) {
                if (open > 0) {
                    return; // nothing of one phase is counted in the next
                }
                begin();
            }
            if (open < now.inFlight()) {
                open++;
                work(now.workUs() * NS_PER_US);
                collector.emit(now.stream(), new Values(payload), number++);
            }
        }

        private void work(long timeNs) {
            if (timeNs > 0) {
                long began = clock.getAsLong();
                while (clock.getAsLong() - began < timeNs) {
                    Thread.onSpinWait();
                }
            }
        }

        private void begin() {
            if (round.isEmpty()) {
                round.addAll(phases);
                Collections.shuffle(round, random);
            }
            now = round.remove(round.size() - 1);
            payload = new byte[now.size()];
            until = clock.getAsLong() + phaseNs;
        }

        @Override
        public void ack(Object id) {
            open--;
        }

        @Override
        public void fail(Object id) {
            open--;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            phases.forEach(phase -> declarer.declareStream(phase.stream(), new Fields("payload")));
        }
    }

    /** Acks what it gets. */
    static final class Receiver extends BaseRichBolt {
        private static final long serialVersionUID = 1;
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void execute(Tuple tuple) {
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // it emits nothing
        }
    }
}
