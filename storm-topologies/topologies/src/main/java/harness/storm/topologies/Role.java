package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import harness.storm.keygroups.KeyedTarget;
import harness.storm.topologies.TopologySettings.Component;
import harness.storm.topologies.TopologySettings.Sink;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.apache.storm.topology.IRichBolt;

/** What a component does, and all that follows from it: the table of roles, in Python {@code roles.py}. */
enum Role {
    @JsonProperty("spout")
    SPOUT(0, false, null, Emits.DEFAULT, null),
    @JsonProperty("json")
    JSON(1, false, null, Emits.DEFAULT, (c, outlets, sink, w) -> new JsonBolt(w, c.service(), c.outputKey())),
    @JsonProperty("filter")
    FILTER(1, false, "keep", Emits.DEFAULT, (c, outlets, sink, w) -> new FilterBolt(w, c.service(), c.keep())),
    @JsonProperty("multiplier")
    MULTIPLIER(
            1,
            false,
            "multiplier",
            Emits.DEFAULT,
            (c, outlets, sink, w) -> new MultiplierBolt(w, c.service(), c.multiplier())),
    @JsonProperty("keyed")
    KEYED(
            1,
            false,
            "groups",
            Emits.DEFAULT,
            (c, outlets, sink, w) ->
                    new KeyedBolt(w, c.service(), c.outputKey(), c.aggregate(), c.groups(), outlets.keyed())),
    @JsonProperty("window")
    WINDOW(1, true, null, Emits.DEFAULT, (c, outlets, sink, w) -> windowed(c, outlets.streams(), w)),
    @JsonProperty("join")
    JOIN(2, true, "routing", Emits.NAMED, (c, outlets, sink, w) -> windowed(c, outlets.streams(), w)),
    @JsonProperty("sender")
    SENDER(1, false, null, Emits.NOTHING, (c, outlets, sink, w) -> new SenderBolt(w, c.service(), sink));

    /** On which streams a component emits. */
    enum Emits {
        /** On Storm's default stream. */
        DEFAULT,
        /** On those that its subscribers name, in their order. */
        NAMED,
        NOTHING
    }

    /**
     * Where a component's tuples go.
     *
     * @param streams that it emits on
     * @param keyed components with key groups that subscribe to it
     */
    record Outlets(List<String> streams, List<KeyedTarget> keyed) {}

    /** Makes the bolt of a component. */
    private interface Maker {
        IRichBolt make(Component component, Outlets outlets, Sink sink, Workload workload);
    }

    private final int inputs;
    private final boolean windowed;
    private final String key;
    private final Emits emits;
    private final Maker maker;

    /**
     * @param inputs components that it subscribes to, at least; none for a spout
     * @param windowed whether it gathers tuples in a window
     * @param key of the component that it needs, and that no other role may have; null for none
     * @param emits on which streams
     * @param maker of its bolt; null for what is no bolt
     */
    Role(int inputs, boolean windowed, String key, Emits emits, Maker maker) {
        this.inputs = inputs;
        this.windowed = windowed;
        this.key = key;
        this.emits = emits;
        this.maker = maker;
    }

    /** Whether messages come in here: it has no input, and no service time of its own. */
    boolean isSpout() {
        return inputs == 0;
    }

    boolean isWindowed() {
        return windowed;
    }

    /** Whether a component with key groups may subscribe to it: it is a bolt that emits as it gets a tuple. */
    boolean isRouting() {
        return !isSpout() && !windowed && emits == Emits.DEFAULT;
    }

    /** Whether what it gets may keep its key: a share of its outputs has the key of their input. */
    boolean mayForward() {
        return this == JSON || this == KEYED;
    }

    /** How many components it subscribes to, at least. */
    int inputs() {
        return inputs;
    }

    /** Whether it needs this key. */
    boolean needs(String of) {
        return of.equals(key);
    }

    /** On which streams it emits. */
    Emits emits() {
        return emits;
    }

    IRichBolt bolt(Component component, Outlets outlets, Sink sink, Workload workload) {
        return maker.make(component, outlets, sink, workload);
    }

    /** Its name in the settings. */
    String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The windowed ones, for messages. */
    static String windowedNames() {
        return Arrays.stream(values()).filter(Role::isWindowed).map(Role::label).collect(Collectors.joining(" and "));
    }

    private static IRichBolt windowed(Component component, List<String> streams, Workload workload) {
        WindowBolt bolt = new WindowBolt(workload, component.window(), component.routing(), streams);
        return new ArrivalWindowExecutor(bolt, workload, component.service());
    }
}
