package harness.storm.cluster;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;
import org.apache.storm.utils.Utils;

/**
 * Asks Storm's own schedulers where executors go, without a cluster.
 *
 * <p>One case a line of standard input, one answer a line of standard output, in the same order:
 * <pre>{@code
 * {"case": "7", "scheduler": "default",
 *  "supervisors": [{"id": "s-1", "host": "10.0.0.1", "name": "node-1", "ports": [6700, 6701], "cpu_pct": 400.0, "memory_mb": 4096.0}],
 *  "topologies": [{"id": "t-0", "workers": 1, "components": [{"name": "a", "kind": "spout", "tasks": 2, "executors": 1}]},
 *                 {"id": "t-1", "workers": 2, "settings": {"topology.priority": 10},
 *                  "components": [{"name": "a", "kind": "spout", "tasks": 4, "executors": 2},
 *                                 {"name": "b", "kind": "bolt", "tasks": 4, "executors": 1, "inputs": ["a"],
 *                                  "cpu_pct": 25.0, "memory_mb": 128.0},
 *                                 {"name": "__acker", "kind": "bolt", "tasks": 1, "executors": 1}]}],
 *  "assignments": {"t-0": {"a[1-2]": "node-1:6700"}}}
 *
 * {"case": "7", "assignments": {"t-0": {"a[1-2]": "node-1:6700"},
 *                               "t-1": {"__acker[1-1]": "node-1:6701", "a[2-3]": "node-1:6701", "a[4-5]": "node-1:6701",
 *                                       "b[6-9]": "node-1:6701"}}, "status": {}}
 * }</pre>
 *
 * <p>{@code scheduler} is {@code default} or {@code resource-aware}. {@code cpu_pct} (100 is a core) and {@code memory_mb} (heap)
 * may be left out: then a supervisor offers, and an executor takes, what Storm has as default. {@code settings}, {@code inputs} and
 * {@code assignments} may be left out, too. {@code assignments} holds what is there already; executors that it leaves out of a
 * topology are to be placed.
 *
 * <p>Task identifiers are those that Nimbus gives: from 1, components by name. Storm orders nodes by the supervisor's id (slots by
 * port), and topologies that need workers in the order of a hash table over their ids; {@code resource-aware} takes topologies of
 * one priority in the order of the list, and ignores {@code workers}. A status is what the scheduler said of a topology.
 *
 * <p>Needs Storm's jars only, so that a JDK runs it from source:
 * {@code java -cp 'STORM_HOME/lib/*' SchedulerOracle.java < cases.jsonl}. Storm's log goes to standard error.
 */
public final class SchedulerOracle {
    /**
     * A component of a topology; Storm's own have names that begin with {@code __}.
     *
     * @param cpuPct of each executor; null for Storm's default
     * @param memoryMb heap of each executor; null for Storm's default
     */
    record Component(String name, boolean spout, int tasks, int executors, List<String> inputs, Double cpuPct, Double memoryMb) {
        Component(String name, boolean spout, int tasks, int executors) {
            this(name, spout, tasks, executors, List.of(), null, null);
        }
    }

    /** A class of its own, as to read them begins Storm's logging, which keeps the standard output that it finds. */
    private static final class Defaults {
        static final Map<String, Object> SETTINGS = Utils.readDefaultConfig();
    }

    private SchedulerOracle() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what else is printed, by Storm's logging, is no answer
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (!line.isBlank()) {
                    out.println(JSONValue.toJSONString(answer(line)));
                }
            }
        }
    }

    /** Answers one case. */
    static Map<String, Object> answer(String line) throws ParseException {
        Map<?, ?> asked = (Map<?, ?>) JSONValue.parseWithException(line);
        List<SupervisorDetails> supervisors = new ArrayList<>();
        for (Map<?, ?> supervisor : objects(asked.get("supervisors"))) {
            supervisors.add(supervisor(text(supervisor, "id"), text(supervisor, "host"), text(supervisor, "name"),
                ((List<?>) supervisor.get("ports")).stream().map(port -> ((Number) port).intValue()).toList(),
                number(supervisor, "cpu_pct"), number(supervisor, "memory_mb")));
        }
        List<TopologyDetails> topologies = new ArrayList<>();
        for (Map<?, ?> topology : objects(asked.get("topologies"))) {
            List<Component> components = new ArrayList<>();
            for (Map<?, ?> component : objects(topology.get("components"))) {
                List<?> inputs = component.get("inputs") instanceof List<?> list ? list : List.of();
                components.add(new Component(text(component, "name"), component.get("kind").equals("spout"),
                    number(component, "tasks").intValue(), number(component, "executors").intValue(),
                    inputs.stream().map(Object::toString).toList(), number(component, "cpu_pct"), number(component, "memory_mb")));
            }
            Map<String, Object> settings = new HashMap<>();
            if (topology.get("settings") instanceof Map<?, ?> own) {
                own.forEach((key, value) -> settings.put(key.toString(), value));
            }
            topologies.add(topology(text(topology, "id"), number(topology, "workers").intValue(), components, settings,
                topologies.size()));
        }
        Map<String, Map<String, String>> assignments = new HashMap<>();
        if (asked.get("assignments") instanceof Map<?, ?> all) {
            all.forEach((id, assigned) -> ((Map<?, ?>) assigned).forEach((label, worker) ->
                assignments.computeIfAbsent(id.toString(), i -> new HashMap<>()).put(label.toString(), worker.toString())));
        }
        Cluster cluster = cluster(supervisors, topologies, assignments);
        schedule(text(asked, "scheduler"), cluster);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("case", asked.get("case"));
        answer.put("assignments", assignments(cluster));
        answer.put("status", new TreeMap<>(cluster.getStatusMap()));
        return answer;
    }

    private static void schedule(String name, Cluster cluster) {
        IScheduler scheduler = switch (name) {
            case "default" -> new DefaultScheduler();
            case "resource-aware" -> new ResourceAwareScheduler();
            default -> throw new IllegalArgumentException("scheduler must be default or resource-aware, not " + name);
        };
        scheduler.prepare(cluster.getConf(), new StormMetricsRegistry());
        try {
            scheduler.schedule(cluster.getTopologies(), cluster);
        } finally {
            scheduler.cleanup();
        }
    }

    // -- what Nimbus makes for its scheduler -------------------------------------------------------------

    /** Makes a supervisor; {@code cpuPct} and {@code memoryMb} may be null for Storm's defaults. */
    static SupervisorDetails supervisor(
            String id, String host, String name, Collection<Integer> ports, Double cpuPct, Double memoryMb) {
        Map<String, Double> resources = new HashMap<>();
        resources.put(Config.SUPERVISOR_CPU_CAPACITY,
            cpuPct == null ? ((Number) Defaults.SETTINGS.get(Config.SUPERVISOR_CPU_CAPACITY)).doubleValue() : cpuPct);
        resources.put(Config.SUPERVISOR_MEMORY_CAPACITY_MB,
            memoryMb == null ? ((Number) Defaults.SETTINGS.get(Config.SUPERVISOR_MEMORY_CAPACITY_MB)).doubleValue() : memoryMb);
        return new SupervisorDetails(id, host, Map.of("name", name), ports, resources);
    }

    /** Makes a topology whose name is its id; the earlier {@code launched}, the sooner its turn comes. */
    static TopologyDetails topology(
            String id, int workers, List<Component> components, Map<String, Object> settings, int launched) {
        Map<String, Object> conf = defaults();
        conf.put(Config.TOPOLOGY_NAME, id);
        conf.put(Config.TOPOLOGY_WORKERS, workers);
        conf.put(Config.TOPOLOGY_SUBMITTER_USER, "harness");
        conf.putAll(settings);
        StormTopology topology = new StormTopology(new HashMap<>(), new HashMap<>(), new HashMap<>());
        Map<ExecutorDetails, String> executors = new HashMap<>();
        TreeMap<String, Component> byName = new TreeMap<>();
        components.forEach(component -> byName.put(component.name(), component));
        int first = 1;
        for (Component component : byName.values()) {
            List<Integer> tasks = new ArrayList<>();
            for (int task = first; task < first + component.tasks(); task++) {
                tasks.add(task);
            }
            first += component.tasks();
            for (List<Integer> range : Utils.partitionFixed(component.executors(), tasks)) {
                executors.put(new ExecutorDetails(range.get(0), range.get(range.size() - 1)), component.name());
            }
            if (!Utils.isSystemId(component.name())) {
                add(component, topology);
            }
        }
        return new TopologyDetails(id, conf, topology, workers, executors, launched, "harness");
    }

    private static void add(Component component, StormTopology topology) {
        Map<GlobalStreamId, Grouping> inputs = new HashMap<>();
        component.inputs().forEach(from ->
            inputs.put(new GlobalStreamId(from, Utils.DEFAULT_STREAM_ID), Grouping.shuffle(new NullStruct())));
        Map<String, Object> own = new HashMap<>();
        if (component.cpuPct() != null) {
            own.put(Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT, component.cpuPct());
        }
        if (component.memoryMb() != null) {
            own.put(Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB, component.memoryMb());
        }
        ComponentCommon common = new ComponentCommon(inputs, new HashMap<>());
        common.set_parallelism_hint(component.executors());
        common.set_json_conf(JSONValue.toJSONString(own));
        ComponentObject nothing = ComponentObject.serialized_java(ByteBuffer.allocate(0));
        if (component.spout()) {
            topology.put_to_spouts(component.name(), new SpoutSpec(nothing, common));
        } else {
            topology.put_to_bolts(component.name(), new Bolt(nothing, common));
        }
    }

    /** Makes a cluster on which executors, by label, are on workers, by name of node and port, already. */
    static Cluster cluster(
            List<SupervisorDetails> supervisors, List<TopologyDetails> topologies, Map<String, Map<String, String>> assigned) {
        Map<String, SupervisorDetails> byId = new LinkedHashMap<>();
        Map<String, String> ids = new HashMap<>();
        for (SupervisorDetails supervisor : supervisors) {
            byId.put(supervisor.getId(), supervisor);
            ids.put(name(supervisor), supervisor.getId());
        }
        Map<String, TopologyDetails> details = new LinkedHashMap<>();
        Map<String, SchedulerAssignmentImpl> assignments = new HashMap<>();
        for (TopologyDetails topology : topologies) {
            details.put(topology.getId(), topology);
            if (assigned.containsKey(topology.getId())) {
                Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
                Map<String, ExecutorDetails> executors = labels(topology);
                assigned.get(topology.getId()).forEach((label, worker) -> {
                    int colon = worker.lastIndexOf(':');
                    String node = worker.substring(0, colon);
                    slots.put(executors.get(label), // a node that is not there has its name for an id
                        new WorkerSlot(ids.getOrDefault(node, node), Integer.parseInt(worker.substring(colon + 1))));
                });
                assignments.put(topology.getId(), new SchedulerAssignmentImpl(topology.getId(), slots, null, null));
            }
        }
        return new Cluster(new Nimbus.StandaloneINimbus(), new ResourceMetrics(new StormMetricsRegistry()), byId, assignments,
            new Topologies(details), defaults());
    }

    /** Storm's settings where nobody says otherwise. */
    static Map<String, Object> defaults() {
        return new HashMap<>(Defaults.SETTINGS);
    }

    /** The workers of all executors that have one, by topology and label. */
    static Map<String, Map<String, String>> assignments(Cluster cluster) {
        Map<String, Map<String, String>> all = new TreeMap<>();
        for (TopologyDetails topology : cluster.getTopologies()) {
            SchedulerAssignment assignment = cluster.getAssignmentById(topology.getId());
            Map<String, String> workers = new TreeMap<>();
            if (assignment != null) {
                labels(topology).forEach((label, executor) -> {
                    WorkerSlot slot = assignment.getExecutorToSlot().get(executor);
                    if (slot != null) {
                        SupervisorDetails supervisor = cluster.getSupervisorById(slot.getNodeId());
                        workers.put(label, (supervisor == null ? slot.getNodeId() : name(supervisor)) + ":" + slot.getPort());
                    }
                });
            }
            all.put(topology.getId(), workers);
        }
        return all;
    }

    private static Map<String, ExecutorDetails> labels(TopologyDetails topology) {
        Map<String, ExecutorDetails> labels = new TreeMap<>();
        topology.getExecutorToComponent().forEach((executor, component) ->
            labels.put(component + "[" + executor.getStartTask() + "-" + executor.getEndTask() + "]", executor));
        return labels;
    }

    private static String name(SupervisorDetails supervisor) {
        return supervisor.getSchedulerMeta() instanceof Map<?, ?> meta ? meta.get("name").toString() : supervisor.getHost();
    }

    private static List<Map<?, ?>> objects(Object list) {
        List<Map<?, ?>> objects = new ArrayList<>();
        ((List<?>) list).forEach(object -> objects.add((Map<?, ?>) object));
        return objects;
    }

    private static String text(Map<?, ?> object, String key) {
        return object.get(key).toString();
    }

    private static Double number(Map<?, ?> object, String key) {
        return object.get(key) == null ? null : Double.valueOf(((Number) object.get(key)).doubleValue());
    }
}
