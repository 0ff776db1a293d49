package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import harness.storm.topologies.TopologySettings.Component;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.apache.storm.topology.IRichBolt;

/** What a component does, and all that follows from it: the table of roles, in Python {@code roles.py}. */
enum Role {
    @JsonProperty("spout")
    SPOUT(0, false, false, null, List.of("default"), null),
    @JsonProperty("json")
    JSON(1, false, false, null, List.of("default"), (c, s, w) -> new JsonBolt(w, c.service())),
    @JsonProperty("multiplier")
    MULTIPLIER(
            1,
            false,
            true,
            "multiplier",
            List.of("default"),
            (c, s, w) -> new MultiplierBolt(w, c.service(), s.multiplier())),
    @JsonProperty("window")
    WINDOW(1, true, false, null, List.of("default"), (c, s, w) -> windowed(c, w, null)),
    @JsonProperty("join")
    JOIN(2, true, false, "routing", Routing.STREAMS, (c, s, w) -> windowed(c, w, s.routing())),
    @JsonProperty("sender")
    SENDER(1, false, false, null, List.of(), (c, s, w) -> new SenderBolt(w, c.service(), s.sink()));

    /** Makes the bolt of a component. */
    private interface Maker {
        IRichBolt make(Component component, TopologySettings settings, Workload workload);
    }

    private final int inputs;
    private final boolean windowed;
    private final boolean multiplies;
    private final String key;
    private final List<String> streams;
    private final Maker maker;

    /**
     * @param inputs components that it subscribes to: none, one or more, or just two
     * @param windowed whether it gathers tuples in a window
     * @param multiplies whether it emits several tuples for one
     * @param key of the settings that it needs; null for none
     * @param streams that it emits on
     * @param maker of its bolt; null for what is no bolt
     */
    Role(int inputs, boolean windowed, boolean multiplies, String key, List<String> streams, Maker maker) {
        this.inputs = inputs;
        this.windowed = windowed;
        this.multiplies = multiplies;
        this.key = key;
        this.streams = streams;
        this.maker = maker;
    }

    /** Whether messages come in here: it has no input, and no service time of its own. */
    boolean isSpout() {
        return inputs == 0;
    }

    boolean isWindowed() {
        return windowed;
    }

    /** Whether it joins what just two components emit. */
    boolean joins() {
        return inputs == 2;
    }

    /** Whether it emits several tuples for one. */
    boolean multiplies() {
        return multiplies;
    }

    /** Whether what it emits is of the one message that came in. */
    boolean keepsMember() {
        return !windowed && !multiplies;
    }

    /** The key of the settings that it needs; null for none. */
    String key() {
        return key;
    }

    /** The streams that it emits on. */
    List<String> streams() {
        return streams;
    }

    IRichBolt bolt(Component component, TopologySettings settings, Workload workload) {
        return maker.make(component, settings, workload);
    }

    /** Its name in the settings. */
    String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The windowed ones, for messages. */
    static String windowedNames() {
        return Arrays.stream(values()).filter(Role::isWindowed).map(Role::label).collect(Collectors.joining(" and "));
    }

    private static IRichBolt windowed(Component component, Workload workload, Routing routing) {
        WindowBolt bolt = new WindowBolt(workload, component.window(), routing);
        return new ArrivalWindowExecutor(bolt, workload, component.service());
    }
}
