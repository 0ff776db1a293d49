package harness.storm.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.blacklist.BlacklistScheduler;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/** Passes of a scheduler as Nimbus makes them: inside a blacklist, with the statuses of the pass before. */
final class Passes {
    /** As in the configuration of the harness's clusters. */
    static final int TOLERANCE = 1_000_000;

    private final Path folder;
    private final int tolerance;
    private final Map<String, String> statuses = new HashMap<>();
    private IScheduler scheduler;

    /** Slots that the last pass freed or assigned. */
    final Set<String> touched = new HashSet<>();
    /** Statuses that the last pass set. */
    final List<String> said = new ArrayList<>();

    Passes(Path folder) {
        this(folder, TOLERANCE);
    }

    Passes(Path folder, int tolerance) {
        this.folder = folder;
        this.tolerance = tolerance;
        restart();
    }

    /** Starts Nimbus again, which remembers nothing. */
    void restart() {
        statuses.clear();
        Map<String, Object> conf = SchedulerOracle.defaults();
        conf.put(DaemonConfig.NIMBUS_MONITOR_FREQ_SECS, 1);
        conf.put(DaemonConfig.BLACKLIST_SCHEDULER_TOLERANCE_COUNT, tolerance);
        if (folder != null) {
            conf.put(PinnedScheduler.FOLDER, folder.toString());
        }
        scheduler = new BlacklistScheduler(new PinnedScheduler());
        scheduler.prepare(conf, new StormMetricsRegistry());
    }

    void plan(String topology, int generation, Map<String, String> executors) {
        write(topology, JSONValue.toJSONString(Map.of("generation", generation, "executors", executors)));
    }

    void write(String topology, String text) {
        try {
            Path whole = Files.writeString(folder.resolve(topology + ".new"), text);
            Files.move(whole, folder.resolve(topology + ".json"), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns the workers of all executors after a pass, by topology and label. */
    Map<String, Map<String, String>> pass(
            List<SupervisorDetails> supervisors, List<TopologyDetails> topologies, Map<String, Map<String, String>> assigned) {
        touched.clear();
        said.clear();
        Cluster made = SchedulerOracle.cluster(supervisors, topologies, assigned);
        Recorded cluster = new Recorded(made, touched, said);
        cluster.setStatusMap(statuses);
        scheduler.schedule(cluster.getTopologies(), cluster);
        statuses.putAll(cluster.getStatusMap());
        return SchedulerOracle.assignments(cluster);
    }

    String status(String topology) {
        return statuses.get(topology);
    }

    static Map<String, String> sorted(Map<String, String> workers) {
        return new TreeMap<>(workers);
    }

    /** A cluster that keeps what is done to it. */
    private static final class Recorded extends Cluster {
        private final Set<String> touched;
        private final List<String> said;

        Recorded(Cluster cluster, Set<String> touched, List<String> said) {
            super(cluster);
            this.touched = touched;
            this.said = said;
        }

        @Override
        public void freeSlot(WorkerSlot slot) {
            super.freeSlot(slot);
            touched.add(slot.getId());
        }

        @Override
        public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
            super.assign(slot, topology, executors);
            if (touched != null) { // not while the copy is made
                touched.add(slot.getId());
            }
        }

        @Override
        public void setStatus(String topology, String status) {
            super.setStatus(topology, status);
            said.add(status);
        }
    }
}
