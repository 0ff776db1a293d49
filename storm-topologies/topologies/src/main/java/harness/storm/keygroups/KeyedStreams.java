package harness.storm.keygroups;

import harness.storm.instrument.Series;
import org.apache.storm.tuple.Fields;

/** The streams of key groups beside the topology's own; the wrappers do not count what comes on them as data. */
public final class KeyedStreams {
    /** From senders to all tasks of a keyed component: a {@link RoutingTable} as JSON. */
    public static final String TABLES = Series.CONTROL + "tables";

    /** From task to task of a keyed component: group, version, state, ns spent on writing the state. */
    public static final String STATES = Series.CONTROL + "states";

    private KeyedStreams() {}

    /** Fields of both. */
    public static Fields fields(String stream) {
        return stream.equals(TABLES) ? new Fields("table") : new Fields("group", "version", "state", "serialise_ns");
    }
}
