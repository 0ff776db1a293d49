package harness.storm.rewrite;

import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.storm.executor.ExecutorTransfer;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.AddressedTuple;
import org.apache.storm.tuple.MessageId;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;

/**
 * A task's tuples to other workers that may be lost: one goes where there is room for it at once, and else nowhere.
 *
 * <p>What a collector is given is kept until there is room for it, and meanwhile the task's executor serves nothing (Storm
 * 2.8.3, {@code BoltExecutor}). Bolts that told each other of full queues in that way would wait for each other, a bolt for
 * itself, and nothing would move again. Storm's own way to try only is behind its collector, where no interface leads.
 */
final class Offers {
    private final ExecutorTransfer transfer;
    private final TopologyContext context;
    private final String stream;
    private final List<Integer> tasks;

    /**
     * @param collector the one that Storm gave the bolt
     * @param context with hidden streams
     * @param stream whose subscribers in other workers get the tuples
     */
    Offers(IOutputCollector collector, TopologyContext context, String stream) {
        this.transfer = (ExecutorTransfer) read(read(collector, "delegate"), "xsfer");
        this.context = context;
        this.stream = stream;
        Set<Integer> here = new HashSet<>(context.getThisWorkerTasks());
        this.tasks = context.getTargets(context.getThisComponentId()).get(stream).keySet().stream()
            .flatMap(component -> context.getComponentTasks(component).stream())
            .filter(task -> !here.contains(task)).toList();
    }

    /** By any thread. Nobody is told whether it went. */
    void offer(List<Object> values) {
        Tuple tuple = new TupleImpl(context, values, context.getThisComponentId(), context.getThisTaskId(), stream,
            MessageId.makeUnanchored());
        for (int task : tasks) {
            transfer.tryTransfer(new AddressedTuple(task, tuple), null); // nowhere to keep what finds no room
        }
    }

    private static Object read(Object from, String name) {
        try {
            Field field = from.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(from);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this Storm's " + from.getClass().getSimpleName() + " has no " + name
                + ": back-pressure and helping by the harness need Storm 2.6 to 2.8", e);
        }
    }
}
