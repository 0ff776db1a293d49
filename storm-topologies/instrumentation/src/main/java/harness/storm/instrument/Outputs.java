package harness.storm.instrument;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.storm.generated.Grouping;
import org.apache.storm.task.TopologyContext;

/**
 * Tuples emitted by one task, by output stream, and transferred, by stream and destination task.
 *
 * <p>Bolts may emit from any thread: time windows do from their trigger's thread, and users' bolts from pools of their own.
 * So these counts are atomic, and reading one sets it to zero in the same step: none is lost or counted twice.
 */
final class Outputs {
    private final Output[] outputs;
    private final TopologyContext context;

    Outputs(TopologyContext context) {
        this.context = context;
        int tasks = context.getTaskToComponent().keySet().stream().mapToInt(Integer::intValue).max().orElse(0) + 1;
        Map<String, Map<String, Grouping>> targets = context.getThisTargets();
        outputs = context.getThisStreams().stream()
            .map(stream -> new Output(stream, targets.getOrDefault(stream, Map.of()), tasks))
            .toArray(Output[]::new);
    }

    /** One call of emit, and the tasks it returned. */
    void emitted(String stream, List<Integer> tasks) {
        Output output = of(stream);
        output.emitted.incrementAndGet();
        for (int i = 0; i < tasks.size(); i++) {
            output.transferred.incrementAndGet(tasks.get(i));
        }
    }

    /** One call of emitDirect: Storm sends nothing to a task whose component does not subscribe to the stream. */
    void emittedDirect(String stream, int task) {
        Output output = of(stream);
        output.emitted.incrementAndGet();
        if (output.targets.containsKey(context.getComponentId(task))) {
            output.transferred.incrementAndGet(task);
        }
    }

    /** Adds {@code emitted} for every stream and {@code transferred} where it is not zero; starts again from zero. */
    void drainTo(Series series) {
        for (Output output : outputs) {
            series.add("emitted", output.stream, "", Map.of("count", output.emitted.getAndSet(0)));
            if (output.targets.isEmpty()) {
                continue;
            }
            Map<Integer, Long> counts = new LinkedHashMap<>();
            for (int task = 0; task < output.transferred.length(); task++) {
                long count = output.transferred.get(task) == 0 ? 0 : output.transferred.getAndSet(task, 0);
                if (count > 0) {
                    counts.put(task, count);
                }
            }
            counts.forEach((task, count) ->
                series.add("transferred", output.stream, task.toString(), Map.of("count", count)));
        }
    }

    private Output of(String stream) {
        for (Output output : outputs) {
            if (output.stream.equals(stream)) {
                return output;
            }
        }
        throw new IllegalStateException("Storm accepted a tuple on the undeclared stream " + stream);
    }

    private static final class Output {
        final String stream;
        final Map<String, Grouping> targets;
        final AtomicLong emitted = new AtomicLong();
        final AtomicLongArray transferred;

        Output(String stream, Map<String, Grouping> targets, int tasks) {
            this.stream = stream;
            this.targets = targets;
            this.transferred = new AtomicLongArray(tasks);
        }
    }
}
