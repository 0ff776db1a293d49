package harness.storm.instrument;

import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * A bolt that passes everything on to another one, and counts and times it.
 *
 * <p>Of what Storm 2.x asks a bolt object with {@code instanceof} there is only {@link ICredentialsListener}; it is passed
 * on. Windowed, basic, stateful and Trident bolts reach the worker inside Storm's own executors, which are bolts like any
 * other. What is declared (streams, settings) has left the object by then.
 *
 * <p>A time window runs in a thread of its own: what it emits is counted, its time is not service time here.
 */
public final class InstrumentedBolt implements IBolt, ICredentialsListener {
    private static final long serialVersionUID = 1L;

    private final IBolt bolt;
    private transient Inputs inputs;
    private transient ServiceTimes times;
    private transient Outputs outputs;
    private transient WorkerUse workerUse;

    /** @param bolt serialised with this object, and used in its place */
    public InstrumentedBolt(IBolt bolt) {
        this.bolt = bolt;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        inputs = new Inputs(context);
        times = new ServiceTimes(context.getThisTaskId());
        outputs = new Outputs(context);
        Series.publish(conf, context, "bolt", this::report);
        workerUse = WorkerUse.publishOnce(conf, context);
        bolt.prepare(conf, context, new OutputCollector(new CountingBoltCollector(collector, outputs)));
    }

    @Override
    public void execute(Tuple tuple) {
        Inputs.Input input = inputs.of(tuple);
        input.count++;
        if (input.system) {
            long startedNs = System.nanoTime();
            bolt.execute(tuple);
            input.wallSumNs += System.nanoTime() - startedNs;
        } else if (times.cpuWanted()) {
            long cpuNs = ServiceTimes.cpuNow();
            serve(tuple);
            times.cpu(ServiceTimes.cpuNow() - cpuNs);
        } else {
            serve(tuple);
        }
    }

    private void serve(Tuple tuple) {
        long arrivedNs = System.nanoTime();
        bolt.execute(tuple);
        times.served(arrivedNs, System.nanoTime());
    }

    private Series report() {
        Series series = new Series();
        inputs.drainTo(series);
        times.drainTo(series);
        outputs.drainTo(series);
        return series;
    }

    @Override
    public void setCredentials(Map<String, String> credentials) {
        if (bolt instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    @Override
    public void cleanup() {
        workerUse.release();
        bolt.cleanup();
    }
}
