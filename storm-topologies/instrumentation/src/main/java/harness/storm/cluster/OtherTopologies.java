package harness.storm.cluster;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * A copy of the cluster in which topologies with a plan never need to be scheduled.
 *
 * <p>Storm's own scheduler asks the cluster, not its first argument, which topologies need workers. One that uses fewer
 * than it asked for, as a plan may, would lose executors to that.
 */
final class OtherTopologies extends Cluster {
    private final Set<String> pinned;

    private OtherTopologies(Cluster cluster, Set<String> pinned) {
        super(cluster);
        this.pinned = pinned;
    }

    /** Lets Storm's own scheduler place the topologies that are not pinned, by their ids. */
    static void schedule(Cluster cluster, Set<String> pinned) {
        if (without(pinned, cluster.needsSchedulingTopologies()).isEmpty()) {
            return; // as nearly always: nothing is copied
        }
        OtherTopologies others = new OtherTopologies(cluster, pinned);
        List<TopologyDetails> topologies = others.needsSchedulingTopologies();
        DefaultScheduler.defaultSchedule(cluster.getTopologies(), others);
        Map<String, Map<WorkerSlot, Collection<ExecutorDetails>>> changed = new HashMap<>();
        for (TopologyDetails topology : topologies) {
            SchedulerAssignment now = others.getAssignmentById(topology.getId());
            SchedulerAssignment before = cluster.getAssignmentById(topology.getId());
            if (now != null && (before == null || !now.getExecutorToSlot().equals(before.getExecutorToSlot()))) {
                changed.put(topology.getId(), now.getSlotToExecutors());
            }
        }
        changed.keySet().forEach(cluster::unassign);
        changed.forEach((id, slots) -> slots.forEach((slot, executors) -> cluster.assign(slot, id, executors)));
    }

    @Override
    public List<TopologyDetails> needsSchedulingTopologies() {
        return without(pinned, super.needsSchedulingTopologies());
    }

    private static List<TopologyDetails> without(Set<String> pinned, List<TopologyDetails> topologies) {
        return topologies.stream().filter(topology -> !pinned.contains(topology.getId())).toList();
    }
}
