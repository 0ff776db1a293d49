package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.apache.storm.generated.Grouping;
import org.apache.storm.task.TopologyContext;

/**
 * One task's tuples that wait to leave in batches: a buffer for every task that it sends to.
 *
 * <p>A buffer holds rows of one stream at a time. A tuple of another stream to the same task makes the batch before it leave,
 * so tuples arrive in the order in which they were emitted, whatever their streams. Not safe for several threads: its owner
 * has a lock.
 *
 * @param <C> what a row was emitted because of, and what waits for it
 */
final class Outgoing<C> {
    /** Sends a batch, and lets its causes know. */
    interface Sender<C> {
        void send(int task, String hiddenStream, Batch batch, List<C> causes);
    }

    private final Map<String, Stream> streams = new HashMap<>();
    private final Map<String, int[]> subscribers = new HashMap<>();
    private final List<Stream> batched = new ArrayList<>();
    private final Map<Integer, Buffer> byTask = new HashMap<>();
    private final List<Buffer> buffers = new ArrayList<>();
    private final Sender<C> sender;
    private final String component;
    private final AtomicReference<Map<String, Map<String, BatchSize>>> live;
    private Map<String, Map<String, BatchSize>> told = Map.of();
    private volatile boolean gathers;
    private int waiting;
    private long earliestNs;

    /**
     * @param sizes of the task's streams that may be batched, as long as nothing else is told ({@link LiveSizes})
     * @param context with hidden streams
     */
    Outgoing(Map<String, BatchSize> sizes, TopologyContext context, Sender<C> sender) {
        this.sender = sender;
        this.component = context.getThisComponentId();
        this.live = LiveSizes.of(context.getStormId());
        context.getThisTargets().forEach((stream, targets) -> {
            if (HiddenStreams.isCarrier(stream)) {
                return;
            }
            subscribers.put(stream, targets.keySet().stream()
                .flatMap(component -> context.getComponentTasks(component).stream()).mapToInt(Integer::intValue).toArray());
            BatchSize size = sizes.get(stream);
            if (size != null) {
                streams.put(stream, new Stream(stream, size, targets));
            }
        });
        batched.addAll(streams.values());
        resize();
    }

    /** Takes over the sizes that were told since; what waits in batches of other sizes leaves first, in its order. */
    private void takeOver() {
        if (told == live.get()) {
            return;
        }
        Set<Stream> resized = resize();
        for (int i = 0; i < buffers.size(); i++) {
            if (buffers.get(i).stream != null && resized.contains(buffers.get(i).stream)) {
                buffers.get(i).leave(BatchCounts.Reason.FORCED); // in the middle of which somebody may emit
            }
        }
    }

    /** Returns the streams whose sizes are others now. */
    private Set<Stream> resize() {
        told = live.get();
        Set<Stream> resized = new HashSet<>();
        for (Stream stream : batched) {
            BatchSize wanted = stream.submitted;
            for (Map.Entry<String, Map<String, BatchSize>> of : told.entrySet()) {
                for (Map.Entry<String, BatchSize> size : of.getValue().entrySet()) {
                    boolean own = of.getKey().equals(component) && size.getKey().equals(stream.name);
                    if (own || HiddenStreams.help(of.getKey(), size.getKey()).equals(stream.name)) {
                        wanted = size.getValue();
                    }
                }
            }
            if (!wanted.equals(stream.size)) {
                stream.size = wanted;
                resized.add(stream);
            }
        }
        gathers = batched.stream().anyMatch(stream -> !stream.alone());
        return resized;
    }

    /** Whether any stream may be batched. */
    boolean any() {
        return !batched.isEmpty();
    }

    /** Whether tuples of any stream wait for others. May be asked by any thread. */
    boolean gathers() {
        return gathers;
    }

    /** The stream of that name, by the sizes that hold now; null where it is not to be batched. */
    Stream stream(String name) {
        takeOver();
        return streams.get(name);
    }

    /** Tuples of a stream are about to be sent as they are: none of them may overtake what waits. */
    void before(String stream) {
        if (waiting == 0) {
            return;
        }
        int[] tasks = subscribers.get(stream);
        if (tasks != null) {
            for (int task : tasks) {
                before(task);
            }
        }
    }

    private void before(int task) {
        Buffer buffer = byTask.get(task);
        if (buffer != null && buffer.stream != null) {
            buffer.leave(BatchCounts.Reason.ORDERED);
        }
    }

    /**
     * Adds a row to those that wait for a task.
     *
     * @return the buffer, which has to be told of causes and then to be {@link Buffer#close closed}
     */
    Buffer open(Stream stream, int task, List<Object> row) {
        Buffer buffer = byTask.get(task);
        if (buffer == null) {
            buffer = new Buffer(task);
            byTask.put(task, buffer);
            buffers.add(buffer);
        }
        while (buffer.stream != null && buffer.stream != stream) {
            buffer.leave(BatchCounts.Reason.ORDERED); // in the middle of which somebody may emit
        }
        if (buffer.stream == null) {
            buffer.begin(stream);
        }
        buffer.batch.add(row);
        return buffer;
    }

    /** Lets all leave that waits. */
    void flush(BatchCounts.Reason reason) {
        for (int i = 0; i < buffers.size() && waiting > 0; i++) {
            if (buffers.get(i).stream != null) {
                buffers.get(i).leave(reason);
            }
        }
    }

    /** Lets all leave that has waited for as long as it may. */
    void flushDue(long nowNs) {
        if (waiting == 0 || nowNs - earliestNs < 0) {
            return;
        }
        long nextNs = nowNs + Long.MAX_VALUE / 2;
        for (int i = 0; i < buffers.size(); i++) {
            Buffer buffer = buffers.get(i);
            if (buffer.stream != null && buffer.dueNs - nowNs <= 0) {
                buffer.leave(BatchCounts.Reason.TIMED);
            }
            if (buffer.stream != null && buffer.dueNs - nextNs < 0) {
                nextNs = buffer.dueNs;
            }
        }
        earliestNs = nextNs;
    }

    /** Whether anything waits; then {@link #earliestNs} is no later than when the first of it is due. */
    boolean waits() {
        return waiting > 0;
    }

    /** In the time of {@link System#nanoTime}. */
    long earliestNs() {
        return earliestNs;
    }

    /** Adds {@code batch} for every stream that may be batched; starts again from zero. */
    void drainTo(Series series) {
        takeOver();
        batched.forEach(stream -> series.add("batch", stream.name, "", stream.counts.drain(stream.size)));
    }

    /** A stream that may be batched. */
    static final class Stream {
        private final String name;
        private final BatchSize submitted;
        private BatchSize size;
        private final String hidden;
        private final String route;
        private final Set<String> regularly;
        private final Set<String> directly;
        private final BatchCounts counts;

        Stream(String name, BatchSize size, Map<String, Grouping> targets) {
            this.name = name;
            this.submitted = size;
            this.size = size;
            this.hidden = HiddenStreams.batch(name);
            this.route = HiddenStreams.route(name);
            this.directly = targets.keySet().stream().filter(target -> targets.get(target).is_set_direct())
                .collect(Collectors.toSet());
            this.regularly = targets.keySet().stream().filter(target -> !targets.get(target).is_set_direct())
                .collect(Collectors.toSet());
            this.counts = new BatchCounts();
        }

        /** The hidden stream whose groupings choose tasks. */
        String route() {
            return route;
        }

        /** Whether anybody subscribes to the hidden stream: whoever does not subscribe directly. */
        boolean isRouted() {
            return !regularly.isEmpty();
        }

        /** Whether its tuples are sent as they are. */
        boolean alone() {
            return size.size() == 1;
        }

        /** Tuples were sent as they are. */
        void sentAlone(int tuples) {
            counts.sentAlone(tuples);
        }

        /** As Storm does: who subscribes directly is not sent to by a regular emit. */
        void requireRegular() {
            if (!directly.isEmpty()) {
                throw new IllegalArgumentException("Cannot do regular emit to direct stream " + name);
            }
        }

        /** As Storm does: a direct emit goes to a component that subscribes directly, or else, if to none, nowhere. */
        boolean reaches(String component) {
            if (regularly.contains(component)) {
                throw new IllegalArgumentException("Cannot emitDirect to a task expecting a regular grouping");
            }
            return directly.contains(component);
        }
    }

    /** What waits for one task. */
    final class Buffer {
        private final int task;
        private Stream stream;
        private Batch batch;
        private List<C> causes;
        private int size;
        private long dueNs;

        private Buffer(int task) {
            this.task = task;
        }

        private void begin(Stream of) {
            stream = of;
            size = of.size.size();
            batch = new Batch(Math.min(size, 64), of.counts);
            causes = new ArrayList<>(4);
            long flushNs = of.size.flushMs() * 1_000_000L;
            dueNs = System.nanoTime() + flushNs;
            if (waiting++ == 0 || dueNs - earliestNs < 0) {
                earliestNs = dueNs;
            }
        }

        /** Adds what the last row was emitted because of; false if the row before was because of the same. */
        boolean cause(C cause) {
            if (!causes.isEmpty() && causes.get(causes.size() - 1) == cause) {
                return false;
            }
            causes.add(cause);
            return true;
        }

        /** The row is complete: a full batch leaves. */
        void close() {
            if (stream != null && batch.size() >= size) {
                leave(BatchCounts.Reason.FULL);
            }
        }

        /** The row has to leave at once, and what waits before it does, too. */
        void leaveNow() {
            if (stream != null) {
                leave(BatchCounts.Reason.FORCED);
            }
        }

        /** Empty before it sends: who is acked in the middle of it may emit. */
        private void leave(BatchCounts.Reason reason) {
            Stream of = stream;
            Batch full = batch;
            List<C> because = causes;
            stream = null;
            batch = null;
            causes = null;
            waiting--;
            of.counts.sent(full.size(), size, reason);
            sender.send(task, of.hidden, full, because);
        }
    }
}
