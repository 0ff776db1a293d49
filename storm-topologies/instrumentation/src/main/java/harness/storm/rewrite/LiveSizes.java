package harness.storm.rewrite;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import javax.security.auth.Subject;
import org.apache.storm.Config;
import org.apache.storm.security.auth.IAutoCredentials;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Batch sizes that a running topology is told: how the outside speaks to the layer.
 *
 * <p>Storm has one way to hand something to all workers of a running topology, and to those that start later: credentials,
 * which Nimbus takes ({@code uploadNewCredentials}) and each worker looks for every {@code task.credentials.poll.secs}.
 * Sizes are one of them, {@link #KEY}. A worker tells its credential plug-ins on a thread of its own, so sizes do not wait
 * behind the tuples of a busy executor. Tasks take them over when they emit or report next ({@link Outgoing}).
 *
 * <p>The value is JSON, {@code {component: {stream: {"size": N, "flush_ms": N}}}}. What it leaves out is as submitted.
 */
public final class LiveSizes implements IAutoCredentials {
    /** The credential that holds the sizes. */
    public static final String KEY = "harness.batching";

    private static final Logger LOG = LoggerFactory.getLogger(LiveSizes.class);
    private static final Map<String, AtomicReference<Map<String, Map<String, BatchSize>>>> OF_THIS_PROCESS =
        new ConcurrentHashMap<>();

    private String topology;

    /**
     * The sizes that a topology's tasks in this process have been told, by component and stream. They are replaced as a whole,
     * so who has them can tell by identity whether they are still so.
     */
    static AtomicReference<Map<String, Map<String, BatchSize>>> of(String topology) {
        return OF_THIS_PROCESS.computeIfAbsent(topology, id -> new AtomicReference<>(Map.of()));
    }

    /** What user code may see of a topology's credentials; null for null. */
    static Map<String, String> without(Map<String, String> credentials) {
        if (credentials == null || !credentials.containsKey(KEY)) {
            return credentials;
        }
        Map<String, String> others = new HashMap<>(credentials);
        others.remove(KEY);
        return others;
    }

    /**
     * Reads the credential's value.
     *
     * @throws IllegalArgumentException naming what is wrong
     */
    static Map<String, Map<String, BatchSize>> read(String json) {
        try {
            Map<String, Map<String, BatchSize>> all = new TreeMap<>();
            object(JSONValue.parseWithException(json)).forEach((component, streams) -> {
                Map<String, BatchSize> own = new TreeMap<>();
                object(streams).forEach((stream, size) ->
                    own.put(stream, new BatchSize(number(size, "size"), number(size, "flush_ms"))));
                all.put(component, Map.copyOf(own));
            });
            return Map.copyOf(all);
        } catch (ParseException e) {
            throw new IllegalArgumentException("not JSON: " + e.getMessage(), e);
        }
    }

    @SuppressWarnings("unchecked") // the keys of a JSON object are strings
    private static Map<String, Object> object(Object json) {
        if (json instanceof Map<?, ?> map) {
            return (Map<String, Object>) map;
        }
        throw new IllegalArgumentException("not an object: " + JSONValue.toJSONString(json));
    }

    private static int number(Object size, String key) {
        if (object(size).get(key) instanceof Integer number) {
            return number;
        }
        throw new IllegalArgumentException(key + " is not a whole number in " + JSONValue.toJSONString(size));
    }

    @Override
    public void prepare(Map<String, Object> conf) {
        topology = (String) conf.get(Config.STORM_ID);
    }

    /** Nothing at submission: a topology begins with the sizes that it was submitted with. */
    @Override
    public void populateCredentials(Map<String, String> credentials) {
    }

    @Override
    public void populateSubject(Subject subject, Map<String, String> credentials) {
        updateSubject(subject, credentials);
    }

    /** What cannot be read is logged and changes nothing: an exception here would end the worker. */
    @Override
    public void updateSubject(Subject subject, Map<String, String> credentials) {
        String told = credentials == null ? null : credentials.get(KEY);
        if (told == null || topology == null) {
            return;
        }
        try {
            of(topology).set(read(told));
            LOG.info("batch sizes of {} are to be {}", topology, told);
        } catch (IllegalArgumentException e) {
            LOG.error("credential {} of {} cannot be read, batch sizes stay: {}", KEY, topology, e.getMessage());
        }
    }
}
