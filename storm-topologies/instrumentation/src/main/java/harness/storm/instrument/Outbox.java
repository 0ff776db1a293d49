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
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;
import javax.net.ssl.SSLContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lines waiting to be posted, and the thread that posts them.
 *
 * <p>Adding never waits. While the server is away a batch is tried again, with growing pauses, and lines gather up to
 * {@value #CAPACITY}; what comes then is dropped and counted. A batch the server refuses (4xx, but for the token, the bucket,
 * time-outs and too many requests, which can be mended) is dropped and counted too, as it would be refused again. The count is
 * sent as a line once the server takes lines.
 *
 * <p>With a {@link Spool}, every batch is on disk before it is posted: memory stays small while the server is away, a worker
 * that is killed leaves its batches to the next one, and the lines gather in memory only once the spool is full.
 */
final class Outbox {
    static final int CAPACITY = 100_000;
    static final int BATCH = 500;

    private static final Logger LOG = LoggerFactory.getLogger(Outbox.class);
    private static final long FIRST_PAUSE_MS = 100;
    private static final long LONGEST_PAUSE_MS = 5_000;
    /** How long a batch for the spool may gather: a file for every line would be many. */
    private static final long GATHER_MS = 100;
    private static final long KEEP_MS = 500;

    private final URI url;
    private final String token;
    private final Spool spool;
    private final LongFunction<String> droppedLine;
    private final HttpClient client;
    private final ArrayDeque<String> waiting = new ArrayDeque<>();
    private final Thread sender = new Thread(this::send, "harness-metrics");
    private long dropped;
    private boolean closed;

    /**
     * An outbox, not started.
     *
     * @param token empty for none
     * @param tls how the server's certificate is known; null for plain HTTP
     * @param spool null for none
     * @param droppedLine makes the line that reports a number of dropped lines
     */
    Outbox(URI url, String token, SSLContext tls, Spool spool, LongFunction<String> droppedLine) {
        this.url = url;
        this.token = token;
        HttpClient.Builder builder = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1) // no upgrade header, which small servers stumble over
            .connectTimeout(Duration.ofSeconds(5));
        client = (tls == null ? builder : builder.sslContext(tls)).build();
        this.spool = spool;
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

    /** Gives what is still waiting some time to leave; what does not stays on disk where there is a spool. */
    void close(long atMostMs) {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        try {
            sender.join(atMostMs);
            sender.interrupt();
            sender.join(KEEP_MS);
        } catch (InterruptedException e) {
            sender.interrupt();
            Thread.currentThread().interrupt();
        }
    }

    private void send() {
        try {
            if (spool == null) {
                for (Batch batch = take(0, 0); !batch.lines.isEmpty(); batch = take(0, 0)) {
                    deliver(batch);
                }
            } else {
                sendThroughSpool();
            }
        } catch (InterruptedException e) {
            keepWaiting();
        }
    }

    private void sendThroughSpool() throws InterruptedException {
        long pauseMs = FIRST_PAUSE_MS;
        long notBeforeNs = System.nanoTime();
        while (true) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(notBeforeNs - System.nanoTime());
            // nothing on disk: wait for lines; something there: only as long as the server is left alone
            Batch batch = !spool.isEmpty() && leftMs <= 0 ? takeNow() : take(spool.isEmpty() ? 0 : leftMs, GATHER_MS);
            if (!batch.lines.isEmpty()) {
                if (spool.add(batch.lines)) {
                    drop(-batch.droppedBefore);
                } else {
                    deliver(batch); // from memory, where lines gather meanwhile
                }
            }
            if (spool.isEmpty()) {
                if (batch.lines.isEmpty() && isClosed()) {
                    return;
                }
            } else if (System.nanoTime() - notBeforeNs >= 0) {
                if (postOldest()) {
                    pauseMs = FIRST_PAUSE_MS;
                } else {
                    notBeforeNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMs);
                    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
                }
            } else if (isClosed()) {
                return; // the server is away: the next consumer finds what is on disk
            }
        }
    }

    /** Posts the spool's oldest batch; false when the server is away. */
    private boolean postOldest() throws InterruptedException {
        String name = spool.oldest();
        String lines;
        try {
            lines = spool.read(name);
        } catch (IOException e) {
            LOG.error("metrics in {} cannot be read: {}", name, e.toString());
            drop(1);
            spool.remove(name);
            return true;
        }
        Answer answer = lines.isEmpty() ? Answer.TAKEN : post(lines);
        if (answer == Answer.AWAY) {
            return false;
        }
        spool.remove(name);
        if (answer == Answer.REFUSED) {
            drop(lines.lines().count());
            Thread.sleep(LONGEST_PAUSE_MS);
        }
        return true;
    }

    /** Puts what is in memory on disk, when there is no more time to post it. */
    private void keepWaiting() {
        if (spool == null) {
            synchronized (this) {
                LOG.error("metrics not delivered to {}: {} lines and a batch", url, waiting.size());
            }
            return;
        }
        for (Batch batch = takeNow(); !batch.lines.isEmpty(); batch = takeNow()) {
            if (!spool.add(batch.lines)) {
                LOG.error("metrics not delivered to {}: {} lines and more", url, batch.lines.size());
                return;
            }
            drop(-batch.droppedBefore);
        }
    }

    private synchronized boolean isClosed() {
        return closed && waiting.isEmpty();
    }

    private synchronized Batch takeNow() {
        return removeBatch();
    }

    /**
     * Waits for lines; an empty batch means that time is up, or that the outbox is closed and all was taken.
     *
     * @param atMostMs 0 for ever
     * @param gatherMs how long the batch may grow once there is a line
     */
    private synchronized Batch take(long atMostMs, long gatherMs) throws InterruptedException {
        long giveUpNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMs);
        while (waiting.isEmpty() && dropped == 0 && !closed) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(giveUpNs - System.nanoTime());
            if (atMostMs > 0 && leftMs <= 0) {
                break;
            }
            wait(atMostMs > 0 ? leftMs : 0);
        }
        if (!waiting.isEmpty()) {
            long fullNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(gatherMs);
            for (long leftMs = gatherMs; leftMs > 0 && waiting.size() < BATCH && !closed;
                    leftMs = TimeUnit.NANOSECONDS.toMillis(fullNs - System.nanoTime())) {
                wait(leftMs);
            }
        }
        return removeBatch();
    }

    private Batch removeBatch() {
        Batch batch = new Batch(new ArrayList<>(), dropped);
        if (dropped > 0) {
            batch.lines.add(droppedLine.apply(dropped));
        }
        while (batch.lines.size() < BATCH && !waiting.isEmpty()) {
            batch.lines.add(waiting.remove());
        }
        return batch;
    }

    /** Posts a batch from memory until the server has taken or refused it. */
    private void deliver(Batch batch) throws InterruptedException {
        String lines = String.join("\n", batch.lines) + "\n";
        for (long pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
            switch (post(lines)) {
                case TAKEN -> {
                    drop(-batch.droppedBefore);
                    return;
                }
                case REFUSED -> {
                    drop(batch.lines.size() - (batch.droppedBefore > 0 ? 1 : 0));
                    Thread.sleep(LONGEST_PAUSE_MS); // it will hardly like the next ones better
                    return;
                }
                case AWAY -> Thread.sleep(pauseMs);
            }
        }
    }

    private Answer post(String lines) throws InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(url)
            .timeout(Duration.ofSeconds(10))
            .header("Content-Type", "text/plain; charset=utf-8")
            .POST(HttpRequest.BodyPublishers.ofString(lines));
        if (!token.isEmpty()) {
            request.header("Authorization", "Token " + token);
        }
        try {
            HttpResponse<String> response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
            int status = response.statusCode();
            if (status / 100 == 2) {
                return Answer.TAKEN;
            }
            LOG.warn("{} answered {} to {} lines of metrics: {}", url, status, lines.lines().count(), response.body());
            return switch (status) {
                case 401, 403, 404, 408, 429 -> Answer.AWAY;
                default -> status / 100 == 4 ? Answer.REFUSED : Answer.AWAY;
            };
        } catch (IOException e) {
            LOG.warn("{} cannot be reached ({})", url, e.toString());
            return Answer.AWAY;
        }
    }

    private enum Answer { TAKEN, REFUSED, AWAY }

    /** Lines to post together, with the number of dropped ones that the first of them reports. */
    private record Batch(List<String> lines, long droppedBefore) {
    }
}
