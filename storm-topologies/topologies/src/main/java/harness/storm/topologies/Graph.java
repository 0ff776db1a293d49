package harness.storm.topologies;

import harness.storm.topologies.TopologySettings.Component;
import harness.storm.topologies.TopologySettings.Grouping;
import harness.storm.topologies.TopologySettings.Stream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.storm.utils.Utils;

/**
 * Components and the streams between them, and whether a topology can be made of them.
 *
 * @param components by name
 * @param streams between them
 */
record Graph(Map<String, Component> components, List<Stream> streams) {
    /** A path is written component:task/component:task. */
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9_.-]*");

    /**
     * Checks names, streams and what may follow what.
     *
     * @throws IllegalArgumentException naming the component or stream
     */
    void check() {
        Checks.that(
                components.values().stream().anyMatch(c -> c.role().isSpout()),
                "components: one of them has to have role spout");
        for (String name : components.keySet()) {
            Checks.that(
                    NAME.matcher(name).matches(),
                    "components: a name has letters, digits, _ . and -, not " + name);
        }
        streams.forEach(this::checkStream);
        components.forEach((name, component) -> {
            checkInputs(name, component);
            checkUpstream(name, component.role());
        });
    }

    /** The streams that a component subscribes to. */
    List<Stream> inputs(String component) {
        return streams.stream().filter(s -> s.target().equals(component)).toList();
    }

    /** The components with key groups that subscribe to a component. */
    List<String> keyedTargets(String component) {
        return streams.stream()
                .filter(s -> s.source().equals(component))
                .map(Stream::target)
                .filter(target -> components.get(target).role() == Role.KEYED)
                .toList();
    }

    /** The streams that a component emits on. */
    List<String> emitted(String component) {
        return switch (components.get(component).role().emits()) {
            case DEFAULT -> List.of(Utils.DEFAULT_STREAM_ID);
            case NAMED -> streams.stream()
                    .filter(s -> s.source().equals(component))
                    .map(Stream::stream)
                    .distinct()
                    .toList();
            case NOTHING -> List.of();
        };
    }

    private void checkStream(Stream stream) {
        for (String end : List.of(stream.source(), stream.target())) {
            Checks.that(
                    components.containsKey(end),
                    "streams: " + stream.label() + " names " + end + ", which is no component");
        }
        List<String> declared = emitted(stream.source());
        Checks.that(
                declared.contains(stream.stream()),
                "streams: " + stream.label() + ": " + stream.source() + " emits on " + declared + " only");
        if (components.get(stream.target()).role() == Role.KEYED) {
            Checks.that(
                    stream.grouping() == Grouping.FIELDS,
                    "streams: " + stream.label() + " is by key: its grouping has to be fields");
            Checks.that(
                    components.get(stream.source()).role().isRouting(),
                    "streams: " + stream.label() + ": a keyed component hears no spout, window or join");
        }
    }

    private void checkInputs(String name, Component component) {
        Role role = component.role();
        List<Stream> inputs = inputs(name);
        Checks.that(
                role.isSpout() == inputs.isEmpty(),
                "streams: " + name + (role.isSpout() ? " is a spout and has no input" : " has no input"));
        long sources = inputs.stream().map(Stream::source).distinct().count();
        Checks.that(
                sources >= role.inputs(),
                "streams: " + name + " joins " + role.inputs() + " components or more, not " + sources);
        Checks.that(
                component.routing() != Routing.PARITY || sources == 2 && emitted(name).size() <= 2,
                "streams: " + name + " has routing parity, which is of two inputs and at most two streams");
    }

    private void checkUpstream(String name, Role role) {
        Set<String> upstream = upstream(name);
        Checks.that(!upstream.contains(name), "streams: " + name + " receives its own output");
        // A window's output has members of several messages, and what is left out is drawn for one.
        boolean gathered = upstream.stream().map(c -> components.get(c).role()).anyMatch(Role::isWindowed);
        Checks.that(
                !gathered || role != Role.FILTER, "streams: " + name + " filters what was windowed before");
    }

    private Set<String> upstream(String name) {
        Set<String> found = new HashSet<>();
        Deque<String> open = new ArrayDeque<>(List.of(name));
        while (!open.isEmpty()) {
            for (Stream stream : inputs(open.pop())) {
                if (found.add(stream.source())) {
                    open.push(stream.source());
                }
            }
        }
        return found;
    }
}
