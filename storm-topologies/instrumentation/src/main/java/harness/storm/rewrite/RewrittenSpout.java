package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;

/** A spout whose tuples may leave in batches, while it is acked and failed message by message. */
public final class RewrittenSpout implements ISpout, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final ISpout spout;
    private final HashMap<String, BatchSize> sizes;
    private final ReliefPlan plan;
    private transient Relief relief;
    private transient int task;
    private transient long watchedNs;
    private transient long pausedNs;
    private transient SpoutOutputs outputs;

    /**
     * @param spout serialised with this object, and used in its place
     * @param sizes of its streams that may be batched
     * @param plan null where it never pauses
     */
    RewrittenSpout(ISpout spout, Map<String, BatchSize> sizes, ReliefPlan plan) {
        this.spout = spout;
        this.sizes = new HashMap<>(sizes);
        this.plan = plan;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        outputs = new SpoutOutputs(sizes, context, collector);
        task = context.getThisTaskId();
        if (plan != null) {
            relief = Relief.of(context, plan);
            relief.join(task);
        }
        Series.publish(conf, context, "rewritten", this::report);
        spout.open(conf, new PlainContext(context), new SpoutOutputCollector(outputs));
    }

    private Series report() {
        Series series = new Series();
        outputs.drainTo(series);
        if (relief != null) {
            long watched = relief.watchedNs();
            long paused = relief.pausedNs();
            series.add("paused", Map.of("watched_ns", watched - watchedNs, "paused_ns", paused - pausedNs));
            watchedNs = watched;
            pausedNs = paused;
        }
        return series;
    }

    @Override
    public void nextTuple() {
        if (relief == null || !relief.paused()) {
            spout.nextTuple();
        }
        outputs.leaveDue();
    }

    @Override
    public void ack(Object messageId) {
        if (messageId instanceof Parcel parcel) {
            outputs.acked(parcel).forEach(spout::ack);
        } else {
            spout.ack(messageId);
        }
        outputs.leaveDue();
    }

    @Override
    public void fail(Object messageId) {
        if (messageId instanceof Parcel parcel) {
            outputs.failed(parcel).forEach(spout::fail);
        } else {
            spout.fail(messageId);
        }
        outputs.leaveDue();
    }

    @Override
    public void activate() {
        outputs.activate(true);
        spout.activate();
    }

    @Override
    public void deactivate() {
        spout.deactivate();
        outputs.activate(false);
    }

    @Override
    public void setCredentials(Map<String, String> all) {
        Map<String, String> credentials = LiveSizes.without(all);
        if (spout instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    @Override
    public void close() {
        spout.close();
        outputs.leave();
        if (relief != null) {
            relief.leave(task);
        }
    }
}
