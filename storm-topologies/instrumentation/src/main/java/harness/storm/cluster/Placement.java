package harness.storm.cluster;

import harness.storm.cluster.PinnedPlan.Worker;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * One topology's plan, held against a pass of the scheduler and applied to it.
 *
 * <p>A plan that is not in force yet is applied whole or not at all. One that is in force is held: executors that have
 * lost their worker go where the plan says as soon as that slot is there, while the others stay.
 */
final class Placement {
    private final PinnedPlan plan;
    private final TopologyDetails topology;
    private final Cluster cluster;
    private final WorkerNodes nodes;

    private final Map<ExecutorDetails, Worker> workers = new HashMap<>();
    private final Map<Worker, Set<ExecutorDetails>> wanted = new TreeMap<>();
    private final Map<Worker, WorkerSlot> slots = new HashMap<>();
    private final Map<Worker, String> obstacles = new TreeMap<>();
    private final Map<WorkerSlot, Set<ExecutorDetails>> current = new HashMap<>();

    /** @throws PlanException when the plan does not name the topology's executors, each once */
    Placement(PinnedPlan plan, TopologyDetails topology, Cluster cluster, WorkerNodes nodes) throws PlanException {
        this.plan = plan;
        this.topology = topology;
        this.cluster = cluster;
        this.nodes = nodes;
        Map<String, ExecutorDetails> executors = labels(topology);
        for (String label : plan.executors().keySet()) {
            if (!executors.containsKey(label)) {
                throw waits("the topology has no executor " + label);
            }
        }
        executors.forEach((label, executor) -> workers.put(executor, plan.executors().get(label)));
        for (Map.Entry<String, ExecutorDetails> executor : executors.entrySet()) {
            if (workers.get(executor.getValue()) == null) {
                throw waits("it leaves out executor " + executor.getKey());
            }
        }
        workers.forEach((executor, worker) -> wanted.computeIfAbsent(worker, w -> new HashSet<>()).add(executor));
        for (Worker worker : wanted.keySet()) {
            try {
                slots.put(worker, nodes.slot(worker, topology.getId()));
            } catch (PlanException e) {
                obstacles.put(worker, e.getMessage());
            }
        }
        SchedulerAssignment assigned = cluster.getAssignmentById(topology.getId());
        if (assigned != null) {
            assigned.getExecutorToSlot().forEach(
                (executor, slot) -> current.computeIfAbsent(slot, s -> new HashSet<>()).add(executor));
        }
    }

    /**
     * Puts executors where the plan says.
     *
     * @param inForce whether the plan has been applied before: then it is held as far as it can be
     * @return what was done, in one line
     * @throws PlanException when the plan is not in force and a slot of it cannot be had; nothing has changed
     */
    String apply(boolean inForce) throws PlanException {
        if (!obstacles.isEmpty() && !inForce) {
            throw waits(obstacles.values().iterator().next());
        }
        Set<Worker> changed = new HashSet<>();
        Set<ExecutorDetails> moved = new HashSet<>();
        int placed = 0;
        for (Map.Entry<Worker, WorkerSlot> entry : slots.entrySet()) {
            Set<ExecutorDetails> executors = wanted.get(entry.getKey());
            if (!executors.equals(current.get(entry.getValue()))) {
                changed.add(entry.getKey());
                moved.addAll(executors);
            }
            placed += executors.size();
        }
        Set<WorkerSlot> taken = new HashSet<>();
        changed.forEach(worker -> taken.add(slots.get(worker)));
        current.forEach((slot, executors) -> { // all are freed before any is assigned: executors may change places
            if (taken.contains(slot) || executors.stream().anyMatch(e -> moved.contains(e) || !workers.containsKey(e))) {
                cluster.freeSlot(slot);
            }
        });
        changed.forEach(worker -> cluster.assign(slots.get(worker), topology.getId(), wanted.get(worker)));
        return "plan " + plan.generation() + ": " + placed + " of " + workers.size() + " executors placed" + waiting();
    }

    /**
     * Whether executors are assigned, and each of them where the plan says: so is a plan that was in force when Nimbus was
     * started again. Where another plan was in force it proves nothing: both may have the executors in common that are left.
     */
    boolean agrees() {
        return !current.isEmpty() && current.entrySet().stream().allMatch(
            entry -> entry.getValue().stream().allMatch(
                executor -> workers.containsKey(executor) && nodes.isOf(entry.getKey(), workers.get(executor))));
    }

    private String waiting() {
        if (obstacles.isEmpty()) {
            return "";
        }
        Map.Entry<Worker, String> first = obstacles.entrySet().iterator().next();
        String more = obstacles.size() > 1 ? ", and " + (obstacles.size() - 1) + " more" : "";
        return "; " + first.getKey() + " waits: " + first.getValue() + more;
    }

    private PlanException waits(String reason) {
        return new PlanException("plan " + plan.generation() + " waits: " + reason);
    }

    /** The topology's executors by name, Storm's own among them. */
    static Map<String, ExecutorDetails> labels(TopologyDetails topology) {
        Map<String, ExecutorDetails> labels = new TreeMap<>();
        topology.getExecutorToComponent().forEach((executor, component) ->
            labels.put(component + "[" + executor.getStartTask() + "-" + executor.getEndTask() + "]", executor));
        return labels;
    }
}
