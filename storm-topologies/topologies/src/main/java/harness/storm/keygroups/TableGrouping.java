package harness.storm.keygroups;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.task.WorkerTopologyContext;

/** Sends each tuple to the task that the sending task's table gives the group of the tuple's first field. */
public final class TableGrouping implements CustomStreamGrouping {
    private static final long serialVersionUID = 1L;

    private final int groups;
    private transient String topology;
    private transient String component;
    private transient List<Integer> tasks;
    private transient Map<Integer, Adopted> adopted;

    /** @param groups of the component that subscribes */
    public TableGrouping(int groups) {
        this.groups = groups;
    }

    @Override
    public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targetTasks) {
        topology = context.getStormId();
        component = context.getComponentId(targetTasks.get(0));
        tasks = targetTasks.stream().sorted().toList();
        adopted = new HashMap<>();
    }

    @Override
    public List<Integer> chooseTasks(int task, List<Object> values) {
        RoutingTable table = adopted.computeIfAbsent(task, sender ->
                Adopted.of(topology, sender, component, RoutingTable.first(groups, tasks.size()))).table();
        return List.of(tasks.get(table.task(RoutingTable.group((String) values.get(0), groups))));
    }
}
