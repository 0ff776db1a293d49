package harness.storm.instrument;

import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;

/** A spout that passes everything on to another one, and counts what it emits and times what is acked. */
public final class InstrumentedSpout implements ISpout, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final ISpout spout;
    private transient Outputs outputs;
    private transient AckTimes acks;
    private transient WorkerUse workerUse;

    /** @param spout serialised with this object, and used in its place */
    public InstrumentedSpout(ISpout spout) {
        this.spout = spout;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        outputs = new Outputs(context);
        acks = new AckTimes(StormCommon.hasAckers(conf));
        Series.publish(conf, context, "spout", this::report);
        workerUse = WorkerUse.publishOnce(conf, context);
        spout.open(conf, context, new SpoutOutputCollector(new CountingSpoutCollector(collector, outputs, acks)));
    }

    private Series report() {
        Series series = new Series();
        outputs.drainTo(series);
        acks.drainTo(series);
        return series;
    }

    @Override
    public void nextTuple() {
        spout.nextTuple();
    }

    @Override
    public void ack(Object messageId) {
        acks.acked(messageId);
        spout.ack(messageId);
    }

    @Override
    public void fail(Object messageId) {
        acks.failed(messageId);
        spout.fail(messageId);
    }

    @Override
    public void activate() {
        spout.activate();
    }

    @Override
    public void deactivate() {
        spout.deactivate();
    }

    @Override
    public void setCredentials(Map<String, String> credentials) {
        if (spout instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    @Override
    public void close() {
        workerUse.release();
        spout.close();
    }
}
