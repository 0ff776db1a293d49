package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.ObjectReader;

/**
 * What a rewritten bolt emits to: keeps rows until their batch leaves, and acks until all that was anchored has left.
 *
 * <p>Bolts emit and ack from any thread, and batches that have waited long enough leave from a thread of the worker's: one
 * lock for all. Storm's collector never blocks.
 */
final class BoltOutputs implements IOutputCollector {
    private final IOutputCollector collector;
    private final TopologyContext context;
    private final Outgoing<Delivery> outgoing;
    private final boolean stormBatches;
    private boolean timed;
    private long timedForNs;
    private boolean closed;
    private volatile RuntimeException failure;

    BoltOutputs(
            Map<String, BatchSize> sizes, Map<String, Object> conf, TopologyContext plain, IOutputCollector collector) {
        this.collector = collector;
        this.context = plain;
        this.outgoing = new Outgoing<>(sizes, plain, this::send);
        this.stormBatches = ObjectReader.getInt(conf.get(Config.TOPOLOGY_PRODUCER_BATCH_SIZE), 1) > 1
            || ObjectReader.getInt(conf.get(Config.TOPOLOGY_TRANSFER_BATCH_SIZE), 1) > 1;
    }

    /** Whether anything is batched here. */
    boolean batches() {
        return outgoing.any();
    }

    /**
     * An input as user code shall get it: one whose ack has to wait for batches is a row of its own.
     *
     * <p>Storm's own tuples, and those nobody waits for, stay as they are.
     */
    Tuple incoming(Tuple tuple) {
        if (!outgoing.any() || !Delivery.isTracked(tuple)) {
            return tuple;
        }
        return row(new Delivery(tuple, 1), tuple.getValues(), tuple.getSourceStreamId());
    }

    /** A tuple for user code that is part of a delivery. */
    Tuple row(Delivery delivery, List<Object> values, String stream) {
        Tuple outer = delivery.outer();
        return new TupleImpl(context, values, outer.getSourceComponent(), outer.getSourceTask(), stream,
            new RowId(List.of(delivery)));
    }

    @Override
    public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
        synchronized (this) {
            Outgoing.Stream out = outgoing.stream(stream);
            if (out == null || out.alone()) {
                outgoing.before(stream);
                List<Integer> tasks = collector.emit(stream, outers(anchors), values);
                if (out != null) {
                    out.sentAlone(tasks.size());
                }
                return tasks;
            }
            out.requireRegular();
            List<Integer> tasks = Routed.tasksOf(() -> collector.emit(out.route(), null, values));
            for (int i = 0; i < tasks.size(); i++) {
                add(out, tasks.get(i), anchors, values);
            }
            time();
            return tasks;
        }
    }

    @Override
    public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
        synchronized (this) {
            Outgoing.Stream out = outgoing.stream(stream);
            if (out == null || out.alone()) {
                outgoing.before(stream);
                collector.emitDirect(task, stream, outers(anchors), values);
                if (out != null && out.reaches(context.getComponentId(task))) {
                    out.sentAlone(1);
                }
            } else if (out.reaches(context.getComponentId(task))) {
                add(out, task, anchors, values);
                time();
            }
        }
    }

    private void add(Outgoing.Stream stream, int task, Collection<Tuple> anchors, List<Object> values) {
        Outgoing<Delivery>.Buffer buffer = outgoing.open(stream, task, values);
        if (anchors != null) {
            for (Tuple anchor : anchors) {
                for (Delivery delivery : RowId.behind(anchor)) {
                    if (delivery.tracked() && buffer.cause(delivery)) {
                        delivery.expect();
                    }
                }
            }
        }
        buffer.close();
    }

    private void send(int task, String hidden, Batch batch, List<Delivery> causes) {
        List<Tuple> anchors = new ArrayList<>(causes.size());
        for (int i = 0; i < causes.size(); i++) {
            anchors.add(causes.get(i).outer());
        }
        collector.emitDirect(task, hidden, anchors, new Values(batch));
        for (int i = 0; i < causes.size(); i++) {
            if (causes.get(i).done()) {
                collector.ack(anchors.get(i));
            }
        }
    }

    /** What Storm may take for anchors. */
    private static Collection<Tuple> outers(Collection<Tuple> anchors) {
        if (anchors == null) {
            return null;
        }
        List<Tuple> outers = new ArrayList<>(anchors.size());
        for (Tuple anchor : anchors) {
            if (anchor.getMessageId() instanceof RowId row) {
                row.deliveries().forEach(delivery -> outers.add(delivery.outer()));
            } else {
                outers.add(anchor);
            }
        }
        return outers;
    }

    @Override
    public void ack(Tuple input) {
        synchronized (this) {
            if (!(input.getMessageId() instanceof RowId row)) {
                collector.ack(input);
            } else if (row.answer()) {
                for (Delivery delivery : row.deliveries()) {
                    if (delivery.done()) {
                        collector.ack(delivery.outer());
                    }
                }
            }
        }
    }

    @Override
    public void fail(Tuple input) {
        synchronized (this) {
            if (!(input.getMessageId() instanceof RowId row)) {
                collector.fail(input);
            } else if (row.answer()) {
                for (Delivery delivery : row.deliveries()) {
                    if (delivery.failed()) {
                        collector.fail(delivery.outer());
                    }
                }
            }
        }
    }

    @Override
    public void resetTimeout(Tuple input) {
        if (input.getMessageId() instanceof RowId row) {
            row.deliveries().forEach(delivery -> collector.resetTimeout(delivery.outer()));
        } else {
            collector.resetTimeout(input);
        }
    }

    @Override
    public void flush() {
        leave();
        collector.flush();
    }

    /** Lets all batches leave. */
    synchronized void leave() {
        outgoing.flush(BatchCounts.Reason.FORCED);
    }

    @Override
    public void reportError(Throwable error) {
        collector.reportError(error);
    }

    synchronized void drainTo(Series series) {
        outgoing.drainTo(series);
    }

    /** Sees to it that what waits leaves in time. */
    private void time() {
        if (!outgoing.waits() || closed || timed && timedForNs - outgoing.earliestNs() <= 0) {
            return;
        }
        timed = true;
        timedForNs = outgoing.earliestNs();
        Timer.THREAD.schedule(this::onTime, timedForNs - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    private void onTime() {
        try {
            synchronized (this) {
                timed = false;
                if (closed) {
                    return;
                }
                outgoing.flushDue(System.nanoTime());
                time();
            }
            if (stormBatches) {
                collector.flush(); // Storm gathers by thread what is to go into a queue, and flushes an executor's only
            }
        } catch (RuntimeException e) {
            failure = e;
        }
    }

    /** Ends the executor, as it would have ended had the bolt's own emit failed. */
    void throwFailure() {
        if (failure != null) {
            throw failure;
        }
    }

    /** Lets all batches leave, the last ones. */
    synchronized void close() {
        leave();
        closed = true;
    }
}
