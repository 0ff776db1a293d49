package harness.storm.cluster;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A copy of the cluster in which some topologies only may need to be scheduled.
 *
 * <p>Storm's own scheduler asks the cluster, not its first argument, which topologies need workers. One that uses fewer
 * than it asked for, as a plan may, would lose executors to that.
 */
final class OtherTopologies extends Cluster {
    private static final Logger LOG = LoggerFactory.getLogger(OtherTopologies.class);

    private final Set<String> ids;

    private OtherTopologies(Cluster cluster, Set<String> ids) {
        super(cluster);
        this.ids = ids;
    }

    /** Lets Storm's own scheduler place the topologies that are not pinned, by their ids. */
    static void schedule(Cluster cluster, Set<String> pinned) {
        Set<String> ids = cluster.needsSchedulingTopologies().stream().map(TopologyDetails::getId).collect(Collectors.toSet());
        ids.removeAll(pinned);
        if (ids.isEmpty()) {
            return; // as nearly always: nothing is copied
        }
        try {
            place(cluster, ids);
        } catch (RuntimeException e) {
            // Storm's scheduler fails where one of several has more workers than it asks for, as of a plan that is gone
            LOG.warn("Storm's own scheduler fails at the topologies {}: each is tried alone", ids, e);
            ids.forEach(id -> placeAlone(cluster, id));
        }
    }

    private static void placeAlone(Cluster cluster, String id) {
        try {
            place(cluster, Set.of(id));
        } catch (RuntimeException e) {
            LOG.error("Storm's own scheduler fails at topology {}", id, e);
        }
    }

    /** Changes nothing when it fails. */
    private static void place(Cluster cluster, Set<String> ids) {
        OtherTopologies others = new OtherTopologies(cluster, ids);
        DefaultScheduler.defaultSchedule(cluster.getTopologies(), others);
        Map<String, Map<WorkerSlot, Collection<ExecutorDetails>>> changed = new HashMap<>();
        for (String id : ids) {
            SchedulerAssignment now = others.getAssignmentById(id);
            SchedulerAssignment before = cluster.getAssignmentById(id);
            if (now != null && (before == null || !now.getExecutorToSlot().equals(before.getExecutorToSlot()))) {
                changed.put(id, now.getSlotToExecutors());
            }
        }
        changed.keySet().forEach(cluster::unassign);
        changed.forEach((id, slots) -> slots.forEach((slot, executors) -> cluster.assign(slot, id, executors)));
    }

    @Override
    public List<TopologyDetails> needsSchedulingTopologies() {
        return super.needsSchedulingTopologies().stream().filter(topology -> ids.contains(topology.getId())).toList();
    }
}
