package harness.storm.cluster;

import harness.storm.cluster.SchedulerOracle.Component;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/**
 * Times passes of the plug-in over 20 topologies of 100 executors, and Storm's own scheduler on the same clusters.
 *
 * <p>Both run in one JVM and in turns, so that what else the machine does falls on both. {@code bench/scheduler_pass.py} runs
 * {@link #main}. Each pass is made on a cluster of its own, as Nimbus makes one for each, and what came of it is compared with
 * the plans; neither is timed.
 */
final class PassTimes {
    static final int TOPOLOGIES = 20;
    static final int EXECUTORS = 100;
    private static final int COMPONENTS = 10;
    private static final int WORKERS = 8;
    private static final int NODES = 10;
    private static final int SLOTS = TOPOLOGIES * WORKERS / NODES;

    /** A pass, by what it finds. */
    enum Kind {
        HELD("plug-in, every plan in force"),
        MOVED("plug-in, every plan new: each executor moves"),
        STORMS_HELD("Storm's own, every executor placed"),
        STORMS_PLACED("Storm's own, no executor placed");

        private final String text;

        Kind(String text) {
            this.text = text;
        }
    }

    private final Path folder;
    private final PinnedScheduler plugIn = new PinnedScheduler();
    private final DefaultScheduler storms = new DefaultScheduler();
    private final List<Map<String, Map<String, String>>> plans = new ArrayList<>();
    private final List<Cluster> placed = new ArrayList<>();
    private final Cluster empty;
    private final Map<String, String> statuses = new HashMap<>();
    private final Map<Kind, List<Long>> tookNs = new EnumMap<>(Kind.class);
    private int generation;

    /** @param folder an empty one, for the plan files */
    PassTimes(Path folder) {
        this.folder = folder;
        List<SupervisorDetails> supervisors = new ArrayList<>();
        List<String> slots = new ArrayList<>();
        for (int node = 1; node <= NODES; node++) {
            List<Integer> ports = IntStream.range(6700, 6700 + SLOTS).boxed().toList();
            String name = "node-" + node;
            supervisors.add(SchedulerOracle.supervisor("s-" + node, "10.0.0." + node, name, ports, null, null));
            ports.forEach(port -> slots.add(name + ":" + port));
        }
        List<Component> components = new ArrayList<>();
        int each = EXECUTORS / COMPONENTS;
        components.add(new Component("__acker", false, each, each));
        for (int i = 1; i < COMPONENTS; i++) {
            components.add(new Component("c-" + i, i == 1, 2 * each, each));
        }
        List<TopologyDetails> topologies = IntStream.range(0, TOPOLOGIES)
            .mapToObj(i -> SchedulerOracle.topology("t-" + i, WORKERS, components, Map.of(), i)).toList();
        for (int shift = 0; shift < 2; shift++) { // by the second each executor is on the next worker of its topology
            Map<String, Map<String, String>> plan = new TreeMap<>();
            for (int i = 0; i < TOPOLOGIES; i++) {
                List<String> own = slots.subList(i * WORKERS, (i + 1) * WORKERS);
                Map<String, String> workers = new TreeMap<>();
                for (String label : Placement.labels(topologies.get(i)).keySet()) {
                    workers.put(label, own.get((workers.size() + shift) % WORKERS));
                }
                plan.put("t-" + i, workers);
            }
            plans.add(plan);
            placed.add(SchedulerOracle.cluster(supervisors, topologies, plan));
        }
        empty = SchedulerOracle.cluster(supervisors, topologies, Map.of());
        Map<String, Object> conf = SchedulerOracle.defaults();
        conf.put(PinnedScheduler.FOLDER, folder.toString());
        plugIn.prepare(conf, new StormMetricsRegistry());
        storms.prepare(SchedulerOracle.defaults(), new StormMetricsRegistry());
    }

    /** Makes passes of each kind; those before the last {@code kept} are forgotten. */
    void measure(int passes, int kept) {
        for (int i = 0; i < passes; i++) {
            if (i == passes - kept) {
                tookNs.clear();
            }
            int before = generation % 2;
            int after = ++generation % 2;
            plans.get(after).forEach(this::write);
            require(plans.get(after), pass(Kind.MOVED, plugIn, placed.get(before)));
            require(plans.get(after), pass(Kind.HELD, plugIn, placed.get(after)));
            require(plans.get(after), pass(Kind.STORMS_HELD, storms, placed.get(after)));
            Map<String, Map<String, String>> anew = pass(Kind.STORMS_PLACED, storms, empty);
            if (!anew.values().stream().allMatch(workers -> workers.size() == EXECUTORS)) {
                throw new IllegalStateException("Storm's own scheduler left executors out: " + anew);
            }
        }
    }

    /** The time below which that share of the passes is, in ms. */
    double quantileMs(Kind kind, double share) {
        long[] sorted = tookNs.get(kind).stream().mapToLong(Long::longValue).sorted().toArray();
        return sorted[(int) Math.ceil(share * sorted.length) - 1] / 1e6;
    }

    private Map<String, Map<String, String>> pass(Kind kind, IScheduler scheduler, Cluster like) {
        Cluster cluster = new Cluster(like);
        cluster.setStatusMap(scheduler == plugIn ? statuses : Map.of());
        long begun = System.nanoTime();
        scheduler.schedule(cluster.getTopologies(), cluster);
        tookNs.computeIfAbsent(kind, k -> new ArrayList<>()).add(System.nanoTime() - begun);
        if (scheduler == plugIn) {
            statuses.putAll(cluster.getStatusMap());
        }
        return SchedulerOracle.assignments(cluster);
    }

    private void write(String topology, Map<String, String> executors) {
        try {
            Files.writeString(folder.resolve(topology + ".json"),
                JSONValue.toJSONString(Map.of("generation", generation, "executors", executors)));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private void require(Map<String, Map<String, String>> plan, Map<String, Map<String, String>> found) {
        if (!found.equals(plan)) {
            throw new IllegalStateException("executors are not where the plan says: " + statuses);
        }
    }

    /** Prints the table of a bench: the folder for plan files, passes to warm up, and passes that are timed. */
    public static void main(String[] args) {
        PassTimes times = new PassTimes(Path.of(args[0]));
        int kept = Integer.parseInt(args[2]);
        times.measure(Integer.parseInt(args[1]) + kept, kept);
        System.out.printf("| a pass over %d topologies of %d executors | median, ms | 95th percentile, ms |%n",
            TOPOLOGIES, EXECUTORS);
        System.out.println("| --- | --- | --- |");
        for (Kind kind : Kind.values()) {
            System.out.printf(Locale.ROOT, "| %s | %.2f | %.2f |%n",
                kind.text, times.quantileMs(kind, 0.5), times.quantileMs(kind, 0.95));
        }
        System.out.printf(Locale.ROOT, "%n%d passes of each; each executor moves / Storm's own from nothing, of medians: %.2f%n",
            kept, times.quantileMs(Kind.MOVED, 0.5) / times.quantileMs(Kind.STORMS_PLACED, 0.5));
    }
}
