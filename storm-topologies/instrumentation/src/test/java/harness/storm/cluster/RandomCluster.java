package harness.storm.cluster;

import harness.storm.cluster.SchedulerOracle.Component;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/** Nodes with unequal slots, topologies that are placed in part or not at all, and plans for some of them, by a seed. */
final class RandomCluster {
    final Random random;
    final List<SupervisorDetails> supervisors = new ArrayList<>();
    final List<TopologyDetails> topologies = new ArrayList<>();
    /** Workers of executors, by topology and label. */
    final Map<String, Map<String, String>> assigned = new HashMap<>();
    final Map<String, Map<String, String>> plans = new TreeMap<>();

    RandomCluster(long seed) {
        random = new Random(seed);
        List<String> free = new ArrayList<>();
        int nodes = 2 + random.nextInt(4);
        for (int node = 1; node <= nodes; node++) {
            List<Integer> ports = new ArrayList<>();
            int slots = 2 + random.nextInt(4);
            for (int slot = 0; slot < slots; slot++) {
                ports.add(6600 + 100 * node + slot);
                free.add("node-" + node + ":" + (6600 + 100 * node + slot));
            }
            String id = new UUID(random.nextLong(), random.nextLong()).toString();
            supervisors.add(SchedulerOracle.supervisor(id, "127.0.0." + (node + 1), "node-" + node, ports, null, null));
        }
        Collections.shuffle(free, random);
        int pinned = 1 + random.nextInt(2);
        int others = random.nextInt(3);
        for (int i = 0; i < pinned + others; i++) {
            String id = (i < pinned ? "pinned-" : "other-") + i;
            TopologyDetails topology = topology(id);
            topologies.add(topology);
            // Storm's own scheduler fails where executors are missing on more workers than are asked for
            List<String> own = new ArrayList<>(take(free, Math.min(2, topology.getNumWorkers())));
            if (!own.isEmpty() && random.nextInt(3) > 0) {
                assigned.put(id, deal(topology, own, 0.8));
            }
            if (i < pinned && assigned.containsKey(id) && random.nextBoolean()) { // what is there, and one worker for the rest
                Map<String, String> plan = deal(topology, List.of(own.get(random.nextInt(own.size()))), 1);
                plan.putAll(assigned.get(id));
                plans.put(id, plan);
            } else if (i < pinned) { // its own slots are in the plan or not, and others
                own.addAll(take(free, 2));
                Collections.shuffle(own, random);
                plans.put(id, own.isEmpty() ? Map.of() : deal(topology, own.subList(0, 1 + random.nextInt(own.size())), 1));
            }
        }
        plans.values().removeIf(Map::isEmpty); // there was no slot left
    }

    private TopologyDetails topology(String id) {
        List<Component> components = new ArrayList<>();
        components.add(component("__acker"));
        for (int i = 0; i <= random.nextInt(4); i++) {
            components.add(component("c-" + i));
        }
        return SchedulerOracle.topology(id, 1 + random.nextInt(4), components, Map.of(), 0);
    }

    private Component component(String name) {
        int tasks = 1 + random.nextInt(8);
        return new Component(name, name.equals("c-0"), tasks, 1 + random.nextInt(tasks));
    }

    private List<String> take(List<String> free, int most) {
        List<String> taken = free.subList(0, Math.min(free.size(), random.nextInt(most + 1)));
        List<String> copy = List.copyOf(taken);
        taken.clear();
        return copy;
    }

    /** Deals executors to workers; each is placed with a probability. */
    private Map<String, String> deal(TopologyDetails topology, List<String> workers, double share) {
        Map<String, String> dealt = new TreeMap<>();
        for (String label : Placement.labels(topology).keySet()) {
            if (random.nextDouble() <= share) {
                dealt.put(label, workers.get(random.nextInt(workers.size())));
            }
        }
        return dealt;
    }

    /** Returns where Storm's own scheduler puts the topologies without a plan, with pinned ones placed and content. */
    Map<String, Map<String, String>> others(Map<String, Map<String, String>> pinned) {
        List<TopologyDetails> content = new ArrayList<>();
        Map<String, Map<String, String>> before = new HashMap<>(assigned);
        for (TopologyDetails topology : topologies) {
            String id = topology.getId();
            if (!plans.containsKey(id)) {
                content.add(topology);
                continue;
            }
            before.put(id, pinned.get(id));
            Map<ExecutorDetails, String> placed = new HashMap<>();
            Placement.labels(topology).forEach((label, executor) -> {
                if (pinned.get(id).containsKey(label)) {
                    placed.put(executor, topology.getExecutorToComponent().get(executor));
                }
            });
            content.add(new TopologyDetails(id, topology.getConf(), topology.getTopology(), 0, placed, 0, "harness"));
        }
        Cluster cluster = SchedulerOracle.cluster(supervisors, content, before);
        DefaultScheduler.defaultSchedule(cluster.getTopologies(), cluster);
        Map<String, Map<String, String>> all = SchedulerOracle.assignments(cluster);
        all.keySet().removeAll(plans.keySet());
        return all;
    }

    /** The slots, by node's identifier, of the workers that hold the same executors before and after. */
    List<String> unchanged(String topology) {
        Map<String, List<String>> before = byWorker(assigned.getOrDefault(topology, Map.of()));
        Map<String, List<String>> after = byWorker(plans.get(topology));
        return before.keySet().stream().filter(worker -> before.get(worker).equals(after.get(worker))).map(this::slot).toList();
    }

    String slot(String worker) {
        int colon = worker.lastIndexOf(':');
        int node = Integer.parseInt(worker.substring("node-".length(), colon));
        return supervisors.get(node - 1).getId() + worker.substring(colon);
    }

    private static Map<String, List<String>> byWorker(Map<String, String> workers) {
        Map<String, List<String>> labels = new TreeMap<>();
        new TreeMap<>(workers).forEach((label, worker) -> labels.computeIfAbsent(worker, w -> new ArrayList<>()).add(label));
        return labels;
    }
}
