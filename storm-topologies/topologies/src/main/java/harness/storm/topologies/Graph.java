package harness.storm.topologies;

import harness.storm.topologies.TopologySettings.Component;
import harness.storm.topologies.TopologySettings.Stream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

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
            checkInputs(name, component.role());
            checkUpstream(name, component.role());
        });
    }

    /** The streams that a component subscribes to. */
    List<Stream> inputs(String component) {
        return streams.stream().filter(s -> s.target().equals(component)).toList();
    }

    private void checkStream(Stream stream) {
        for (String end : List.of(stream.source(), stream.target())) {
            Checks.that(
                    components.containsKey(end),
                    "streams: " + stream.label() + " names " + end + ", which is no component");
        }
        List<String> declared = components.get(stream.source()).role().streams();
        Checks.that(
                declared.contains(stream.stream()),
                "streams: " + stream.label() + ": " + stream.source() + " emits on " + declared + " only");
    }

    private void checkInputs(String name, Role role) {
        List<Stream> inputs = inputs(name);
        Checks.that(
                role.isSpout() == inputs.isEmpty(),
                "streams: " + name + (role.isSpout() ? " is a spout and has no input" : " has no input"));
        long sources = inputs.stream().map(Stream::source).distinct().count();
        Checks.that(
                !role.joins() || sources == 2, "streams: " + name + " joins two components, not " + sources);
    }

    private void checkUpstream(String name, Role role) {
        Set<String> upstream = upstream(name);
        Checks.that(!upstream.contains(name), "streams: " + name + " receives its own output");
        // A message and one number name a child, and a window's output has members of several messages.
        boolean plain = upstream.stream().map(c -> components.get(c).role()).allMatch(Role::keepsMember);
        Checks.that(
                plain || !role.multiplies(),
                "streams: " + name + " multiplies what was multiplied or windowed before");
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
