package harness.storm.instrument;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lines waiting to be posted, and the thread that posts them.
 *
 * <p>Adding never waits. While the server is away a batch is tried again, with growing pauses, and lines gather up to
 * {@value #CAPACITY}; what comes then is dropped and counted. A batch the server refuses (4xx, except time-outs and too
 * many requests) is dropped and counted too, as it would be refused again. The count is sent as a line once the server takes
 * lines.
 */
final class Outbox {
    static final int CAPACITY = 100_000;
    static final int BATCH = 500;

    private static final Logger LOG = LoggerFactory.getLogger(Outbox.class);
    private static final long FIRST_PAUSE_MS = 100;
    private static final long LONGEST_PAUSE_MS = 5_000;

    private final URI url;
    private final String token;
    private final LongFunction<String> droppedLine;
    private final HttpClient client = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1) // no upgrade header, which small servers stumble over
        .connectTimeout(Duration.ofSeconds(5))
        .build();
    private final ArrayDeque<String> waiting = new ArrayDeque<>();
    private final Thread sender = new Thread(this::send, "harness-metrics");
    private long dropped;
    private boolean closed;

    /** @param droppedLine makes the line that reports a number of dropped lines */
    Outbox(URI url, String token, LongFunction<String> droppedLine) {
        this.url = url;
        this.token = token;
        this.droppedLine = droppedLine;
        sender.setDaemon(true);
    }

    void start() {
        sender.start();
    }

    synchronized void add(String line) {
        if (waiting.size() >= CAPACITY) {
            dropped++;
        } else {
            waiting.add(line);
            notifyAll();
        }
    }

    synchronized void drop(long lines) {
        dropped += lines;
        notifyAll();
    }

    /** Gives what is still waiting some time to leave. */
    void close(long atMostMs) {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        try {
            sender.join(atMostMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        sender.interrupt();
    }

    private void send() {
        try {
            for (Batch batch = take(); !batch.lines.isEmpty(); batch = take()) {
                deliver(batch);
            }
        } catch (InterruptedException e) {
            synchronized (this) {
                LOG.error("metrics not delivered to {}: {} lines and a batch", url, waiting.size());
            }
        }
    }

    /** Waits for lines; an empty batch means that the outbox is closed and all was sent. */
    private synchronized Batch take() throws InterruptedException {
        while (waiting.isEmpty() && dropped == 0 && !closed) {
            wait();
        }
        Batch batch = new Batch(new ArrayList<>(), dropped);
        if (dropped > 0) {
            batch.lines.add(droppedLine.apply(dropped));
        }
        while (batch.lines.size() < BATCH && !waiting.isEmpty()) {
            batch.lines.add(waiting.remove());
        }
        return batch;
    }

    private void deliver(Batch batch) throws InterruptedException {
        HttpRequest post = request(batch);
        for (long pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
            try {
                HttpResponse<String> response = client.send(post, HttpResponse.BodyHandlers.ofString());
                int status = response.statusCode();
                if (status / 100 == 2) {
                    drop(-batch.droppedBefore);
                    return;
                }
                if (status / 100 == 4 && status != 408 && status != 429) {
                    LOG.error("{} refused {} lines of metrics: {} {}", url, batch.lines.size(), status, response.body());
                    drop(batch.lines.size() - (batch.droppedBefore > 0 ? 1 : 0));
                    Thread.sleep(LONGEST_PAUSE_MS); // it will hardly like the next ones better
                    return;
                }
                LOG.warn("{} answered {}; trying again in {} ms", url, status, pauseMs);
            } catch (IOException e) {
                LOG.warn("{} cannot be reached ({}); trying again in {} ms", url, e.toString(), pauseMs);
            }
            Thread.sleep(pauseMs);
        }
    }

    private HttpRequest request(Batch batch) {
        HttpRequest.Builder request = HttpRequest.newBuilder(url)
            .timeout(Duration.ofSeconds(10))
            .header("Content-Type", "text/plain; charset=utf-8")
            .POST(HttpRequest.BodyPublishers.ofString(String.join("\n", batch.lines) + "\n"));
        if (!token.isEmpty()) {
            request.header("Authorization", "Token " + token);
        }
        return request.build();
    }

    /** Lines to post together, with the number of dropped ones that the first of them reports. */
    private record Batch(List<String> lines, long droppedBefore) {
    }
}
