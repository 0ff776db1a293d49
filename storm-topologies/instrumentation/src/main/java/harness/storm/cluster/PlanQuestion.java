package harness.storm.cluster;

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;

/** Asks the service (docs/service.md) what a plan would do, and holds its answer against a target. */
final class PlanQuestion {
    /** Latencies of whole messages; an answer has those that its model cannot predict, too, without a value. */
    private static final List<String> LATENCIES =
        List.of("ground_truth_latency_ms", "complete_latency_ms", "ack_latency_ms");

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final double targetMs;
    private final long patienceMs;

    /**
     * An answer.
     *
     * @param meets whether the plan meets the target
     * @param text why, in a line
     */
    record Answer(boolean meets, String text) {
    }

    /**
     * A question to a service.
     *
     * @param url of the service
     * @param targetMs the mean latency that a plan may have at most, by the upper end of what is predicted
     * @param patienceMs how long an answer may take
     */
    PlanQuestion(String url, double targetMs, long patienceMs) {
        this.url = url.replaceAll("/+$", "");
        this.targetMs = targetMs;
        this.patienceMs = patienceMs;
    }

    /**
     * Asks about a plan.
     *
     * @param placement the worker, NODE:PORT, of each executor's label
     * @param before the same of what runs, which the service may know of from before only
     * @throws PlanException when there is no answer in time, none that can be used, or no service has such an address
     */
    Answer ask(String topology, Map<String, String> placement, Map<String, String> before) throws PlanException {
        String name = URLEncoder.encode(topology, StandardCharsets.UTF_8).replace("+", "%20");
        HttpRequest request = request(name, body(placement, before));
        CompletableFuture<HttpResponse<String>> asked = client.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            HttpResponse<String> answer = asked.get(patienceMs, TimeUnit.MILLISECONDS);
            return read(answer.statusCode(), answer.body());
        } catch (TimeoutException e) {
            asked.cancel(true);
            throw new PlanException("no answer in " + patienceMs + " ms");
        } catch (ExecutionException e) {
            throw new PlanException("no answer: " + e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new PlanException("interrupted");
        }
    }

    private HttpRequest request(String topology, String body) throws PlanException {
        try {
            return HttpRequest.newBuilder(URI.create(url + "/model/topology/storm/proposed/" + topology))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        } catch (IllegalArgumentException e) {
            throw new PlanException(AskingScheduler.URL + " is no address of a service: " + e.getMessage());
        }
    }

    private static String body(Map<String, String> placement, Map<String, String> before) {
        return JSONValue.toJSONString(new TreeMap<>(Map.of("from", before, "placement", placement)));
    }

    private Answer read(int status, String body) throws PlanException {
        Object json;
        try {
            json = JSONValue.parseWithException(body);
        } catch (ParseException e) {
            throw new PlanException("status " + status + ", and no JSON");
        }
        if (status != 200) {
            throw new PlanException("status " + status + ": " + JSONValue.toJSONString(json));
        }
        Map<?, ?> proposed = map(map(json).get("proposed"));
        for (String measure : LATENCIES) {
            Map<?, ?> mean = map(map(map(proposed.get("predicted")).get(measure)).get("mean"));
            Object upper = mean.get("high") instanceof Number high ? high : mean.get("value");
            if (upper instanceof Number most) {
                boolean meets = most.doubleValue() <= targetMs;
                return new Answer(meets, String.format(Locale.ROOT, "mean of at most %.2f ms is predicted, %.2f ms are asked",
                    most.doubleValue(), targetMs));
            }
        }
        return new Answer(false, "no mean is predicted: " + proposed.get("status") + " " + proposed.get("reason"));
    }

    private static Map<?, ?> map(Object value) {
        return value instanceof Map<?, ?> map ? map : Map.of();
    }
}
