package harness.storm.submit;

import harness.storm.rewrite.BatchSize;
import harness.storm.rewrite.HelpSettings;
import harness.storm.rewrite.Watermarks;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;

/**
 * What to submit where, as read from a JSON file. Every key must be there and no other may: nothing has a default.
 *
 * @param answer file that gets what became of it
 * @param nimbus where Nimbus listens; null for none: then the topology is only described
 * @param jar the jar to upload
 * @param main class in it (or in the class path) whose {@code main} submits the topology
 * @param args its arguments
 * @param patienceS how long it may take to submit, in seconds
 * @param instrument whether to wrap bolts and spouts and register the metrics consumer
 * @param metrics where measurements go
 * @param components executors and tasks of components that shall not have those that main gives them
 * @param batching when batches leave, by component or {@code component:stream}; empty for a topology without batches
 * @param helping how components are helped by those directly before them; empty for a topology without helping
 * @param backpressure fills of queues between which spouts pause; null for never
 * @param storm topology settings that take the place of the topology's own
 */
record SubmitSettings(
        Path answer,
        Address nimbus,
        Path jar,
        String main,
        List<String> args,
        int patienceS,
        boolean instrument,
        Metrics metrics,
        Map<String, Size> components,
        Map<String, BatchSize> batching,
        Map<String, HelpSettings> helping,
        Watermarks backpressure,
        Map<String, Object> storm) {

    /** Where a server listens. */
    record Address(String host, int port) {
        @Override
        public String toString() {
            return host + ":" + port;
        }
    }

    /** Executors to begin with, and tasks. */
    record Size(int executors, int tasks) {
    }

    /**
     * Where measurements go.
     *
     * @param url posted to, as InfluxDB's write endpoint
     * @param tokenFile file that holds the token, on every host that has workers; empty for no token
     * @param caFile file that holds the certificate of who vouches for the server, there too; empty for plain HTTP
     * @param spool folder for lines that could not be posted yet, on every such host; empty for none
     * @param topology value of the lines' tag of that name
     * @param bucketS length of a bucket in seconds
     * @param consumers executors of the metrics consumer
     */
    record Metrics(String url, String tokenFile, String caFile, String spool, String topology, int bucketS, int consumers) {
    }

    /** @throws SubmitException naming the file, and the key */
    static SubmitSettings read(Path file) {
        String text;
        try {
            text = Files.readString(file);
        } catch (IOException e) {
            throw SubmitException.settings("cannot read the settings " + file + ": " + e.getMessage());
        }
        Object json;
        try {
            json = JSONValue.parseWithException(text);
        } catch (ParseException e) {
            throw SubmitException.settings(file + " is not JSON: " + e.getMessage().replace('\n', ' '));
        }
        if (!(json instanceof Map<?, ?> map)) {
            throw SubmitException.settings(file + " is not a JSON object");
        }
        Keys all = new Keys(file, "", map);
        Keys metrics = all.object("metrics");
        SubmitSettings settings = new SubmitSettings(
            Path.of(all.text("answer")), address(all),
            Path.of(all.text("jar")), all.text("main"), all.texts("args"), all.positive("patience_s"), all.truth("instrument"),
            new Metrics(metrics.text("url"), metrics.text("token_file"), metrics.text("ca_file"), metrics.text("spool"),
                metrics.text("topology"), metrics.positive("bucket_s"), metrics.positive("consumers")),
            sizes(all.object("components")),
            batching(all.object("batching")),
            helping(all.object("helping")),
            all.isNull("backpressure") ? null : marks(all.object("backpressure"), "high_pct", "low_pct"),
            all.object("storm").toMap());
        metrics.allowOnly("url", "token_file", "ca_file", "spool", "topology", "bucket_s", "consumers");
        all.allowOnly("answer", "nimbus", "jar", "main", "args", "patience_s", "instrument", "metrics", "components", "batching",
            "helping", "backpressure", "storm");
        return settings;
    }

    private static Address address(Keys all) {
        if (all.isNull("nimbus")) {
            return null;
        }
        Keys nimbus = all.object("nimbus");
        Address address = new Address(nimbus.text("host"), nimbus.positive("port"));
        nimbus.allowOnly("host", "port");
        return address;
    }

    private static Map<String, Size> sizes(Keys components) {
        Map<String, Size> sizes = new TreeMap<>();
        for (String name : components.toMap().keySet()) {
            Keys size = components.object(name);
            sizes.put(name, new Size(size.positive("executors"), size.positive("tasks")));
            size.allowOnly("executors", "tasks");
        }
        return sizes;
    }

    private static Map<String, BatchSize> batching(Keys keys) {
        Map<String, BatchSize> batching = new TreeMap<>();
        for (String name : keys.toMap().keySet()) {
            Keys size = keys.object(name);
            batching.put(name, new BatchSize(size.positive("size"), size.positive("flush_ms")));
            size.allowOnly("size", "flush_ms");
        }
        return batching;
    }

    private static Map<String, HelpSettings> helping(Keys keys) {
        Map<String, HelpSettings> helping = new TreeMap<>();
        for (String name : keys.toMap().keySet()) {
            Keys help = keys.object(name);
            try {
                helping.put(name, new HelpSettings(help.number("delta"), marks(help, "delta", "high_pct", "low_pct")));
            } catch (IllegalArgumentException e) {
                throw SubmitException.settings(help.file() + ": " + help.prefix() + e.getMessage());
            }
        }
        return helping;
    }

    private static Watermarks marks(Keys keys, String... known) {
        try {
            Watermarks marks = new Watermarks(keys.number("high_pct"), keys.number("low_pct"));
            keys.allowOnly(known);
            return marks;
        } catch (IllegalArgumentException e) {
            throw SubmitException.settings(keys.file() + ": " + keys.prefix() + e.getMessage());
        }
    }

    /** An object in the file, which names its keys in errors as {@code metrics.url}. */
    private record Keys(Path file, String prefix, Map<?, ?> map) {

        Keys object(String key) {
            return new Keys(file, prefix + key + ".", get(key, Map.class, "an object"));
        }

        String text(String key) {
            return get(key, String.class, "a text");
        }

        boolean isNull(String key) {
            return map.containsKey(key) && map.get(key) == null;
        }

        double number(String key) {
            return get(key, Number.class, "a number").doubleValue();
        }

        boolean truth(String key) {
            return get(key, Boolean.class, "true or false");
        }

        int positive(String key) {
            Number number = get(key, Number.class, "a whole number above 0");
            if (number.doubleValue() != number.intValue() || number.intValue() < 1) {
                throw wrong(key, "a whole number above 0");
            }
            return number.intValue();
        }

        List<String> texts(String key) {
            List<?> list = get(key, List.class, "a list of texts");
            return list.stream().map(item -> {
                if (item instanceof String text) {
                    return text;
                }
                throw wrong(key, "a list of texts");
            }).toList();
        }

        @SuppressWarnings("unchecked") // the keys of a JSON object are strings
        Map<String, Object> toMap() {
            return (Map<String, Object>) map;
        }

        void allowOnly(String... keys) {
            TreeSet<String> unknown = new TreeSet<>(toMap().keySet());
            unknown.removeAll(List.of(keys));
            if (!unknown.isEmpty()) {
                throw SubmitException.settings(file + ": unknown key " + prefix + unknown.first());
            }
        }

        private <T> T get(String key, Class<T> type, String wanted) {
            if (!map.containsKey(key)) {
                throw SubmitException.settings(file + ": missing key " + prefix + key);
            }
            if (!type.isInstance(map.get(key))) {
                throw wrong(key, wanted);
            }
            return type.cast(map.get(key));
        }

        private SubmitException wrong(String key, String wanted) {
            return SubmitException.settings(file + ": " + prefix + key + " must be " + wanted
                + ", not " + JSONValue.toJSONString(map.get(key)));
        }
    }
}
