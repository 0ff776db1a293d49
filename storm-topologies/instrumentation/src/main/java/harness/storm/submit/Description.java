package harness.storm.submit;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.spout.CheckpointSpout;
import org.apache.storm.utils.Utils;

/**
 * What a topology is made of, as it was submitted: components with executors, tasks and windows, streams with groupings, and
 * settings.
 */
final class Description {
    private static final String SETTINGS = "topology.";

    private Description() {
    }

    /**
     * Makes a description that can be written as JSON.
     *
     * @param topology as {@code main} made it, before anything is wrapped
     * @param conf the topology's own settings
     */
    static Map<String, Object> of(StormTopology topology, Map<String, Object> conf) {
        Map<String, Object> components = new TreeMap<>();
        List<Map<String, Object>> streams = new ArrayList<>();
        topology.get_spouts().forEach((id, spout) ->
            components.put(id, component("spout", spout.get_common(), isStorms(spout.get_spout_object()), conf)));
        for (Map.Entry<String, Bolt> bolt : new TreeMap<>(topology.get_bolts()).entrySet()) {
            ComponentCommon common = bolt.getValue().get_common();
            components.put(bolt.getKey(), component("bolt", common, false, conf));
            new TreeMap<>(common.get_inputs()).forEach((from, grouping) -> {
                Map<String, Object> stream = new LinkedHashMap<>();
                stream.put("source", from.get_componentId());
                stream.put("stream", from.get_streamId());
                stream.put("target", bolt.getKey());
                stream.put("grouping", name(grouping));
                streams.add(stream);
            });
        }
        Map<String, Object> defaults = new TreeMap<>();
        Utils.readDefaultConfig().forEach((key, value) -> {
            if (key.startsWith(SETTINGS)) {
                defaults.put(key, value);
            }
        });
        Map<String, Object> description = new LinkedHashMap<>();
        description.put("components", components);
        description.put("streams", streams);
        description.put("settings", new TreeMap<>(conf));
        description.put("defaults", defaults);
        return description;
    }

    /**
     * Gives components other numbers of executors and tasks than {@code main} did.
     *
     * @throws SubmitException naming a component that the topology has not
     */
    static void resize(StormTopology topology, Map<String, SubmitSettings.Size> sizes) {
        Map<String, ComponentCommon> found = new TreeMap<>();
        topology.get_spouts().forEach((id, spout) -> found.put(id, spout.get_common()));
        topology.get_bolts().forEach((id, bolt) -> found.put(id, bolt.get_common()));
        sizes.forEach((id, size) -> {
            ComponentCommon common = found.get(id);
            if (common == null) {
                throw SubmitException.settings("there is no component " + id + "; the topology has "
                    + String.join(", ", found.keySet()));
            }
            Map<String, Object> own = own(common);
            own.put(Config.TOPOLOGY_TASKS, size.tasks());
            own.put(Config.TOPOLOGY_MAX_TASK_PARALLELISM, size.tasks()); // the topology's limit would cut them
            common.set_parallelism_hint(size.executors());
            common.set_json_conf(JSONValue.toJSONString(own));
        });
    }

    private static Map<String, Object> component(
            String kind, ComponentCommon common, boolean storms, Map<String, Object> conf) {
        Map<String, Object> own = own(common);
        int hint = common.is_set_parallelism_hint() ? common.get_parallelism_hint() : 1;
        Number tasks = number(own, conf, Config.TOPOLOGY_TASKS);
        Number most = number(own, conf, Config.TOPOLOGY_MAX_TASK_PARALLELISM);
        int count = tasks == null ? hint : tasks.intValue(); // as Nimbus does when it takes a topology
        if (most != null) {
            count = Math.min(count, most.intValue());
        }
        Map<String, Object> component = new LinkedHashMap<>();
        component.put("kind", kind);
        component.put("storms", storms);
        component.put("executors", Math.min(hint, count));
        component.put("tasks", count);
        component.put("window", window(own));
        return component;
    }

    private static Map<String, Object> own(ComponentCommon common) {
        String json = common.get_json_conf();
        return json == null || json.isEmpty() ? new HashMap<>() : new HashMap<>(Submit.object(json));
    }

    private static Number number(Map<String, Object> own, Map<String, Object> conf, String key) {
        return (Number) (own.get(key) == null ? conf.get(key) : own.get(key));
    }

    /** Length and slide in tuples or in ms; null without a window, or where one is in tuples and the other in ms. */
    private static Map<String, Object> window(Map<String, Object> own) {
        Map<String, Object> count = window("count", own.get(Config.TOPOLOGY_BOLTS_WINDOW_LENGTH_COUNT),
            own.get(Config.TOPOLOGY_BOLTS_SLIDING_INTERVAL_COUNT));
        return count != null ? count : window("time", own.get(Config.TOPOLOGY_BOLTS_WINDOW_LENGTH_DURATION_MS),
            own.get(Config.TOPOLOGY_BOLTS_SLIDING_INTERVAL_DURATION_MS));
    }

    private static Map<String, Object> window(String kind, Object length, Object slide) {
        if (length == null || slide == null) {
            return null;
        }
        Map<String, Object> window = new LinkedHashMap<>();
        window.put("kind", kind);
        window.put("length", length);
        window.put("slide", slide);
        return window;
    }

    /** Whether a spout is one that Storm adds itself. */
    private static boolean isStorms(ComponentObject spout) {
        return spout.is_set_serialized_java()
            && Utils.javaDeserialize(spout.get_serialized_java(), Object.class) instanceof CheckpointSpout;
    }

    /** A grouping by the names that the harness has for them. */
    private static String name(Grouping grouping) {
        return switch (grouping.getSetField()) {
            case FIELDS -> grouping.get_fields().isEmpty() ? "global" : "fields";
            case SHUFFLE -> "shuffle";
            case ALL -> "all";
            case NONE -> "none";
            case DIRECT -> "direct";
            case LOCAL_OR_SHUFFLE -> "local-or-shuffle";
            case CUSTOM_SERIALIZED -> Utils.javaDeserialize(grouping.get_custom_serialized(), Object.class)
                instanceof PartialKeyGrouping ? "partial-key" : "custom";
            case CUSTOM_OBJECT -> "custom";
        };
    }
}
