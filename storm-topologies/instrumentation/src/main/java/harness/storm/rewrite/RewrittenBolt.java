package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.HashMap;
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
    private transient BoltOutputs outputs;

    /**
     * @param bolt serialised with this object, and used in its place
     * @param sizes of its streams that may be batched
     */
    RewrittenBolt(IBolt bolt, Map<String, BatchSize> sizes) {
        this.bolt = bolt;
        this.sizes = new HashMap<>(sizes);
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        TopologyContext plain = new PlainContext(context);
        outputs = new BoltOutputs(sizes, conf, plain, collector);
        if (outputs.batches()) {
            Series.publish(conf, context, "batch", this::report);
        }
        bolt.prepare(conf, plain, new OutputCollector(outputs));
    }

    private Series report() {
        Series series = new Series();
        outputs.drainTo(series);
        return series;
    }

    @Override
    public void execute(Tuple tuple) {
        outputs.throwFailure();
        String stream = tuple.getSourceStreamId();
        if (!HiddenStreams.isBatch(stream)) {
            bolt.execute(outputs.incoming(tuple));
            if (TupleUtils.isTick(tuple)) {
                outputs.leave();
            }
            return;
        }
        Batch batch = (Batch) tuple.getValue(0);
        String batched = HiddenStreams.batched(stream);
        Delivery delivery = new Delivery(tuple, batch.size());
        for (int i = 0; i < batch.size(); i++) {
            bolt.execute(outputs.row(delivery, batch.row(i), batched));
        }
    }

    @Override
    public void setCredentials(Map<String, String> credentials) {
        if (bolt instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    /** What user code emits at its end leaves, too. */
    @Override
    public void cleanup() {
        bolt.cleanup();
        outputs.close();
    }
}
