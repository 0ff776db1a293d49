package harness.storm.rewrite;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.daemon.GrouperFactory;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NodeInfo;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.LoadAwareCustomStreamGrouping;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.MessageId;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/**
 * A topology in one thread, with the orders of a cluster chosen by a seed: what is random in Storm is a property test's to
 * choose. Tuples are routed by Storm's own groupers, one executor a component, and tracked by the rule of Storm's acker (the
 * exclusive or of a tree's edges); those of one sender to one receiver keep their order, all others do not.
 */
final class Net {
    private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();

    final Map<Integer, Map<Integer, Map<String, IMetric>>> metrics = new HashMap<>();
    final Map<String, List<Integer>> tasks = new TreeMap<>();
    private final StormTopology topology;
    private final Map<String, Object> conf;
    private final boolean ackers;
    private final Random random;
    private final Map<Integer, String> components = new HashMap<>();
    private final Map<String, Map<String, Fields>> fields = new HashMap<>();
    private final Map<String, Map<String, Map<String, LoadAwareCustomStreamGrouping>>> groupers = new HashMap<>();
    private final Map<Integer, ISpout> spouts = new TreeMap<>();
    private final Map<Integer, IBolt> bolts = new TreeMap<>();
    private final Map<List<Integer>, Queue<Tuple>> queues = new LinkedHashMap<>();
    private final Map<Integer, Queue<Runnable>> answers = new TreeMap<>();
    private final Map<Long, Root> roots = new HashMap<>();
    /** Tuples delivered, batches being one each. */
    int delivered;

    /** @param local tasks that count as those of the sender's worker */
    Net(StormTopology topology, Map<String, Object> settings, boolean ackers, long seed, Integer... local) {
        this.topology = topology;
        this.ackers = ackers;
        random = new Random(seed);
        conf = new HashMap<>(DEFAULTS);
        conf.put("storm.cluster.mode", "local"); // Storm then checks the number of fields
        conf.putAll(settings);
        Map<String, ComponentCommon> commons = new TreeMap<>();
        topology.get_spouts().forEach((id, spout) -> commons.put(id, spout.get_common()));
        topology.get_bolts().forEach((id, bolt) -> commons.put(id, bolt.get_common()));
        commons.forEach((id, common) -> {
            List<Integer> own = new ArrayList<>();
            for (int i = 0; i < common.get_parallelism_hint(); i++) {
                components.put(components.size() + 1, id);
                own.add(components.size());
            }
            tasks.put(id, own);
            Map<String, Fields> streams = new HashMap<>();
            common.get_streams().forEach((stream, info) -> streams.put(stream, new Fields(info.get_output_fields())));
            fields.put(id, streams);
        });
        fields.put("__system", Map.of("__tick", new Fields("rate_secs")));
        List<Integer> worker = local.length > 0 ? List.of(local) : List.copyOf(components.keySet());
        commons.keySet().forEach(id -> groupers.put(id, groupers(id, worker)));
        components.forEach((task, id) -> begin(task, id, worker));
    }

    private Map<String, Map<String, LoadAwareCustomStreamGrouping>> groupers(String id, List<Integer> worker) {
        Map<Integer, NodeInfo> nodes = new HashMap<>();
        components.keySet().forEach(task -> nodes.put(task, new NodeInfo("node", java.util.Set.of(6700L))));
        WorkerTopologyContext context = new WorkerTopologyContext(topology, conf, components, tasks, fields, "t-1", "code",
            null, 6700, worker, Map.of(), Map.of(), new AtomicReference<>(nodes), "node",
            new AtomicReference<>(Map.of("node", "host")));
        Map<String, Map<String, LoadAwareCustomStreamGrouping>> all = new HashMap<>();
        fields.get(id).keySet().forEach(stream -> all.put(stream, new HashMap<>()));
        for (Map.Entry<String, Map<String, Grouping>> stream : context.getTargets(id).entrySet()) {
            stream.getValue().forEach((target, grouping) -> all.get(stream.getKey()).put(target, GrouperFactory.mkGrouper(
                context, id, stream.getKey(), fields.get(id).get(stream.getKey()), grouping, tasks.get(target), conf)));
        }
        return all;
    }

    /** The grouper that Storm asks at an emit. */
    LoadAwareCustomStreamGrouping grouper(String component, String stream, String target) {
        return groupers.get(component).get(stream).get(target);
    }

    private void begin(int task, String id, List<Integer> worker) {
        TopologyContext context = context(task, worker);
        if (topology.get_spouts().containsKey(id)) {
            ISpout spout = Utils.javaDeserialize(
                topology.get_spouts().get(id).get_spout_object().get_serialized_java(), ISpout.class);
            spouts.put(task, spout);
            answers.put(task, new ArrayDeque<>());
            spout.open(conf, context, new SpoutOutputCollector(new SpoutCollector(task)));
        } else {
            IBolt bolt = Utils.javaDeserialize(
                topology.get_bolts().get(id).get_bolt_object().get_serialized_java(), IBolt.class);
            bolts.put(task, bolt);
            bolt.prepare(conf, context, new OutputCollector(new BoltCollector(task)));
        }
    }

    private TopologyContext context(int task, List<Integer> worker) {
        return new TopologyContext(topology, conf, components, tasks, fields, Map.of(), "t-1", "code", null, task, 6700,
            worker, Map.of(), Map.of(), new HashMap<>(), metrics, new AtomicBoolean(false), null);
    }

    /** Has each spout emit once. */
    void nextTuples() {
        spouts.values().forEach(ISpout::nextTuple);
    }

    void deactivate() {
        spouts.values().forEach(ISpout::deactivate);
    }

    void activate() {
        spouts.values().forEach(ISpout::activate);
    }

    ISpout spout(int task) {
        return spouts.get(task);
    }

    /** Delivers one tuple, or one answer to a spout; false if there is none. */
    boolean step() {
        List<Runnable> possible = new ArrayList<>();
        queues.forEach((way, queue) -> {
            if (!queue.isEmpty()) {
                possible.add(() -> {
                    delivered++;
                    bolts.get(way.get(1)).execute(queue.remove());
                });
            }
        });
        answers.values().forEach(queue -> {
            if (!queue.isEmpty()) {
                possible.add(() -> queue.remove().run());
            }
        });
        if (possible.isEmpty()) {
            return false;
        }
        possible.get(random.nextInt(possible.size())).run();
        return true;
    }

    void deliverAll() {
        while (step()) {
            continue;
        }
    }

    /** Gives each bolt a tick. */
    void tick() {
        bolts.forEach((task, bolt) ->
            bolt.execute(new TupleImpl(context(task, List.of()), new Values(1), "__system", -1, "__tick")));
    }

    void cleanup() {
        bolts.values().forEach(IBolt::cleanup);
    }

    /** Fails all that a spout waits for, as Storm does with what has timed out. */
    void timeOut() {
        roots.values().stream().sorted(Comparator.comparingLong(root -> root.order)).toList().forEach(root -> {
            if (root.begun) {
                roots.values().remove(root);
                answers.get(root.task).add(() -> spouts.get(root.task).fail(root.message));
            }
        });
    }

    private List<Integer> route(int sender, String stream, List<Object> values) {
        Map<String, LoadAwareCustomStreamGrouping> own = groupers.get(components.get(sender)).get(stream);
        if (own == null) {
            throw new IllegalArgumentException("Unknown stream ID: " + stream);
        }
        List<Integer> to = new ArrayList<>();
        own.values().forEach(grouper -> {
            if (grouper == GrouperFactory.DIRECT) {
                throw new IllegalArgumentException("Cannot do regular emit to direct stream");
            }
            to.addAll(grouper.chooseTasks(sender, values));
        });
        return to;
    }

    private List<Integer> routeDirect(int sender, int target, String stream) {
        LoadAwareCustomStreamGrouping grouper =
            groupers.get(components.get(sender)).get(stream).get(components.get(target));
        if (grouper != null && grouper != GrouperFactory.DIRECT) {
            throw new IllegalArgumentException("Cannot emitDirect to a task expecting a regular grouping");
        }
        return grouper == null ? List.of() : List.of(target);
    }

    private void send(int sender, int target, String stream, List<Object> values, MessageId id) {
        queues.computeIfAbsent(List.of(sender, target), way -> new ArrayDeque<>()).add(
            new TupleImpl(context(target, List.of()), values, components.get(sender), sender, stream, id));
    }

    private Root root(long id) {
        return roots.computeIfAbsent(id, key -> new Root(roots.size()));
    }

    private void mark(long id, long value) {
        Root root = root(id);
        root.value ^= value;
        settle(id, root);
    }

    private void settle(long id, Root root) {
        if (root.begun && root.value == 0) {
            roots.remove(id);
            answers.get(root.task).add(() -> spouts.get(root.task).ack(root.message));
        }
    }

    private static final class Root {
        private final long order;
        private long value;
        private boolean begun;
        private int task;
        private Object message;

        Root(long order) {
            this.order = order;
        }
    }

    private final class SpoutCollector implements ISpoutOutputCollector {
        private final int task;

        SpoutCollector(int task) {
            this.task = task;
        }

        @Override
        public List<Integer> emit(String stream, List<Object> values, Object messageId) {
            return send(stream, values, messageId, route(task, stream, values));
        }

        @Override
        public void emitDirect(int target, String stream, List<Object> values, Object messageId) {
            send(stream, values, messageId, routeDirect(task, target, stream));
        }

        private List<Integer> send(String stream, List<Object> values, Object messageId, List<Integer> to) {
            long id = random.nextLong();
            long all = 0;
            for (int target : to) {
                long edge = random.nextLong();
                all ^= edge;
                Net.this.send(task, target, stream, values,
                    messageId != null && ackers ? MessageId.makeRootId(id, edge) : MessageId.makeUnanchored());
            }
            if (messageId != null && ackers) {
                Root root = root(id);
                root.begun = true;
                root.task = task;
                root.message = messageId;
                mark(id, all);
            } else if (messageId != null) {
                spouts.get(task).ack(messageId);
            }
            return to;
        }

        @Override
        public long getPendingCount() {
            return roots.values().stream().filter(root -> root.begun && root.task == task).count();
        }

        @Override
        public void flush() {
        }

        @Override
        public void reportError(Throwable error) {
        }
    }

    private final class BoltCollector implements IOutputCollector {
        private final int task;

        BoltCollector(int task) {
            this.task = task;
        }

        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            return send(stream, anchors, values, route(task, stream, values));
        }

        @Override
        public void emitDirect(int target, String stream, Collection<Tuple> anchors, List<Object> values) {
            send(stream, anchors, values, routeDirect(task, target, stream));
        }

        private List<Integer> send(String stream, Collection<Tuple> anchors, List<Object> values, List<Integer> to) {
            for (int target : to) {
                Map<Long, Long> edges = new HashMap<>();
                for (Tuple anchor : anchors == null ? List.<Tuple>of() : anchors) {
                    if (!anchor.getMessageId().getAnchors().isEmpty()) {
                        long edge = random.nextLong();
                        ((TupleImpl) anchor).updateAckVal(edge);
                        anchor.getMessageId().getAnchors().forEach(root -> edges.merge(root, edge, (a, b) -> a ^ b));
                    }
                }
                Net.this.send(task, target, stream, values, MessageId.makeId(edges));
            }
            return to;
        }

        @Override
        public void ack(Tuple input) {
            input.getMessageId().getAnchorsToIds().forEach((root, edge) ->
                mark(root, edge ^ ((TupleImpl) input).getAckVal()));
        }

        @Override
        public void fail(Tuple input) {
            input.getMessageId().getAnchors().forEach(id -> {
                Root root = roots.remove(id);
                if (root != null && root.begun) {
                    answers.get(root.task).add(() -> spouts.get(root.task).fail(root.message));
                }
            });
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
}
