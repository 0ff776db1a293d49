package harness.storm.rewrite;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.storm.daemon.GrouperFactory;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.grouping.LoadAwareCustomStreamGrouping;
import org.apache.storm.grouping.LoadMapping;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.utils.Utils;

/**
 * A grouping that chooses as a subscriber's own would, notes the tasks, and has Storm send to none.
 *
 * <p>The choice is made by the grouper that Storm makes for the grouping, in the place where Storm makes it: one for all
 * tasks of an executor, told of load as any other. So what is chosen, and how often each task is, is Storm's own.
 */
final class Routed implements LoadAwareCustomStreamGrouping {
    private static final long serialVersionUID = 1L;

    /** What this thread's emit, which Storm is in the middle of, was routed to so far. */
    private static final ThreadLocal<Note> NOTES = ThreadLocal.withInitial(Note::new);

    private final String stream;
    private final byte[] grouping; // as Thrift writes it: Java cannot serialise one that is serialised itself
    private transient LoadAwareCustomStreamGrouping own;

    /**
     * @param stream the stream that the grouping is of
     * @param grouping any but direct
     */
    Routed(String stream, Grouping grouping) {
        this.stream = stream;
        this.grouping = Utils.thriftSerialize(grouping);
    }

    /**
     * Runs an emit on a hidden route stream.
     *
     * @return the tasks that the stream's subscribers chose, in Storm's order
     */
    static List<Integer> tasksOf(Supplier<?> emit) {
        Note note = NOTES.get();
        List<Integer> outside = note.tasks; // user code within Storm's emit, a grouping or a hook, may emit itself
        note.tasks = new ArrayList<>(2);
        try {
            emit.get();
            return note.tasks;
        } finally {
            note.tasks = outside;
        }
    }

    @Override
    public void prepare(WorkerTopologyContext context, GlobalStreamId hidden, List<Integer> targetTasks) {
        String component = hidden.get_componentId();
        own = GrouperFactory.mkGrouper(context, component, stream, context.getComponentOutputFields(component, stream),
            Utils.thriftDeserialize(Grouping.class, grouping), targetTasks, context.getConf());
    }

    @Override
    public List<Integer> chooseTasks(int taskId, List<Object> values) {
        NOTES.get().tasks.addAll(own.chooseTasks(taskId, values));
        return List.of();
    }

    @Override
    public void refreshLoad(LoadMapping load) {
        own.refreshLoad(load);
    }

    private static final class Note {
        private List<Integer> tasks;
    }
}
