package harness.storm.rewrite;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.StreamInfo;
import org.apache.storm.spout.CheckpointSpout;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.ShellSpout;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;

/**
 * Puts batching into a topology that is about to be submitted.
 *
 * <p>Made before the topology's objects are wrapped by anything else, as it has to know what they are; applied after, as
 * what it puts around them has to be outermost.
 */
public final class Rewriter {
    private static final String KEY = "topology.batching";
    private static final int DEFAULT_TIMEOUT_S = 30;

    private final Map<String, Map<String, BatchSize>> sizes = new TreeMap<>();
    private final Set<String> rewritten = new TreeSet<>();
    private final Map<String, String> left = new TreeMap<>();

    private Rewriter() {
    }

    /**
     * Streams that may be batched, and those that were to be and are not.
     *
     * @param batched as {@code component:stream}, sorted
     * @param left as {@code component:stream}, with the reason
     */
    public record Result(List<String> batched, Map<String, String> left) {
    }

    /**
     * Finds out what is to be rewritten, and changes nothing.
     *
     * @param conf the topology's settings
     * @param batching by component, for all of its streams, or by {@code component:stream}, which goes first
     * @throws RewriteException naming a component or stream that is not there, or one that nothing can be batched of
     */
    public static Rewriter plan(StormTopology topology, Map<String, Object> conf, Map<String, BatchSize> batching) {
        Rewriter rewriter = new Rewriter();
        Components components = new Components(topology);
        int timeoutS = ObjectReader.getInt(conf.get(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS), DEFAULT_TIMEOUT_S);
        Map<String, Map<String, String>> keys = new TreeMap<>(); // component, stream, key
        for (String key : batching.keySet()) {
            if (batching.get(key).flushMs() >= timeoutS * 1000L) {
                throw new RewriteException(KEY + ": " + key + " waits for " + batching.get(key).flushMs()
                    + " ms, and messages time out after " + timeoutS + " s; make flush_ms smaller");
            }
            Chosen chosen = components.chosen(key);
            for (String stream : chosen.streams()) {
                Map<String, String> byStream = keys.computeIfAbsent(chosen.component(), id -> new TreeMap<>());
                if (chosen.one() || !byStream.containsKey(stream)) {
                    byStream.put(stream, key);
                }
            }
        }
        Set<String> idle = new TreeSet<>(batching.keySet());
        keys.forEach((component, byStream) -> byStream.forEach((stream, key) -> {
            String reason = components.reason(component, stream);
            if (reason != null) {
                rewriter.left.put(component + ":" + stream, reason);
                return;
            }
            idle.remove(key);
            rewriter.sizes.computeIfAbsent(component, id -> new TreeMap<>()).put(stream, batching.get(key));
            rewriter.rewritten.add(component);
            rewriter.rewritten.addAll(components.subscribers(component, stream).keySet());
        }));
        for (String key : idle) {
            Chosen chosen = components.chosen(key);
            boolean replaced = chosen.streams().stream()
                .anyMatch(stream -> !key.equals(keys.get(chosen.component()).get(stream)));
            if (!replaced) {
                throw new RewriteException(KEY + ": nothing of " + key + " can be batched: "
                    + components.reasons(chosen));
            }
        }
        return rewriter;
    }

    /** Changes the topology in place, and its settings. */
    public Result apply(StormTopology topology, Map<String, Object> conf) {
        Components components = new Components(topology);
        sizes.forEach((component, streams) -> {
            for (String stream : streams.keySet()) {
                hide(components, component, stream);
            }
        });
        for (String id : rewritten) {
            ComponentObject object = components.object(id);
            Map<String, BatchSize> own = sizes.getOrDefault(id, Map.of());
            Object inner = Utils.javaDeserialize(object.get_serialized_java(), Object.class);
            Object outer = inner instanceof IBolt bolt ? new RewrittenBolt(bolt, own) : new RewrittenSpout((ISpout) inner, own);
            object.set_serialized_java(Utils.javaSerialize(outer));
        }
        if (!sizes.isEmpty()) {
            register(conf);
        }
        List<String> batched = new ArrayList<>();
        sizes.forEach((component, streams) -> streams.keySet().forEach(stream -> batched.add(component + ":" + stream)));
        return new Result(List.copyOf(batched), Map.copyOf(left));
    }

    private static void hide(Components components, String component, String stream) {
        Map<String, StreamInfo> streams = components.common(component).get_streams();
        streams.put(HiddenStreams.batch(stream), new StreamInfo(List.of("batch"), true));
        streams.put(HiddenStreams.route(stream), new StreamInfo(streams.get(stream).get_output_fields(), false));
        components.subscribers(component, stream).forEach((subscriber, grouping) -> {
            Map<GlobalStreamId, Grouping> inputs = components.common(subscriber).get_inputs();
            inputs.put(new GlobalStreamId(component, HiddenStreams.batch(stream)), Grouping.direct(new NullStruct()));
            if (!grouping.is_set_direct()) {
                inputs.put(new GlobalStreamId(component, HiddenStreams.route(stream)),
                    Grouping.custom_serialized(Utils.javaSerialize(new Routed(stream, grouping))));
            }
        });
    }

    /** Beside the topology's own registrations, which are a list of names and maps, or one map. */
    private static void register(Map<String, Object> conf) {
        Map<String, Object> mine = Map.of(Batch.class.getName(), BatchSerializer.class.getName());
        Object before = conf.get(Config.TOPOLOGY_KRYO_REGISTER);
        if (before instanceof Map<?, ?> map) {
            Map<Object, Object> all = new HashMap<>(map);
            all.putAll(mine);
            conf.put(Config.TOPOLOGY_KRYO_REGISTER, all);
        } else {
            List<Object> all = before instanceof List<?> list ? new ArrayList<>(list) : new ArrayList<>();
            all.add(mine);
            conf.put(Config.TOPOLOGY_KRYO_REGISTER, all);
        }
    }

    /** Streams of a component; one if the key names it. */
    private record Chosen(String component, Set<String> streams, boolean one) {
    }

    /** A topology's components by identifier, whichever their kind. */
    private static final class Components {
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

        ComponentCommon common(String id) {
            return commons.get(id);
        }

        ComponentObject object(String id) {
            return objects.get(id);
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
                throw new RewriteException(KEY + ": there is no component "
                    + (key.contains(":") ? key.substring(0, key.indexOf(':')) : key) + "; the topology has "
                    + String.join(", ", commons.keySet()));
            }
            throw new RewriteException(KEY + ": component " + known + " has no stream " + key.substring(known.length() + 1)
                + "; it has " + (streams(known).isEmpty() ? "none" : String.join(", ", streams(known))));
        }

        /** Those that the topology's author declared. */
        private Set<String> streams(String component) {
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

        private String reason(String id) {
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
    }
}
