package harness.storm.cluster;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Puts the executors of a topology where a file says, and leaves topologies without one to Storm's own scheduler.
 *
 * <p>Nimbus' {@code storm.scheduler}. The file is {@code <harness.plans.folder>/<topology name>.json}, see
 * {@link PinnedPlan}; whoever writes it renames it into place. Every pass reads it, so that executors move without a
 * rebalance, and only workers whose executors change are restarted.
 *
 * <p>The topology's scheduling status says what was done: {@code plan 7: 12 of 12 executors placed}. A file that is no plan,
 * or does not fit, changes nothing: {@code plan 8 waits: there is no node node-9; plan 7: 12 of 12 executors placed}. No exception
 * leaves this class, since it would end Nimbus.
 */
public class PinnedScheduler implements IScheduler {
    /** Setting of Nimbus: the folder of plan files. */
    static final String FOLDER = "harness.plans.folder";

    private static final Logger LOG = LoggerFactory.getLogger(PinnedScheduler.class);
    private static final String NOT_PINNED = "no plan: placed by Storm's own scheduler";

    private final Map<String, PinnedPlan> inForce = new HashMap<>();
    private PlanFolder folder;

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metricsRegistry) {
        if (conf.get(FOLDER) instanceof String path && !path.isBlank()) {
            folder = new PlanFolder(Path.of(path));
        } else {
            LOG.error("{} is not set: no plan is read, every topology is placed by Storm's own scheduler", FOLDER);
        }
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        try {
            OtherTopologies.schedule(cluster, pin(topologies, cluster));
        } catch (Exception | LinkageError e) {
            LOG.error("this pass of the scheduler ends early", e);
        }
    }

    /** Applies all plans; returns the ids of topologies that have one. */
    private Set<String> pin(Topologies topologies, Cluster cluster) {
        Set<String> pinned = new HashSet<>();
        if (folder == null) {
            return pinned;
        }
        forget(topologies);
        WorkerNodes nodes = new WorkerNodes(cluster);
        for (TopologyDetails topology : topologies) {
            if (isPinned(topology, cluster, nodes)) {
                pinned.add(topology.getId());
            }
        }
        return pinned;
    }

    @Override
    public Map<String, Map<String, Double>> config() {
        return Map.of();
    }

    @Override
    public void nodeAssignmentSent(String node, boolean successful) {
        // nothing depends on it
    }

    /** Applies a topology's plan; a topology whose plan cannot be read or applied stays as it is. */
    private boolean isPinned(TopologyDetails topology, Cluster cluster, WorkerNodes nodes) {
        String id = topology.getId();
        try {
            Optional<String> status = place(topology, cluster, nodes);
            String before = cluster.getStatus(id);
            if (status.isPresent() || before != null && before.startsWith("plan ")) {
                say(id, status.orElse(NOT_PINNED), cluster);
            }
            return status.isPresent();
        } catch (Exception | LinkageError e) {
            LOG.error("the plan of topology {} is not applied in this pass", id, e);
            say(id, "plan waits: " + e, cluster);
            return true;
        }
    }

    private Optional<String> place(TopologyDetails topology, Cluster cluster, WorkerNodes nodes) {
        String id = topology.getId();
        String wrong;
        try {
            Optional<PinnedPlan> plan = folder.plan(topology.getName());
            if (plan.isEmpty()) {
                inForce.remove(id);
                return Optional.empty();
            }
            Placement placement = new Placement(plan.get(), topology, cluster, nodes);
            PinnedPlan before = inForce.get(id);
            String status = placement.apply(before == null ? placement.agrees() : before.equals(plan.get()));
            inForce.put(id, plan.get());
            return Optional.of(status);
        } catch (PlanException e) {
            wrong = e.getMessage();
        }
        try {
            if (inForce.containsKey(id)) { // the last plan that was applied is held
                return Optional.of(wrong + "; " + new Placement(inForce.get(id), topology, cluster, nodes).apply(true));
            }
        } catch (PlanException e) {
            LOG.debug("topology {} has other executors now: {}", id, e.getMessage());
        }
        return Optional.of(wrong + "; nothing is moved");
    }

    private void forget(Topologies topologies) {
        inForce.keySet().retainAll(topologies.getAllIds());
        folder.keepOnly(topologies.getTopologies().stream().map(TopologyDetails::getName).collect(Collectors.toSet()));
    }

    /** Sets a status that is new: Nimbus logs each. */
    private static void say(String id, String status, Cluster cluster) {
        if (!status.equals(cluster.getStatus(id))) {
            cluster.setStatus(id, status);
        }
    }
}
