package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Values;

/**
 * What a rewritten spout emits to: keeps rows until their batch leaves, which Storm tracks as one message.
 *
 * <p>Storm asks that a spout emits from its executor's thread only, and some do not: hence the lock.
 */
final class SpoutOutputs implements ISpoutOutputCollector {
    private final ISpoutOutputCollector collector;
    private final TopologyContext context;
    private final Outgoing<Message> outgoing;
    private boolean active = true;
    private long messages;
    private long parcels;

    SpoutOutputs(Map<String, BatchSize> sizes, TopologyContext context, ISpoutOutputCollector collector) {
        this.collector = collector;
        this.context = context;
        this.outgoing = new Outgoing<>(sizes, context, this::send);
    }

    @Override
    public synchronized List<Integer> emit(String stream, List<Object> values, Object messageId) {
        Outgoing.Stream out = outgoing.stream(stream);
        if (out == null || out.alone()) {
            outgoing.before(stream);
            List<Integer> tasks = collector.emit(stream, values, messageId);
            if (out != null) {
                out.sentAlone(tasks.size());
            }
            return tasks;
        }
        out.requireRegular();
        List<Integer> tasks = Routed.tasksOf(() -> collector.emit(out.route(), values, null));
        if (tasks.isEmpty()) {
            nowhere(out, values, messageId);
            return tasks;
        }
        Message message = message(messageId, tasks.size());
        for (int i = 0; i < tasks.size(); i++) {
            add(out, tasks.get(i), message, values);
        }
        leaveIfInactive();
        return tasks;
    }

    @Override
    public synchronized void emitDirect(int task, String stream, List<Object> values, Object messageId) {
        Outgoing.Stream out = outgoing.stream(stream);
        if (out == null || out.alone()) {
            outgoing.before(stream);
            collector.emitDirect(task, stream, values, messageId);
            if (out != null && out.reaches(context.getComponentId(task))) {
                out.sentAlone(1);
            }
        } else if (out.reaches(context.getComponentId(task))) {
            nowhere(out, values, null); // so that Storm takes the spout for busy
            add(out, task, message(messageId, 1), values);
            leaveIfInactive();
        } else {
            nowhere(out, values, messageId);
        }
    }

    /** Has Storm take note of a message that goes to no task: with ackers it is acked by them, without at once. */
    private void nowhere(Outgoing.Stream stream, List<Object> values, Object messageId) {
        if (stream.isRouted()) {
            collector.emitDirect(context.getThisTaskId(), stream.route(), values, messageId); // a spout has no inputs
        } else {
            collector.emit(stream.route(), values, messageId);
        }
    }

    private Message message(Object id, int batches) {
        if (id == null) {
            return null;
        }
        messages++;
        return new Message(id, batches);
    }

    private void add(Outgoing.Stream stream, int task, Message message, List<Object> values) {
        Outgoing<Message>.Buffer buffer = outgoing.open(stream, task, values);
        if (message != null) {
            buffer.cause(message);
        }
        buffer.close();
    }

    private void send(int task, String hidden, Batch batch, List<Message> causes) {
        Parcel parcel = null;
        if (!causes.isEmpty()) {
            parcel = new Parcel(causes);
            parcels++;
        }
        collector.emitDirect(task, hidden, new Values(batch), parcel);
    }

    private void leaveIfInactive() {
        if (!active) {
            outgoing.flush(BatchCounts.Reason.FORCED);
        }
    }

    /** A batch is acked; returns the identifiers that the spout is to be acked. */
    synchronized List<Object> acked(Parcel parcel) {
        parcels--;
        List<Object> ids = new ArrayList<>(parcel.messages().size());
        for (Message message : parcel.messages()) {
            if (message.done()) {
                ids.add(message.id());
            }
        }
        messages -= ids.size();
        return ids;
    }

    /** A batch is failed; returns the identifiers that the spout is to be failed. */
    synchronized List<Object> failed(Parcel parcel) {
        parcels--;
        List<Object> ids = new ArrayList<>(parcel.messages().size());
        for (Message message : parcel.messages()) {
            if (message.failed()) {
                ids.add(message.id());
            }
        }
        messages -= ids.size();
        return ids;
    }

    /** Lets batches leave that have waited long enough. */
    synchronized void leaveDue() {
        if (outgoing.waits()) {
            outgoing.flushDue(System.nanoTime());
        }
    }

    /** Lets all batches leave. */
    synchronized void leave() {
        outgoing.flush(BatchCounts.Reason.FORCED);
    }

    /** From now on nothing waits, as nobody calls {@code nextTuple}; or it may wait again. */
    synchronized void activate(boolean on) {
        active = on;
        leaveIfInactive();
    }

    /** Messages in flight, as many as there would be without batches. */
    @Override
    public synchronized long getPendingCount() {
        return collector.getPendingCount() - parcels + messages;
    }

    @Override
    public void flush() {
        leave();
        collector.flush();
    }

    @Override
    public void reportError(Throwable error) {
        collector.reportError(error);
    }

    synchronized void drainTo(Series series) {
        outgoing.drainTo(series);
    }
}
