package harness.storm.rewrite;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.StreamInfo;
import org.apache.storm.spout.ISpout;
import org.apache.storm.task.IBolt;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;

/**
 * Puts batching, helping and back-pressure into a topology that is about to be submitted.
 *
 * <p>Made before the topology's objects are wrapped by anything else, as it has to know what they are; applied after, as
 * what it puts around them has to be outermost.
 */
public final class Rewriter {
    private static final String KEY = "topology.batching";
    private static final String HELPING = "topology.helping";
    private static final String PAUSING = "topology.backpressure";
    private static final int DEFAULT_TIMEOUT_S = 30;

    private final Map<String, Map<String, BatchSize>> sizes = new TreeMap<>();
    private final Set<String> rewritten = new TreeSet<>();
    private final Map<String, String> left = new TreeMap<>();
    private final Map<String, List<Helper>> helpers = new TreeMap<>();
    private final Map<String, List<Alias>> helpStreams = new TreeMap<>();
    private final Map<String, Map<String, Alias>> aliases = new TreeMap<>();
    private final Map<String, Watermarks> marks = new TreeMap<>();
    private final Map<String, Double> deltas = new TreeMap<>();
    private final Map<String, String> helperOf = new TreeMap<>();
    private boolean pausing;

    private Rewriter() {
    }

    /**
     * Streams that may be batched, and those that were to be and are not.
     *
     * @param batched as {@code component:stream}, sorted
     * @param left as {@code component:stream}, with the reason
     * @param helped components that may be helped, each with who helps it
     */
    public record Result(List<String> batched, Map<String, String> left, Map<String, String> helped) {
    }

    /**
     * Finds out what is to be rewritten, and changes nothing.
     *
     * @param conf the topology's settings
     * @param batching by component, for all of its streams, or by {@code component:stream}, which goes first
     * @throws RewriteException naming a component or stream that is not there, or one that nothing can be batched of
     */
    public static Rewriter plan(StormTopology topology, Map<String, Object> conf, Map<String, BatchSize> batching) {
        return plan(topology, conf, batching, Map.of(), null);
    }

    /**
     * Finds out what is to be rewritten for batching, helping and back-pressure.
     *
     * @param helping by component that is stateless, and may be helped by those directly before it
     * @param pausing when spouts pause for any bolt's queue, as Heron's do; null for never
     * @throws RewriteException naming a component that is not there, or one that nothing can be done for
     */
    public static Rewriter plan(StormTopology topology, Map<String, Object> conf, Map<String, BatchSize> batching,
            Map<String, HelpSettings> helping, Watermarks pausing) {
        Rewriter rewriter = new Rewriter();
        Components components = new Components(topology);
        int timeoutS = ObjectReader.getInt(conf.get(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS), DEFAULT_TIMEOUT_S);
        Map<String, Map<String, String>> keys = new TreeMap<>(); // component, stream, key
        for (String key : batching.keySet()) {
            if (batching.get(key).flushMs() >= timeoutS * 1000L) {
                throw new RewriteException(KEY + ": " + key + " waits for " + batching.get(key).flushMs()
                    + " ms, and messages time out after " + timeoutS + " s; make flush_ms smaller");
            }
            Components.Chosen chosen = components.chosen(key);
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
            Components.Chosen chosen = components.chosen(key);
            boolean replaced = chosen.streams().stream()
                .anyMatch(stream -> !key.equals(keys.get(chosen.component()).get(stream)));
            if (!replaced) {
                throw new RewriteException(KEY + ": nothing of " + key + " can be batched: "
                    + components.reasons(chosen));
            }
        }
        if (pausing != null) {
            rewriter.pause(topology, components, pausing);
        }
        helping.forEach((helped, settings) -> rewriter.help(components, helped, settings, helping.keySet(), conf));
        return rewriter;
    }

    private void pause(StormTopology topology, Components components, Watermarks at) {
        for (String id : components.all()) {
            String reason = components.reason(id);
            if (reason != null) {
                throw new RewriteException(PAUSING + ": " + id + " can be neither watched nor paused: it " + reason);
            }
        }
        topology.get_bolts().keySet().forEach(id -> marks.put(id, at));
        rewritten.addAll(components.all());
        pausing = true;
    }

    private void help(Components components, String helped, HelpSettings settings, Set<String> all,
            Map<String, Object> conf) {
        components.require(HELPING, helped);
        String reason = components.unhelped(helped, all, conf);
        if (reason != null) {
            throw new RewriteException(HELPING + ": " + helped + " cannot be helped: it " + reason);
        }
        GlobalStreamId input = components.common(helped).get_inputs().keySet().iterator().next();
        IBolt next = Utils.javaDeserialize(components.object(helped).get_serialized_java(), IBolt.class);
        String helper = input.get_componentId();
        helpers.computeIfAbsent(helper, id -> new ArrayList<>())
            .add(new Helper(next, helped, input.get_streamId()));
        rewritten.add(helper);
        rewritten.add(helped);
        helperOf.put(helped, helper);
        deltas.put(helped, settings.delta());
        marks.put(helped, settings.marks());
        marks.putIfAbsent(helper, settings.marks());
        for (String stream : components.streams(helped)) {
            helpStreams.computeIfAbsent(helper, id -> new ArrayList<>()).add(new Alias(helped, stream));
            components.subscribers(helped, stream).keySet().forEach(subscriber -> {
                aliases.computeIfAbsent(subscriber, id -> new TreeMap<>())
                    .put(HiddenStreams.help(helped, stream), new Alias(helped, stream));
                rewritten.add(subscriber);
            });
        }
    }

    /** Changes the topology in place, and its settings. */
    public Result apply(StormTopology topology, Map<String, Object> conf) {
        Components components = new Components(topology);
        ReliefPlan relief = marks.isEmpty() ? null : new ReliefPlan(marks, helperOf, deltas, pausing);
        if (relief != null) {
            addSignals(components);
            listOf(conf, Config.TOPOLOGY_METRICS_REPORTERS, Map.of("class", QueueFills.class.getName()));
        }
        helpStreams.forEach((helper, streams) -> streams.forEach(stream -> addHelp(components, helper, stream)));
        sizes.forEach((component, streams) -> {
            for (String stream : streams.keySet()) {
                hide(components, component, stream);
            }
        });
        for (String id : rewritten) {
            ComponentObject object = components.object(id);
            Map<String, BatchSize> own = sizes.getOrDefault(id, Map.of());
            Object inner = Utils.javaDeserialize(object.get_serialized_java(), Object.class);
            Object outer = inner instanceof IBolt bolt
                ? new RewrittenBolt(bolt, own, helpers.getOrDefault(id, List.of()), aliases.getOrDefault(id, Map.of()),
                    marks.containsKey(id) ? relief : null)
                : new RewrittenSpout((ISpout) inner, own, pausing ? relief : null);
            object.set_serialized_java(Utils.javaSerialize(outer));
        }
        if (!sizes.isEmpty()) {
            register(conf);
            listOf(conf, Config.TOPOLOGY_AUTO_CREDENTIALS, LiveSizes.class.getName());
        }
        List<String> batched = new ArrayList<>();
        sizes.forEach((component, streams) -> streams.keySet().stream().filter(stream -> !HiddenStreams.isHidden(stream))
            .forEach(stream -> batched.add(component + ":" + stream)));
        return new Result(List.copyOf(batched), Map.copyOf(left), Map.copyOf(helperOf));
    }

    /** From each bolt whose queue is watched to all tasks of all of them: that is how workers hear of each other. */
    private void addSignals(Components components) {
        for (String from : marks.keySet()) {
            components.common(from).get_streams().put(HiddenStreams.SIGNAL, new StreamInfo(Signal.FIELDS, false));
            for (String to : marks.keySet()) {
                components.common(to).get_inputs().put(
                    new GlobalStreamId(from, HiddenStreams.SIGNAL), Grouping.all(new NullStruct()));
            }
        }
    }

    /** A helper's stream beside a helped component's, with the same subscribers, groupings and batches. */
    private void addHelp(Components components, String helper, Alias of) {
        String hidden = HiddenStreams.help(of.component(), of.stream());
        components.common(helper).get_streams().put(hidden,
            components.common(of.component()).get_streams().get(of.stream()));
        components.subscribers(of.component(), of.stream()).forEach((subscriber, grouping) ->
            components.common(subscriber).get_inputs().put(new GlobalStreamId(helper, hidden), grouping));
        BatchSize size = sizes.getOrDefault(of.component(), Map.of()).get(of.stream());
        if (size != null) {
            sizes.computeIfAbsent(helper, id -> new TreeMap<>()).put(hidden, size);
        }
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
            listOf(conf, Config.TOPOLOGY_KRYO_REGISTER, mine);
        }
    }

    private static void listOf(Map<String, Object> conf, String key, Object more) {
        List<Object> all = conf.get(key) instanceof List<?> list ? new ArrayList<>(list) : new ArrayList<>();
        all.add(more);
        conf.put(key, all);
    }
}
