package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.MessageId;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/** A bolt that emits and acks from threads of its own, while batches leave by size and by the worker's timer, and sizes change. */
class ThreadsTest {
    private static final int THREADS = 4;
    private static final int INPUTS = 3000;
    private static final int OUTPUTS = 3;
    private static final int END = 3;

    private static final ConcurrentLinkedQueue<Tuple> ROWS = new ConcurrentLinkedQueue<>();
    private static volatile OutputCollector relay;

    @Test
    void noRowIsLostOrOvertakenAndNoInputIsAckedBeforeItsRowsHaveLeft() throws Exception {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("a-source", new Parts.Source(), 1);
        builder.setBolt("b-relay", new Relay(), 1).shuffleGrouping("a-source");
        builder.setBolt("c-end", new Parts.End(), 1).directGrouping("b-relay", "straight");
        StormTopology topology = builder.createTopology();
        Map<String, Object> conf = new HashMap<>();
        Rewriter.plan(topology, conf, Map.of("b-relay", new BatchSize(16, 1))).apply(topology, conf);
        RewrittenBolt bolt = Utils.javaDeserialize(
            topology.get_bolts().get("b-relay").get_bolt_object().get_serialized_java(), RewrittenBolt.class);
        Map<String, Fields> streams = new HashMap<>();
        topology.get_bolts().get("b-relay").get_common().get_streams().forEach(
            (stream, info) -> streams.put(stream, new Fields(info.get_output_fields())));
        TopologyContext context = new TopologyContext(topology, new HashMap<>(),
            Map.of(1, "a-source", 2, "b-relay", END, "c-end"), Map.of("a-source", List.of(1), "b-relay", List.of(2), "c-end", List.of(END)),
            Map.of("a-source", streams, "b-relay", streams, "c-end", Map.of()), Map.of(), "t-1", "code", null, 2, 6700,
            List.of(1, 2, END), Map.of(), Map.of(), new HashMap<>(), new HashMap<>(), new AtomicBoolean(false), null);
        Recorder recorder = new Recorder();
        bolt.prepare(conf, context, new OutputCollector(recorder));

        for (long input = 0; input < INPUTS * THREADS; input++) {
            bolt.execute(new TupleImpl(context, new Values(input), "a-source", 1, "default", MessageId.makeRootId(input, 1)));
        }
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < THREADS; t++) {
            int own = t;
            threads.add(new Thread(() -> {
                for (int i = 0; i < INPUTS; i++) {
                    Tuple row = ROWS.remove();
                    for (int k = 0; k < OUTPUTS; k++) {
                        relay.emitDirect(END, "straight", row, new Values(List.of(own, i * OUTPUTS + k, row.getLong(0))));
                    }
                    relay.ack(row);
                }
            }));
        }
        Thread teller = new Thread(() -> {
            Random random = new Random(1);
            while (!Thread.currentThread().isInterrupted()) {
                LiveSizes.of("t-1").set(Map.of("b-relay", Map.of("straight", new BatchSize(2 + random.nextInt(15), 1))));
                Thread.yield();
            }
        });
        teller.start();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        teller.interrupt();
        teller.join();
        bolt.cleanup();
        LiveSizes.of("t-1").set(Map.of());

        assertEquals(INPUTS * THREADS, recorder.acked.size(), "every input is acked");
        Map<Integer, List<Integer>> byThread = new TreeMap<>();
        recorder.rows.forEach(row -> byThread.computeIfAbsent((Integer) row.get(0), t -> new ArrayList<>())
            .add((Integer) row.get(1)));
        List<Integer> all = new ArrayList<>();
        for (int i = 0; i < INPUTS * OUTPUTS; i++) {
            all.add(i);
        }
        for (int t = 0; t < THREADS; t++) {
            assertEquals(all, byThread.get(t), "each row once, in the order of the thread that emitted it");
        }
    }

    /** Storm's side: what left, and what was acked when. Storm is called under the layer's lock; a lock of its own tells. */
    private static final class Recorder implements IOutputCollector {
        private final List<List<?>> rows = new ArrayList<>();
        private final Map<Long, Integer> left = new HashMap<>();
        private final Set<Long> acked = new HashSet<>();

        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            throw new AssertionError("nothing is emitted but directly");
        }

        @Override
        public synchronized void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
            assertEquals(HiddenStreams.batch("straight"), stream);
            Batch batch = (Batch) values.get(0);
            assertTrue(batch.size() <= 16);
            Set<Long> anchored = new HashSet<>();
            anchors.forEach(anchor -> anchored.add(anchor.getLong(0)));
            for (int i = 0; i < batch.size(); i++) {
                List<?> row = (List<?>) batch.row(i).get(0);
                rows.add(row);
                left.merge((Long) row.get(2), 1, Integer::sum);
                assertTrue(anchored.contains(row.get(2)), "the batch is anchored to what its rows are");
            }
        }

        @Override
        public synchronized void ack(Tuple input) {
            assertEquals(OUTPUTS, left.get(input.getLong(0)), "acked when all has left");
            assertTrue(acked.add(input.getLong(0)), "acked once");
        }

        @Override
        public void fail(Tuple input) {
            throw new AssertionError("nothing is failed");
        }

        @Override
        public void resetTimeout(Tuple input) {
        }

        @Override
        public void flush() {
        }

        @Override
        public void reportError(Throwable error) {
        }
    }

    public static final class Relay extends Parts.Relay {
        private static final long serialVersionUID = 1L;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext own, OutputCollector output) {
            relay = output;
        }

        @Override
        public void execute(Tuple tuple) {
            ROWS.add(tuple);
        }
    }
}
