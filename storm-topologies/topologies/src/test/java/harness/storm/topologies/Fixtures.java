package harness.storm.topologies;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsGetter;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;

/** A bolt's surroundings: Storm's own context and tuples, and a collector that remembers. */
final class Fixtures {
    static final int TASK = 20;
    static final long SEED = 7;
    static final Keys KEYS = new Keys(List.of("A", "B", "C"), List.of(5.0, 3.0, 2.0));
    static final Workload WORKLOAD = new Workload(SEED, KEYS);

    /** Tasks that send to the bolt: two components, so that a join can be tested. */
    private static final Map<Integer, String> SENDERS = Map.of(1, "left", 2, "left", 3, "right");

    private Fixtures() {}

    /** An emitted tuple. */
    record Emitted(String stream, Set<Tuple> anchors, List<Object> values) {
        String key() {
            return (String) values.get(0);
        }

        Message message() {
            try {
                return Message.parse((String) values.get(1));
            } catch (MalformedMessageException e) {
                throw new AssertionError(e);
            }
        }

        List<Member> members() {
            try {
                return Members.decode((byte[]) values.get(2));
            } catch (MalformedMessageException e) {
                throw new AssertionError(e);
            }
        }
    }

    /** Remembers what a bolt did; may be called from several threads. */
    static class Recorder implements IOutputCollector {
        final List<Emitted> emitted = new ArrayList<>();
        final List<Tuple> acked = new ArrayList<>();
        final List<Tuple> failed = new ArrayList<>();
        final List<Throwable> errors = new ArrayList<>();

        @Override
        public synchronized List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            Set<Tuple> set = Collections.newSetFromMap(new IdentityHashMap<>());
            set.addAll(anchors);
            emitted.add(new Emitted(stream, set, values));
            notifyAll();
            return List.of();
        }

        @Override
        public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
            throw new UnsupportedOperationException("no component emits directly");
        }

        @Override
        public synchronized void ack(Tuple tuple) {
            acked.add(tuple);
            notifyAll();
        }

        @Override
        public synchronized void fail(Tuple tuple) {
            failed.add(tuple);
        }

        @Override
        public void resetTimeout(Tuple tuple) {}

        @Override
        public void flush() {}

        @Override
        public synchronized void reportError(Throwable error) {
            errors.add(error);
        }

        /** Waits until what was emitted is as wanted, or fails after a minute. */
        synchronized void await(String wanted, Predicate<List<Emitted>> condition) throws InterruptedException {
            long deadlineNs = System.nanoTime() + 60_000_000_000L;
            while (!condition.test(List.copyOf(emitted))) {
                long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
                if (leftMs <= 0) {
                    throw new AssertionError("waited in vain for " + wanted + ", emitted: " + emitted);
                }
                wait(leftMs);
            }
        }

        synchronized List<Emitted> emittedSoFar() {
            return List.copyOf(emitted);
        }
    }

    /** A bolt that is prepared as task 20 of component {@code bolt}. */
    static final class Prepared {
        final Recorder recorder = new Recorder();
        final IRichBolt bolt;
        final TopologyContext context;
        final Map<Integer, Map<Integer, Map<String, IMetric>>> metrics = new HashMap<>();

        Prepared(IRichBolt bolt, Map<String, Object> conf) {
            this.bolt = bolt;
            Map<String, Object> settings = new HashMap<>(conf);
            if (bolt.getComponentConfiguration() != null) {
                settings.putAll(bolt.getComponentConfiguration());
            }
            context = context(bolt, settings, metrics);
            bolt.prepare(settings, context, new OutputCollector(recorder));
        }

        Prepared(IRichBolt bolt) {
            this(bolt, Map.of());
        }

        /** Sends a tuple from a task of SENDERS. */
        Tuple send(int fromTask, Message message, List<Member> members) {
            Tuple tuple = tuple(fromTask, message.toJson(), Members.encode(members));
            bolt.execute(tuple);
            return tuple;
        }

        /** Sends a message that only the spout has seen, entered at this time. */
        Tuple send(int fromTask, long messageId, long enteredNs) {
            return send(fromTask, message(fromTask, messageId), List.of(member(fromTask, messageId, enteredNs)));
        }

        Tuple tuple(int fromTask, String json, byte[] members) {
            return tuple(fromTask, "A", json, members);
        }

        Tuple tuple(int fromTask, String key, String json, byte[] members) {
            List<Object> values = Tuples.values(key, json, members);
            return new TupleImpl(context, values, SENDERS.get(fromTask), fromTask, "default");
        }
    }

    static Message message(int spoutTask, long messageId) {
        return new Message(messageId, 0, "text", "spout:" + spoutTask, null);
    }

    static Member member(int spoutTask, long messageId, long enteredNs) {
        return new Member(messageId, 0, enteredNs, List.of(new Hop(spoutTask, enteredNs, enteredNs)));
    }

    private static TopologyContext context(
            IRichBolt bolt, Map<String, Object> conf, Map<Integer, Map<Integer, Map<String, IMetric>>> metrics) {
        Map<Integer, String> tasks = new TreeMap<>(SENDERS);
        tasks.put(TASK, "bolt");
        Map<String, List<Integer>> byComponent =
                Map.of("left", List.of(1, 2), "right", List.of(3), "bolt", List.of(TASK));
        OutputFieldsGetter outputs = new OutputFieldsGetter();
        bolt.declareOutputFields(outputs);
        Map<String, Fields> own = new LinkedHashMap<>();
        outputs.getFieldsDeclaration().forEach((stream, info) -> own.put(stream, new Fields(info.get_output_fields())));
        Map<String, Fields> input = Map.of("default", Tuples.fields());
        Map<String, Map<String, Fields>> fields = Map.of("left", input, "right", input, "bolt", own);
        Bolt declared = new Bolt(null, new ComponentCommon());
        StormTopology topology = new StormTopology(Map.of(), Map.of("bolt", declared), Map.of());
        return new TopologyContext(
                topology, conf, tasks, byComponent, fields, Map.of(), "topology-1", null, null, TASK, 6700,
                List.of(TASK), Map.of(), Map.of(), new HashMap<>(), metrics, new AtomicBoolean(false), null);
    }
}
