package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.MessageId;
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
    private final TopologyContext hidden;
    private final TopologyContext context;
    private final Outgoing<Delivery> outgoing;
    private final Map<String, Helper> helpers = new HashMap<>();
    private final Queue<Runnable> toHelp = new ArrayDeque<>();
    private Thread executing;
    private final boolean stormBatches;
    private boolean timed;
    private long timedForNs;
    private boolean closed;
    private volatile RuntimeException failure;
    private Offers signals;

    /**
     * @param context with hidden streams
     * @param plain what rows know of
     */
    BoltOutputs(Map<String, BatchSize> sizes, List<Helper> helpers, Map<String, Object> conf, TopologyContext context,
            TopologyContext plain, IOutputCollector collector) {
        this.collector = collector;
        this.context = plain;
        this.hidden = context;
        this.outgoing = new Outgoing<>(sizes, context, this::send);
        helpers.forEach(helper -> this.helpers.put(helper.stream(), helper));
        this.stormBatches = ObjectReader.getInt(conf.get(Config.TOPOLOGY_PRODUCER_BATCH_SIZE), 1) > 1
            || ObjectReader.getInt(conf.get(Config.TOPOLOGY_TRANSFER_BATCH_SIZE), 1) > 1;
    }

    /** Whether anything is batched here. */
    boolean batches() {
        return outgoing.any();
    }

    /**
     * An input as user code shall get it: one whose ack has to wait for what is emitted is a row of its own.
     *
     * <p>Storm's own tuples, and those nobody waits for, stay as they are.
     */
    Tuple incoming(Tuple tuple) {
        if (!outgoing.gathers() && helpers.isEmpty() || !Delivery.isTracked(tuple)) {
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

    /** A tuple for user code that comes from a helper, in the name of the component that it helps. */
    Tuple row(Delivery delivery, List<Object> values, Alias alias) {
        int task = context.getComponentTasks(alias.component()).get(0); // which one would have sent it nobody can say
        return new TupleImpl(context, values, alias.component(), task, alias.stream(), new RowId(List.of(delivery)));
    }

    /** Runs user code's execute, and then what the next bolt is to serve of what it emitted. */
    void executing(Runnable execute) {
        if (helpers.isEmpty()) {
            execute.run();
            return;
        }
        executing = Thread.currentThread();
        try {
            execute.run();
        } finally {
            executing = null;
        }
        for (Runnable next = toHelp.poll(); next != null; next = toHelp.poll()) {
            next.run();
        }
    }

    /**
     * Keeps a tuple to a helped component for the next bolt here, if it is its turn.
     *
     * <p>The next bolt is run by the executor's thread, as any bolt. What user code emits from other threads is not helped.
     */
    private boolean helps(String stream, Collection<Tuple> anchors, List<Object> values) {
        Helper helper = helpers.get(stream);
        if (helper == null || executing != Thread.currentThread() || !helper.takes()) {
            return false;
        }
        List<Delivery> behind = new ArrayList<>();
        if (anchors != null) {
            for (Tuple anchor : anchors) {
                for (Delivery delivery : RowId.behind(anchor)) {
                    if (delivery.tracked()) {
                        delivery.expect();
                        behind.add(delivery);
                    }
                }
            }
        }
        Tuple row = new TupleImpl(context, values, context.getThisComponentId(), context.getThisTaskId(), stream,
            behind.isEmpty() ? MessageId.makeUnanchored() : new RowId(behind));
        toHelp.add(() -> helper.serve(row));
        return true;
    }

    @Override
    public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
        synchronized (this) {
            if (!helpers.isEmpty() && helps(stream, anchors, values)) {
                return new ArrayList<>(0); // none of the helped component's tasks, and there is no other subscriber
            }
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

    /**
     * Adds a row. One that is anchored to a tuple of before anything was batched leaves at once: that tuple is no row, so its
     * ack waits for nothing.
     */
    private void add(Outgoing.Stream stream, int task, Collection<Tuple> anchors, List<Object> values) {
        Outgoing<Delivery>.Buffer buffer = outgoing.open(stream, task, values);
        boolean now = false;
        if (anchors != null) {
            for (Tuple anchor : anchors) {
                now |= !(anchor.getMessageId() instanceof RowId) && Delivery.isTracked(anchor);
                for (Delivery delivery : RowId.behind(anchor)) {
                    if (delivery.tracked() && buffer.cause(delivery)) {
                        delivery.expect();
                    }
                }
            }
        }
        if (now) {
            buffer.leaveNow();
        } else {
            buffer.close();
        }
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

    private static boolean anyRow(Collection<Tuple> tuples) {
        for (Tuple tuple : tuples) {
            if (tuple.getMessageId() instanceof RowId) {
                return true;
            }
        }
        return false;
    }

    /** What Storm may take for anchors. */
    private static Collection<Tuple> outers(Collection<Tuple> anchors) {
        if (anchors == null || !anyRow(anchors)) {
            return anchors;
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
        helpers.values().forEach(helper -> helper.drainTo(series));
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

    /** From now on {@link #signal} tells other workers. */
    void connect() {
        signals = new Offers(collector, hidden, HiddenStreams.SIGNAL);
    }

    /** Tells other workers. Nobody waits for it to be acked, and it waits for no room. */
    void signal(Signal signal) {
        try {
            synchronized (this) {
                if (closed) {
                    return;
                }
                signals.offer(signal.values());
            }
            if (stormBatches) {
                collector.flush();
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
