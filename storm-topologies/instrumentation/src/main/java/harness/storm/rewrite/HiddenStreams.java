package harness.storm.rewrite;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;

/**
 * The streams that a rewritten topology has beside its own, by their names.
 *
 * <p>Of every stream that may be batched there are two. {@code harness.batch/<stream>} carries {@link Batch}es directly to
 * tasks. {@code harness.route/<stream>} carries nothing: its groupings are the stream's own, run by Storm itself, and what
 * they choose is noted and not sent to ({@link Routed}).
 *
 * <p>Of every stream of a helped component, each of its helpers has {@code harness.help/<component>/<stream>}, with the same
 * fields, subscribers and groupings. It is a stream like any other, and may be batched.
 *
 * <p>Bolts whose queues are watched have {@code harness.signal}, all of them to all of them.
 */
final class HiddenStreams {
    private static final String BATCH = "harness.batch/";
    private static final String ROUTE = "harness.route/";
    private static final String HELP = "harness.help/";
    /** Carries {@link Signal}s from watched bolts to watched bolts. */
    static final String SIGNAL = "harness.signal";

    private HiddenStreams() {
    }

    static String batch(String stream) {
        return BATCH + stream;
    }

    static String route(String stream) {
        return ROUTE + stream;
    }

    static boolean isBatch(String stream) {
        return stream.startsWith(BATCH);
    }

    /** The stream that a batch is of. */
    static String batched(String hidden) {
        return hidden.substring(BATCH.length());
    }

    static String help(String component, String stream) {
        return HELP + component + "/" + stream;
    }

    /** Whether it only carries what belongs to another stream. */
    static boolean isCarrier(String stream) {
        return stream.startsWith(BATCH) || stream.startsWith(ROUTE) || stream.equals(SIGNAL);
    }

    static boolean isHidden(String stream) {
        return isCarrier(stream) || stream.startsWith(HELP);
    }

    /** The topology as its author knows it, without hidden streams. What components are serialised to is shared. */
    static StormTopology without(StormTopology topology) {
        Map<String, SpoutSpec> spouts = new HashMap<>();
        topology.get_spouts().forEach((id, spout) ->
            spouts.put(id, new SpoutSpec(spout.get_spout_object(), plain(spout.get_common()))));
        Map<String, Bolt> bolts = new HashMap<>();
        topology.get_bolts().forEach((id, bolt) ->
            bolts.put(id, new Bolt(bolt.get_bolt_object(), plain(bolt.get_common()))));
        StormTopology plain = new StormTopology(spouts, bolts, topology.get_state_spouts());
        for (StormTopology._Fields field : StormTopology._Fields.values()) {
            if (topology.isSet(field) && !plain.isSet(field)) {
                plain.setFieldValue(field, topology.getFieldValue(field));
            }
        }
        return plain;
    }

    private static ComponentCommon plain(ComponentCommon common) {
        ComponentCommon plain = new ComponentCommon(common);
        plain.get_streams().keySet().removeIf(HiddenStreams::isHidden);
        plain.get_inputs().keySet().removeIf(id -> isHidden(id.get_streamId()));
        return plain;
    }
}
