package harness.storm.submit;

import harness.storm.instrument.InstrumentedBolt;
import harness.storm.instrument.InstrumentedSpout;
import harness.storm.instrument.LineProtocol;
import harness.storm.instrument.LineProtocolConsumer;
import harness.storm.instrument.Series;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.spout.CheckpointSpout;
import org.apache.storm.spout.ISpout;
import org.apache.storm.spout.ShellSpout;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.utils.Utils;

/** Puts the wrappers into a topology, and what they need into its settings. */
final class Instrumenter {

    private Instrumenter() {
    }

    /**
     * Which components were wrapped, sorted, and why the others were not.
     */
    record Result(List<String> wrapped, Map<String, String> unwrapped) {
    }

    /** Wraps, in place, every bolt and spout that can be. */
    static Result wrap(StormTopology topology) {
        Result result = new Result(new ArrayList<>(), new TreeMap<>());
        new TreeMap<>(topology.get_spouts()).forEach((id, spec) -> wrap(id, spec.get_spout_object(), result));
        new TreeMap<>(topology.get_bolts()).forEach((id, spec) -> wrap(id, spec.get_bolt_object(), result));
        return result;
    }

    /**
     * Looks whether metrics can name every component and stream.
     *
     * @throws SubmitException naming the first that they cannot
     */
    static void requireNames(StormTopology topology) {
        new TreeMap<>(topology.get_spouts()).forEach((id, spec) -> requireNames(id, spec.get_common()));
        new TreeMap<>(topology.get_bolts()).forEach((id, spec) -> requireNames(id, spec.get_common()));
    }

    private static void requireNames(String id, ComponentCommon common) {
        requireName("component", id);
        new TreeSet<>(common.get_streams().keySet()).forEach(stream -> requireName("stream", stream));
    }

    private static void requireName(String what, String name) {
        try {
            LineProtocol.tag(name);
        } catch (IllegalArgumentException e) {
            throw SubmitException.settings(what + " " + JSONValue.toJSONString(name) + " cannot be measured: metrics are named"
                + " without line breaks, and without a backslash before a comma, a space or = or at the end");
        }
    }

    /** Leaves every component as it is, with the same reason for all. */
    static Result leave(StormTopology topology, String reason) {
        Result result = new Result(List.of(), new TreeMap<>());
        topology.get_spouts().keySet().forEach(id -> result.unwrapped.put(id, reason));
        topology.get_bolts().keySet().forEach(id -> result.unwrapped.put(id, reason));
        return result;
    }

    /**
     * Adds to a topology's settings the metrics consumer (beside the topology's own consumers), the bucket's length, and the
     * Kryo registration without which a consumer in another worker kills Storm's sender since 2.6.1.
     */
    static void configure(Map<String, Object> conf, SubmitSettings.Metrics metrics) {
        conf.put(Series.BUCKET_S, metrics.bucketS());
        append(conf, Config.TOPOLOGY_METRICS_CONSUMER_REGISTER, Map.of(
            "class", LineProtocolConsumer.class.getName(),
            "parallelism.hint", metrics.consumers(),
            "max.retain.metric.tuples", 0, // no limit here: this queue drops silently, the consumer's own counts
            // Storm writes a topology's settings into logs: the file's name may be there, its content never
            "argument", Map.of("url", metrics.url(), "token_file", metrics.tokenFile(), "ca_file", metrics.caFile(), "spool", metrics.spool(),
                "topology", metrics.topology())));
        String emptyMap = "java.util.Collections$EmptyMap";
        if (!list(conf, Config.TOPOLOGY_KRYO_REGISTER).contains(emptyMap)) {
            append(conf, Config.TOPOLOGY_KRYO_REGISTER, emptyMap);
        }
    }

    private static void wrap(String id, ComponentObject component, Result result) {
        if (!component.is_set_serialized_java()) {
            result.unwrapped.put(id, component.is_set_shell()
                ? "runs in a process of its own (shell component)"
                : "made by the worker from a class name (Java object specification)");
            return;
        }
        Object object = Utils.javaDeserialize(component.get_serialized_java(), Object.class);
        if (object instanceof ShellBolt || object instanceof ShellSpout) {
            result.unwrapped.put(id, "runs in a process of its own (" + object.getClass().getSimpleName() + ")");
        } else if (object instanceof CheckpointSpout) {
            result.unwrapped.put(id, "Storm's own (checkpoint spout)");
        } else if (object instanceof InstrumentedBolt || object instanceof InstrumentedSpout) {
            result.unwrapped.put(id, "instrumented already");
        } else if (object instanceof IBolt bolt) {
            component.set_serialized_java(Utils.javaSerialize(new InstrumentedBolt(bolt)));
            result.wrapped.add(id);
        } else if (object instanceof ISpout spout) {
            component.set_serialized_java(Utils.javaSerialize(new InstrumentedSpout(spout)));
            result.wrapped.add(id);
        } else {
            result.unwrapped.put(id, "neither bolt nor spout: " + object.getClass().getName());
        }
    }

    private static List<Object> list(Map<String, Object> conf, String key) {
        return conf.get(key) instanceof List<?> values ? new ArrayList<>(values) : new ArrayList<>();
    }

    private static void append(Map<String, Object> conf, String key, Object value) {
        List<Object> values = list(conf, key);
        values.add(value);
        conf.put(key, values);
    }
}
