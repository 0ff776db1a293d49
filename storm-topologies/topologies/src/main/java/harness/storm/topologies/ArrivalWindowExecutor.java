package harness.storm.topologies;

import harness.storm.instrument.Series;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.WindowedBoltExecutor;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.windowing.WindowLifecycleListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Storm's window executor, which in addition notes each tuple's arrival, reads its message and spends
 * the service time on it, before the tuple joins its window.
 *
 * <p>So the service is spent for every member, in the executor's thread, as in any other bolt; when the
 * window fires, the members are only put together. A time window fires in its own thread, where nothing
 * could be spent on behalf of the executor.
 *
 * <p>Acks are Storm's: a tuple is acked when it falls out of the last window that has it, and outputs
 * are anchored to all tuples of their window.
 */
final class ArrivalWindowExecutor extends WindowedBoltExecutor {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(ArrivalWindowExecutor.class);

    private final WindowBolt bolt;
    private final Workload workload;
    private final ServiceTime service;
    private transient OutputCollector collector;
    private transient Arrivals arrivals;

    /**
     * Creates the executor.
     *
     * @param bolt what is done when the window fires
     * @param service time spent on each tuple; null for none
     */
    ArrivalWindowExecutor(WindowBolt bolt, Workload workload, ServiceTime service) {
        super(bolt);
        this.bolt = bolt;
        this.workload = workload;
        this.service = service;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        arrivals = new Arrivals();
        bolt.readFrom(arrivals);
        // The constant is part of this class: Series itself is not loaded without instrumentation.
        if (conf.containsKey(Series.BUCKET_S)) {
            Series.publish(conf, context, "held", HeldMembers.PERIOD_S, new HeldMembers(arrivals));
        }
        super.prepare(conf, context, collector);
    }

    @Override
    public void execute(Tuple tuple) {
        long receivedNs = System.nanoTime();
        try {
            Message message = Tuples.message(tuple);
            List<Member> members = Members.decode(Tuples.members(tuple));
            arrivals.add(tuple, new Arrivals.Arrival(tuple.getSourceComponent(), message, members, receivedNs));
            if (service != null) {
                service.spend(workload.seed(), message);
            }
            super.execute(tuple);
        } catch (MalformedMessageException e) {
            collector.reportError(e);
            collector.fail(tuple);
        }
    }

    @Override
    protected WindowLifecycleListener<Tuple> newWindowLifecycleListener() {
        WindowLifecycleListener<Tuple> stock = super.newWindowLifecycleListener();
        return new WindowLifecycleListener<>() {
            @Override
            public void onExpiry(List<Tuple> tuples) {
                int missed = arrivals.expire(tuples);
                if (missed > 0) {
                    // Storm reads a tuple's time before it queues the tuple; a window that fires in
                    // between takes neither it nor, later, its successor.
                    LOG.warn("{} tuples expired without having been in a window", missed);
                }
                stock.onExpiry(tuples);
            }

            @Override
            public void onActivation(List<Tuple> tuples, List<Tuple> fresh, List<Tuple> expired, Long timestamp) {
                stock.onActivation(tuples, fresh, expired, timestamp);
            }
        };
    }
}
