package harness.storm;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;

/** A real HTTP server that keeps what is posted to it, and answers as it is told. */
public final class Receiver implements AutoCloseable {
    /** How long a condition may take to come true on a busy machine before the test is given up. */
    public static final long PATIENCE_MS = 120_000;

    private final HttpServer server;
    private final List<String> lines = new ArrayList<>();
    private final List<String> authorizations = new ArrayList<>();
    private final List<Integer> batchSizes = new ArrayList<>();
    private final Queue<Integer> answers = new ArrayDeque<>();

    public Receiver() throws IOException {
        this(0);
    }

    public Receiver(int port) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/write", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            int status;
            synchronized (this) {
                Integer answer = answers.poll();
                status = answer == null ? 204 : answer;
                batchSizes.add(body.split("\n").length);
                authorizations.add(exchange.getRequestHeaders().getFirst("Authorization"));
                if (status == 204) {
                    lines.addAll(List.of(body.split("\n")));
                }
                notifyAll();
            }
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
        });
        server.start();
    }

    public String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/write?precision=ns";
    }

    /** The next posts are answered so and not kept, unless it is 204; later ones are accepted. */
    public synchronized void answer(Integer... statuses) {
        answers.addAll(List.of(statuses));
    }

    public synchronized List<String> lines() {
        return List.copyOf(lines);
    }

    public synchronized List<String> authorizations() {
        return new ArrayList<>(authorizations);
    }

    public synchronized List<Integer> batchSizes() {
        return List.copyOf(batchSizes);
    }

    /** Waits until what was accepted meets a condition. */
    public synchronized List<String> await(Predicate<List<String>> condition)
            throws InterruptedException, TimeoutException {
        long giveUp = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!condition.test(lines)) {
            long leftMs = TimeUnit.NANOSECONDS.toMillis(giveUp - System.nanoTime());
            if (leftMs <= 0) {
                throw new TimeoutException("condition not met by " + lines.size() + " lines");
            }
            wait(leftMs);
        }
        return lines();
    }

    /** Waits until so many batches were posted. */
    public synchronized void awaitPosts(int posts) throws InterruptedException {
        while (batchSizes.size() < posts) {
            wait(PATIENCE_MS);
        }
    }

    @Override
    public void close() {
        server.stop(0);
    }
}
