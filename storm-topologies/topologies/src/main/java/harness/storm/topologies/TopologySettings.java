package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Everything that a topology is made from. There are no defaults: the JSON has every key.
 *
 * @param name of the topology, for Storm
 * @param components by name, in the order of their task identifiers
 * @param streams between them
 * @param keys for fields grouping
 * @param seed of the workload
 * @param spout where messages come from
 * @param sink where outputs go
 * @param storm Storm's own settings, passed on as they are
 */
record TopologySettings(
        String name,
        Map<String, Component> components,
        List<Stream> streams,
        Keys keys,
        long seed,
        Spout spout,
        Sink sink,
        Map<String, Object> storm) {

    /** How a stream's tuples are spread over the target's tasks; Storm's names. */
    enum Grouping {
        @JsonProperty("shuffle")
        SHUFFLE,
        @JsonProperty("fields")
        FIELDS,
        @JsonProperty("local-or-shuffle")
        LOCAL_OR_SHUFFLE,
        @JsonProperty("all")
        ALL,
        @JsonProperty("global")
        GLOBAL,
        @JsonProperty("none")
        NONE,
        @JsonProperty("partial-key")
        PARTIAL_KEY
    }

    /** What the spout promises; see {@link MessageSpout}. */
    enum Guarantee {
        @JsonProperty("no-guarantee")
        NO_GUARANTEE,
        @JsonProperty("at-least-once")
        AT_LEAST_ONCE,
        @JsonProperty("at-most-once")
        AT_MOST_ONCE
    }

    /**
     * A component.
     *
     * @param role what it does
     * @param executors threads it starts with
     * @param tasks fixed for the topology's life
     * @param service time spent on each tuple received; null for none
     * @param window of windowed roles; null for the others
     * @param topic a spout's input topic, or that of a keyed component's routing tables; null for the others
     * @param multiplier number of children; null where nothing is multiplied
     * @param routing of a join's outputs; null for the others
     * @param keep share of the tuples that a filter passes on; null for the others
     * @param outputBytes payload of all that it emits; null where it passes on what it gets
     * @param forwardedShare share of the tuples whose key a json or keyed component passes on, the others get the
     *     first of all; null where keys are drawn anew, and for other roles
     * @param groups key groups of a keyed component; null for the others
     * @param key fields of the row that a json or keyed component's outputs have as their key; null where it is drawn or forwarded
     * @param aggregate what a keyed component makes of rows; null where it counts tuples, and for other roles
     */
    record Component(
            Role role,
            int executors,
            int tasks,
            ServiceTime service,
            Window window,
            String topic,
            Children multiplier,
            Routing routing,
            Double keep,
            Integer outputBytes,
            Double forwardedShare,
            Integer groups,
            List<String> key,
            Aggregate aggregate) {
        Component {
            Checks.present("role", role);
            Checks.that(executors >= 1, "executors has to be at least 1, not " + executors);
            Checks.that(tasks >= executors, "tasks has to be at least executors, not " + tasks);
            Checks.that(
                    role.isWindowed() == (window != null),
                    "window is for roles " + Role.windowedNames() + ", and required there");
            Checks.that(!role.isSpout() || service == null, "a spout has no service, it has to be null");
            checkNeeded(role, "topic", role.isSpout() || role == Role.KEYED, topic);
            checkNeeded(role, "multiplier", role.needs("multiplier"), multiplier);
            checkNeeded(role, "routing", role.needs("routing"), routing);
            checkNeeded(role, "keep", role.needs("keep"), keep);
            checkNeeded(role, "groups", role.needs("groups"), groups);
            Checks.that(groups == null || groups >= tasks, "groups has to be at least tasks, not " + groups);
            Checks.that(topic == null || !topic.isBlank(), "topic must not be empty");
            Checks.that(keep == null || keep > 0 && keep <= 1, "keep has to be above 0 and at most 1, not " + keep);
            Checks.that(
                    forwardedShare == null || role.mayForward() && forwardedShare >= 0 && forwardedShare <= 1,
                    "forwarded_share is for roles json and keyed, from 0 to 1");
            Checks.that(
                    key == null || role.mayForward() && forwardedShare == null && !key.isEmpty(),
                    "key is for roles json and keyed, without forwarded_share, and has one field or more");
            Checks.that(aggregate == null || role == Role.KEYED, "aggregate is for role keyed");
            Checks.that(outputBytes == null || outputBytes >= 0, "output_bytes has to be 0 or more");
        }

        /** How its outputs get their key. */
        OutputKey outputKey() {
            return new OutputKey(forwardedShare, key);
        }

        private static void checkNeeded(Role role, String key, boolean needed, Object given) {
            Checks.that(
                    needed == (given != null),
                    needed ? key + " must not be null" : "a " + role.label() + " has no " + key);
        }
    }

    /** A target's subscription to a stream of a source. */
    record Stream(String source, String stream, String target, Grouping grouping) {
        Stream {
            Checks.notBlank("source", source);
            Checks.notBlank("stream", stream);
            Checks.notBlank("target", target);
            Checks.present("grouping", grouping);
        }

        String label() {
            return source + "->" + target + ":" + stream;
        }
    }

    /**
     * How spouts read their topics.
     *
     * @param bootstrap Kafka's address
     * @param group consumer group
     * @param pollTimeoutMs how long a poll may wait for records; see {@link MessageSpout}
     * @param commitPeriodMs between two commits of offsets
     * @param guarantee what happens to failed tuples and at a restart
     * @param consumer further settings of the Kafka consumer, e.g. max.poll.records
     */
    record Spout(
            String bootstrap,
            String group,
            long pollTimeoutMs,
            long commitPeriodMs,
            Guarantee guarantee,
            Map<String, Object> consumer) {
        private static final Set<String> OURS =
                Set.of("bootstrap.servers", "group.id", "enable.auto.commit", "key.deserializer", "value.deserializer");

        Spout {
            Checks.notBlank("bootstrap", bootstrap);
            Checks.notBlank("group", group);
            Checks.that(pollTimeoutMs >= 0, "poll_timeout_ms has to be 0 or more, not " + pollTimeoutMs);
            Checks.that(commitPeriodMs >= 1, "commit_period_ms has to be at least 1, not " + commitPeriodMs);
            Checks.present("guarantee", guarantee);
            consumer = clientSettings("consumer", consumer, OURS);
        }
    }

    /**
     * The output.
     *
     * @param bootstrap Kafka's address
     * @param topic the output topic
     * @param producer further settings of the Kafka producer, e.g. linger.ms
     */
    record Sink(String bootstrap, String topic, Map<String, Object> producer) implements Serializable {
        private static final Set<String> OURS = Set.of("bootstrap.servers", "key.serializer", "value.serializer");
        private static final Set<Object> CODECS = Set.of("none", "gzip");

        Sink {
            Checks.notBlank("bootstrap", bootstrap);
            Checks.notBlank("topic", topic);
            producer = clientSettings("producer", producer, OURS);
            Object codec = producer.getOrDefault("compression.type", "none");
            Checks.that(
                    CODECS.contains(codec),
                    "producer: compression.type " + codec + " is not in the jar, only none and gzip are");
        }
    }

    TopologySettings {
        Checks.notBlank("name", name);
        Checks.present("components", components);
        Checks.allPresent("streams", streams);
        Checks.present("keys", keys);
        Checks.present("spout", spout);
        Checks.present("sink", sink);
        Checks.present("storm", storm);
        components = Collections.unmodifiableMap(new LinkedHashMap<>(components));
        streams = List.copyOf(streams);
        storm = Collections.unmodifiableMap(new LinkedHashMap<>(storm));
        components.forEach((component, given) -> Checks.present("components." + component, given));
        new Graph(components, streams).check();
    }

    private static Map<String, Object> clientSettings(String key, Map<String, Object> given, Set<String> ours) {
        Checks.present(key, given);
        for (Map.Entry<String, Object> entry : given.entrySet()) {
            Checks.that(!ours.contains(entry.getKey()), key + ": " + entry.getKey() + " is set by the topology itself");
            Checks.present(key + ": " + entry.getKey(), entry.getValue());
        }
        return Collections.unmodifiableMap(new LinkedHashMap<>(given));
    }
}
