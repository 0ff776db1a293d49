package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.TupleUtils;

/** A bolt whose inputs and outputs may come and leave in batches, while it sees tuples as ever. */
public final class RewrittenBolt implements IBolt, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final IBolt bolt;
    private final HashMap<String, BatchSize> sizes;
    private final ArrayList<Helper> helpers;
    private final HashMap<String, Alias> aliases;
    private final ReliefPlan plan;
    private transient Relief relief;
    private transient String component;
    private transient int task;
    private transient BoltOutputs outputs;

    /**
     * @param bolt serialised with this object, and used in its place
     * @param sizes of its streams that may be batched
     * @param helpers for components behind it that it helps
     * @param aliases of hidden streams of helpers that it subscribes to
     * @param plan null where nobody's queue is watched
     */
    RewrittenBolt(IBolt bolt, Map<String, BatchSize> sizes, List<Helper> helpers, Map<String, Alias> aliases,
            ReliefPlan plan) {
        this.bolt = bolt;
        this.sizes = new HashMap<>(sizes);
        this.helpers = new ArrayList<>(helpers);
        this.aliases = new HashMap<>(aliases);
        this.plan = plan;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        TopologyContext plain = new PlainContext(context);
        outputs = new BoltOutputs(sizes, helpers, conf, context, plain, collector);
        component = context.getThisComponentId();
        task = context.getThisTaskId();
        relief = plan == null ? null : Relief.of(context, plan);
        if (outputs.batches() || watched()) {
            Series.publish(conf, context, "rewritten", this::report);
        }
        bolt.prepare(conf, plain, new OutputCollector(outputs));
        helpers.forEach(helper -> helper.prepare(conf, plain, relief, outputs));
        if (watched()) {
            relief.watch(task, component);
            if (!context.getThisWorkerTasks().containsAll(context.getTaskToComponent().keySet())) {
                outputs.connect();
                relief.connect(task, outputs::signal);
            }
        }
    }

    private boolean watched() {
        return relief != null && plan.marks().containsKey(component);
    }

    private Series report() {
        Series series = new Series();
        outputs.drainTo(series);
        if (watched()) {
            series.add("pressure", relief.drain(task));
        }
        return series;
    }

    @Override
    public void execute(Tuple tuple) {
        outputs.throwFailure();
        String stream = tuple.getSourceStreamId();
        if (HiddenStreams.SIGNAL.equals(stream)) {
            relief.hear(Signal.of(tuple.getValues()), System.nanoTime());
            outputs.ack(tuple);
        } else if (HiddenStreams.isBatch(stream)) {
            Batch batch = (Batch) tuple.getValue(0);
            String batched = HiddenStreams.batched(stream);
            Delivery delivery = new Delivery(tuple, batch.size());
            for (int i = 0; i < batch.size(); i++) {
                run(row(delivery, batch.row(i), batched));
            }
        } else if (aliases.containsKey(stream)) {
            run(row(new Delivery(tuple, 1), tuple.getValues(), stream));
        } else {
            run(outputs.incoming(tuple));
            if (TupleUtils.isTick(tuple)) {
                outputs.leave();
            }
        }
    }

    private Tuple row(Delivery delivery, List<Object> values, String stream) {
        Alias alias = aliases.get(stream);
        return alias == null ? outputs.row(delivery, values, stream) : outputs.row(delivery, values, alias);
    }

    private void run(Tuple tuple) {
        outputs.executing(() -> bolt.execute(tuple));
    }

    @Override
    public void setCredentials(Map<String, String> all) {
        Map<String, String> credentials = LiveSizes.without(all);
        if (bolt instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
        helpers.forEach(helper -> helper.setCredentials(credentials));
    }

    /** What user code emits at its end leaves, too. */
    @Override
    public void cleanup() {
        bolt.cleanup();
        helpers.forEach(Helper::cleanup);
        outputs.close();
        if (watched()) {
            relief.leave(task);
        }
    }
}
