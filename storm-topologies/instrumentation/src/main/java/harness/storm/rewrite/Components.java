package harness.storm.rewrite;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.spout.CheckpointSpout;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.ShellSpout;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.topology.BaseStatefulBoltExecutor;
import org.apache.storm.topology.WindowedBoltExecutor;
import org.apache.storm.utils.Utils;

/** A topology's components by identifier, whichever their kind. */
final class Components {
    private static final String BATCHING = "topology.batching";

    /** Streams of a component; one if the key names it. */
    record Chosen(String component, Set<String> streams, boolean one) {
    }

    private final Map<String, ComponentCommon> commons = new TreeMap<>();
    private final Map<String, ComponentObject> objects = new TreeMap<>();

    Components(StormTopology topology) {
        topology.get_spouts().forEach((id, spout) -> {
            commons.put(id, spout.get_common());
            objects.put(id, spout.get_spout_object());
        });
        topology.get_bolts().forEach((id, bolt) -> {
            commons.put(id, bolt.get_common());
            objects.put(id, bolt.get_bolt_object());
        });
    }

    Set<String> all() {
        return commons.keySet();
    }

    ComponentCommon common(String id) {
        return commons.get(id);
    }

    ComponentObject object(String id) {
        return objects.get(id);
    }

    /** @throws RewriteException naming what the topology has instead */
    void require(String key, String id) {
        if (!commons.containsKey(id)) {
            throw new RewriteException(key + ": there is no component " + id + "; the topology has "
                + String.join(", ", commons.keySet()));
        }
    }

    Map<String, Grouping> subscribers(String component, String stream) {
        GlobalStreamId id = new GlobalStreamId(component, stream);
        Map<String, Grouping> subscribers = new TreeMap<>();
        commons.forEach((other, common) -> {
            if (common.get_inputs().containsKey(id)) {
                subscribers.put(other, common.get_inputs().get(id));
            }
        });
        return subscribers;
    }

    /** What a key means: identifiers of components and streams may have colons themselves. */
    Chosen chosen(String key) {
        if (commons.containsKey(key)) {
            return new Chosen(key, streams(key), false);
        }
        String known = null;
        for (int colon = key.indexOf(':'); colon >= 0; colon = key.indexOf(':', colon + 1)) {
            String component = key.substring(0, colon);
            if (commons.containsKey(component)) {
                known = component;
                String stream = key.substring(colon + 1);
                if (streams(component).contains(stream)) {
                    return new Chosen(component, Set.of(stream), true);
                }
            }
        }
        if (known == null) {
            throw new RewriteException(BATCHING + ": there is no component "
                + (key.contains(":") ? key.substring(0, key.indexOf(':')) : key) + "; the topology has "
                + String.join(", ", commons.keySet()));
        }
        throw new RewriteException(BATCHING + ": component " + known + " has no stream " + key.substring(known.length() + 1)
            + "; it has " + (streams(known).isEmpty() ? "none" : String.join(", ", streams(known))));
    }

    /** Those that the topology's author declared. */
    Set<String> streams(String component) {
        Set<String> streams = new TreeSet<>(commons.get(component).get_streams().keySet());
        streams.remove(CheckpointSpout.CHECKPOINT_STREAM_ID);
        return streams;
    }

    String reasons(Chosen chosen) {
        if (chosen.streams().isEmpty()) {
            return "it has no streams";
        }
        Set<String> reasons = new TreeSet<>();
        chosen.streams().forEach(stream -> reasons.add(reason(chosen.component(), stream)));
        return String.join("; ", reasons);
    }

    /** Why a stream cannot be batched; null if it can. */
    String reason(String component, String stream) {
        String own = reason(component);
        if (own != null) {
            return component + " " + own;
        }
        Map<String, Grouping> subscribers = subscribers(component, stream);
        for (String subscriber : subscribers.keySet()) {
            String theirs = reason(subscriber);
            if (theirs != null) {
                return "its subscriber " + subscriber + " " + theirs;
            }
        }
        return subscribers.isEmpty() ? "nothing subscribes to its stream " + stream : null;
    }

    /** Why a component cannot be rewritten; null if it can. */
    String reason(String id) {
        ComponentObject component = objects.get(id);
        if (component.is_set_shell()) {
            return "runs in a process of its own (shell component)";
        }
        if (!component.is_set_serialized_java()) {
            return "is made by the worker from a class name (Java object specification)";
        }
        Object object = Utils.javaDeserialize(component.get_serialized_java(), Object.class);
        if (object instanceof ShellBolt || object instanceof ShellSpout) {
            return "runs in a process of its own (" + object.getClass().getSimpleName() + ")";
        }
        if (object instanceof CheckpointSpout) {
            return "is Storm's own (checkpoint spout)";
        }
        if (object.getClass().getName().startsWith("org.apache.storm.trident.")) {
            return "is part of a Trident topology, which has batches of its own";
        }
        return object instanceof IBolt || object instanceof ISpout ? null : "is neither bolt nor spout";
    }

    /** Why a bolt cannot be helped by those directly before it; null if it can. Whether it is stateless nobody can see. */
    String unhelped(String id, Set<String> helped, Map<String, Object> conf) {
        String own = reason(id);
        if (own != null) {
            return own;
        }
        Object object = Utils.javaDeserialize(objects.get(id).get_serialized_java(), Object.class);
        Map<GlobalStreamId, Grouping> inputs = commons.get(id).get_inputs();
        if (!(object instanceof IBolt)) {
            return "is a spout";
        }
        if (object instanceof WindowedBoltExecutor || object instanceof BaseStatefulBoltExecutor) {
            return object instanceof WindowedBoltExecutor ? "has windows" : "is stateful";
        }
        if (ticks(commons.get(id), conf)) {
            return "gets ticks";
        }
        if (inputs.size() != 1) {
            return "has " + inputs.size() + " inputs";
        }
        GlobalStreamId input = inputs.keySet().iterator().next();
        Grouping grouping = inputs.get(input);
        if (!grouping.is_set_shuffle() && !grouping.is_set_local_or_shuffle() && !grouping.is_set_none()) {
            return "is grouped by " + grouping.getSetField().getFieldName() + ", so it matters which task gets a tuple";
        }
        String helper = input.get_componentId();
        if (helped.contains(helper)) {
            return "has a helper that is helped itself, " + helper;
        }
        if (subscribers(helper, input.get_streamId()).size() > 1) {
            return "shares the stream " + helper + ":" + input.get_streamId() + " with other subscribers";
        }
        return unhelping(id, helper);
    }

    private String unhelping(String id, String helper) {
        String theirs = reason(helper);
        if (theirs != null) {
            return "has a helper, " + helper + ", that " + theirs;
        }
        if (Utils.javaDeserialize(objects.get(helper).get_serialized_java(), Object.class) instanceof ISpout) {
            return "comes after a spout, " + helper + ", which cannot help";
        }
        for (String stream : streams(id)) {
            for (String subscriber : subscribers(id, stream).keySet()) {
                if (reason(subscriber) != null) {
                    return "has a subscriber, " + subscriber + ", that " + reason(subscriber);
                }
            }
        }
        return null;
    }

    private static boolean ticks(ComponentCommon common, Map<String, Object> conf) {
        String json = common.get_json_conf();
        boolean own = json != null && JSONValue.parse(json) instanceof Map<?, ?> map
            && map.get(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS) != null;
        return own || conf.get(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS) != null;
    }
}
