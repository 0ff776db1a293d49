package harness.storm.cluster;

import harness.storm.cluster.PinnedPlan.Worker;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** The worker nodes of one pass by the names that plans have for them. */
final class WorkerNodes {
    private final Cluster cluster;
    private final Map<String, List<SupervisorDetails>> byName = new HashMap<>();

    WorkerNodes(Cluster cluster) {
        this.cluster = cluster;
        for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
            byName.computeIfAbsent(name(supervisor), name -> new ArrayList<>()).add(supervisor);
        }
    }

    /** The name of a node in plans: that of its {@code supervisor.scheduler.meta}, else its host's. */
    static String name(SupervisorDetails supervisor) {
        return supervisor.getSchedulerMeta() instanceof Map<?, ?> meta && meta.get("name") != null
            ? meta.get("name").toString() : supervisor.getHost();
    }

    /**
     * Finds a worker's slot.
     *
     * @param topology for whose executors it must be free, or in use by them
     * @throws PlanException saying why the slot cannot be had in this pass
     */
    WorkerSlot slot(Worker worker, String topology) throws PlanException {
        List<SupervisorDetails> named = byName.getOrDefault(worker.node(), List.of());
        if (named.isEmpty()) {
            throw new PlanException("there is no node " + worker.node());
        }
        if (named.size() > 1) { // a host made anew: its predecessor stays registered for as long as a session may last
            throw new PlanException(named.size() + " nodes are named " + worker.node());
        }
        SupervisorDetails supervisor = named.get(0);
        if (cluster.isBlackListed(supervisor.getId())) {
            throw new PlanException("node " + worker.node() + " is blacklisted");
        }
        // Nimbus hides, for one pass, the port of a worker that has died: assigned again at once it would stay dead.
        if (!supervisor.getAllPorts().contains(worker.port())) {
            throw new PlanException("node " + worker.node() + " has no slot " + worker.port());
        }
        WorkerSlot slot = new WorkerSlot(supervisor.getId(), worker.port());
        if (cluster.isSlotOccupied(slot)) {
            for (Map.Entry<String, SchedulerAssignment> assigned : cluster.getAssignments().entrySet()) {
                if (!assigned.getKey().equals(topology) && assigned.getValue().isSlotOccupied(slot)) {
                    throw new PlanException("slot " + worker + " is in use by " + assigned.getKey());
                }
            }
        }
        return slot;
    }

    /** Whether a slot is this worker's; one of a node that is gone may have been. */
    boolean isOf(WorkerSlot slot, Worker worker) {
        if (slot.getPort() != worker.port()) {
            return false;
        }
        List<SupervisorDetails> named = byName.getOrDefault(worker.node(), List.of());
        return named.isEmpty()
            ? !cluster.getSupervisors().containsKey(slot.getNodeId())
            : named.stream().anyMatch(supervisor -> supervisor.getId().equals(slot.getNodeId()));
    }
}
