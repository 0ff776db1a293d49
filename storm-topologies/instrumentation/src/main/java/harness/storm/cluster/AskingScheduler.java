package harness.storm.cluster;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the service before a rebalance is carried out: what it predicts of the plan that Storm's own scheduler made.
 *
 * <p>Nimbus' {@code storm.scheduler}, with {@code harness.ask.url} (the service) and {@code harness.ask.target.ms} (the mean
 * latency that is asked). A plan that meets the target is applied. Else what ran before goes on, and the topology's scheduling
 * status says why. Without an answer within {@code harness.ask.patience.ms} ({@value #DEFAULT_PATIENCE_MS} unless set) the plan
 * of Storm's own scheduler is applied.
 *
 * <p>Only a rebalance is asked about: a topology that is new, or has lost a worker, is placed by Storm's own scheduler, and so is
 * one whose numbers of executors change, as what ran before is no plan for these. No exception leaves this class, since it would
 * end Nimbus.
 */
public class AskingScheduler implements IScheduler {
    /** Setting of Nimbus: the address of the service. */
    static final String URL = "harness.ask.url";
    /** Setting of Nimbus: the mean latency in ms that a plan may have at most. */
    static final String TARGET_MS = "harness.ask.target.ms";
    /** Setting of Nimbus: how long an answer may take, in ms. Nimbus schedules nothing meanwhile. */
    static final String PATIENCE_MS = "harness.ask.patience.ms";
    static final long DEFAULT_PATIENCE_MS = 2_000;

    private static final Logger LOG = LoggerFactory.getLogger(AskingScheduler.class);

    /** The last whole assignment of each topology, by its id. */
    private final Map<String, Map<ExecutorDetails, WorkerSlot>> running = new HashMap<>();
    /** Topologies whose rebalance was refused. Storm plans anew, at every pass, for those with fewer workers than they ask for. */
    private final Set<String> kept = new HashSet<>();
    private PlanQuestion question;

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metricsRegistry) {
        if (conf.get(URL) instanceof String url && !url.isBlank() && conf.get(TARGET_MS) instanceof Number target
            && conf.getOrDefault(PATIENCE_MS, DEFAULT_PATIENCE_MS) instanceof Number patience && patience.longValue() > 0) {
            question = new PlanQuestion(url, target.doubleValue(), patience.longValue());
        } else {
            LOG.error("{} or {} is not set, or {} is no time: nobody is asked, every topology is placed by Storm's own scheduler",
                URL, TARGET_MS, PATIENCE_MS);
        }
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        try {
            Set<String> rebalanced = rebalanced(topologies, cluster);
            kept.removeIf(id -> !goesOn(id, cluster));
            OtherTopologies.schedule(cluster, Set.copyOf(kept));
            for (String id : rebalanced) {
                decide(topologies.getById(id), cluster);
            }
            remember(topologies, cluster);
        } catch (Exception | LinkageError e) {
            LOG.error("this pass of the scheduler ends early", e);
        }
    }

    @Override
    public Map<String, Map<String, Double>> config() {
        return Map.of();
    }

    @Override
    public void nodeAssignmentSent(String node, boolean successful) {
        // nothing depends on it
    }

    /** Topologies that ran, and have no assignment in this pass: so Nimbus begins a rebalance. */
    private Set<String> rebalanced(Topologies topologies, Cluster cluster) {
        running.keySet().retainAll(topologies.getAllIds());
        Set<String> ids = new HashSet<>();
        for (TopologyDetails topology : topologies) {
            Map<ExecutorDetails, WorkerSlot> before = running.get(topology.getId());
            if (question != null && before != null && cluster.getAssignmentById(topology.getId()) == null
                && before.keySet().equals(new HashSet<>(topology.getExecutors()))) {
                ids.add(topology.getId());
            }
        }
        return ids;
    }

    private boolean goesOn(String id, Cluster cluster) {
        SchedulerAssignment assigned = cluster.getAssignmentById(id);
        return assigned != null && assigned.getExecutorToSlot().equals(running.get(id));
    }

    private void decide(TopologyDetails topology, Cluster cluster) {
        String id = topology.getId();
        Map<ExecutorDetails, WorkerSlot> before = running.get(id);
        SchedulerAssignment made = cluster.getAssignmentById(id);
        if (made == null || made.getExecutorToSlot().equals(before)) {
            return; // nothing would move
        }
        try {
            PlanQuestion.Answer answer = question.ask(topology.getName(),
                placement(topology, cluster, made.getExecutorToSlot()), placement(topology, cluster, before));
            if (answer.meets()) {
                cluster.setStatus(id, "asked: applied: " + answer.text());
            } else if (restore(id, before, cluster)) {
                kept.add(id);
                cluster.setStatus(id, "asked: kept as it was: " + answer.text());
            } else {
                cluster.setStatus(id, "asked: Storm's own plan, as a slot of before is gone: " + answer.text());
            }
        } catch (PlanException e) {
            cluster.setStatus(id, "asked: Storm's own plan: " + e.getMessage());
        }
    }

    /** Puts executors where they were; changes nothing where one of the slots cannot be had. */
    private static boolean restore(String id, Map<ExecutorDetails, WorkerSlot> before, Cluster cluster) {
        Map<WorkerSlot, Collection<ExecutorDetails>> slots = new HashMap<>();
        before.forEach((executor, slot) -> slots.computeIfAbsent(slot, s -> new HashSet<>()).add(executor));
        SchedulerAssignment made = cluster.getAssignmentById(id);
        for (WorkerSlot slot : slots.keySet()) {
            boolean there = cluster.getSupervisors().containsKey(slot.getNodeId())
                && cluster.getSupervisorById(slot.getNodeId()).getAllPorts().contains(slot.getPort())
                && !cluster.isBlackListed(slot.getNodeId());
            if (!there || cluster.isSlotOccupied(slot) && !made.isSlotOccupied(slot)) {
                return false;
            }
        }
        cluster.unassign(id);
        slots.forEach((slot, executors) -> cluster.assign(slot, id, executors));
        return true;
    }

    private void remember(Topologies topologies, Cluster cluster) {
        for (TopologyDetails topology : topologies) {
            SchedulerAssignment assigned = cluster.getAssignmentById(topology.getId());
            if (assigned != null && assigned.getExecutors().size() == topology.getExecutors().size()) {
                Object before = running.put(topology.getId(), new HashMap<>(assigned.getExecutorToSlot()));
                if (before == null && question != null) {
                    LOG.info("the service is asked about rebalances of {} from now on", topology.getId());
                }
            }
        }
    }

    /** The worker of each executor; nodes go by their hosts, as the service has them from Nimbus. */
    private static Map<String, String> placement(TopologyDetails topology, Cluster cluster,
                                                 Map<ExecutorDetails, WorkerSlot> slots) {
        Map<String, String> placement = new TreeMap<>();
        Placement.labels(topology).forEach((label, executor) -> {
            WorkerSlot slot = slots.get(executor);
            if (slot != null && cluster.getSupervisorById(slot.getNodeId()) != null) { // else its node is gone
                placement.put(label, cluster.getSupervisorById(slot.getNodeId()).getHost() + ":" + slot.getPort());
            }
        });
        return placement;
    }
}
