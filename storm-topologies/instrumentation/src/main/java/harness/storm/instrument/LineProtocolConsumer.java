package harness.storm.instrument;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Collection;
import java.util.Map;
import javax.net.ssl.SSLContext;
import org.apache.storm.metric.api.IMetricsConsumer;
import org.apache.storm.task.IErrorReporter;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends what {@link Series} published as InfluxDB line protocol over HTTP; other metrics are not looked at.
 *
 * <p>Registered with a map as its argument: {@code url} (to post to), {@code token_file} (what holds the token; empty for
 * none), {@code ca_file} (certificate of who vouches for the server; empty for plain HTTP), {@code spool} (folder for batches that were not delivered yet; empty for none), {@code topology} (the value of that
 * tag). The tags component, task, host and port are those of the task that reported, host as its worker
 * knows itself. Lines that could not be delivered are counted in a line of their own:
 * {@code consumer,... dropped=<lines since the last one>i}.
 *
 * <p>Storm's bolt around a consumer drops silently when more than {@code max.retain.metric.tuples} wait (100 by default,
 * less than some topologies have tasks, which all report at once). {@code Submit} registers it with 0, no limit, as
 * {@link #handleDataPoints} never waits: lines wait in a bounded {@link Outbox}.
 */
public final class LineProtocolConsumer implements IMetricsConsumer {
    private static final Logger LOG = LoggerFactory.getLogger(LineProtocolConsumer.class);

    /** Begins the name of a token that travels in the topology's jar. */
    private static final String IN_JAR = "classpath:";

    /** Within what a supervisor gives a worker to end. */
    private static final long CLOSING_MS = 2_000;

    private Outbox outbox;
    private String topology;

    @Override
    public void prepare(Map<String, Object> conf, Object argument, TopologyContext context, IErrorReporter errors) {
        Map<?, ?> settings = (Map<?, ?>) argument;
        topology = text(settings, "topology");
        String host;
        try {
            host = Utils.hostname();
        } catch (java.net.UnknownHostException e) {
            throw new IllegalStateException("the worker does not know its host's name", e);
        }
        String tags = tags(context.getThisComponentId(), context.getThisTaskId(), host, context.getThisWorkerPort());
        outbox = new Outbox(URI.create(text(settings, "url")), token(text(settings, "token_file")),
            trusting(text(settings, "ca_file")), spool(text(settings, "spool"), context.getThisTaskId()),
            dropped -> "consumer," + tags + " dropped=" + dropped + "i " + System.currentTimeMillis() + "000000");
        outbox.start();
    }

    @Override
    public void handleDataPoints(TaskInfo task, Collection<DataPoint> points) {
        String tags = null;
        for (DataPoint point : points) {
            if (!point.name.startsWith(Series.PREFIX)) {
                continue;
            }
            if (!(point.value instanceof Map<?, ?> series) || !(series.get(Series.END_MS) instanceof Long endMs)) {
                LOG.error("metric {} of {} is not made by Series: {}", point.name, task.srcComponentId, point.value);
                outbox.drop(1);
                continue;
            }
            if (tags == null) {
                tags = tags(task.srcComponentId, task.srcTaskId, task.srcWorkerHost, task.srcWorkerPort);
            }
            for (Map.Entry<?, ?> entry : series.entrySet()) {
                if (!entry.getKey().equals(Series.END_MS)) {
                    outbox.add(entry.getKey() + "," + tags + " " + entry.getValue() + " " + endMs + "000000");
                }
            }
        }
    }

    @Override
    public void cleanup() {
        outbox.close(CLOSING_MS);
    }

    private String tags(String component, int task, String host, int port) {
        return "topology=" + LineProtocol.tag(topology) + ",component=" + LineProtocol.tag(component)
            + ",task=" + task + ",host=" + LineProtocol.tag(host) + ",port=" + port;
    }

    private static String token(String file) {
        try {
            return file.isEmpty() ? "" : file.startsWith(IN_JAR) ? carried(file) : Files.readString(Path.of(file)).strip();
        } catch (IOException e) {
            throw new IllegalStateException("metrics consumer cannot read its token from " + file + ": " + e, e);
        }
    }

    private static SSLContext trusting(String file) {
        try {
            return file.isEmpty() ? null : Authority.trusted(Path.of(file));
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalStateException("metrics consumer cannot read the certificate in " + file + ": " + e, e);
        }
    }

    private static String carried(String file) throws IOException {
        try (InputStream entry = LineProtocolConsumer.class.getResourceAsStream("/" + file.substring(IN_JAR.length()))) {
            if (entry == null) {
                throw new IOException("the topology's jar has no such entry");
            }
            return new String(entry.readAllBytes(), StandardCharsets.UTF_8).strip();
        }
    }

    private static Spool spool(String folder, int task) {
        try {
            String owner = task + "-" + ProcessHandle.current().pid();
            return folder.isEmpty() ? null : new Spool(Path.of(folder), owner, Spool.MOST_BYTES);
        } catch (IOException e) {
            throw new IllegalStateException("metrics consumer cannot use its folder " + folder + ": " + e, e);
        }
    }

    private static String text(Map<?, ?> settings, String key) {
        if (settings.get(key) instanceof String value) {
            return value;
        }
        throw new IllegalArgumentException("metrics consumer's argument has no text '" + key + "'");
    }
}
