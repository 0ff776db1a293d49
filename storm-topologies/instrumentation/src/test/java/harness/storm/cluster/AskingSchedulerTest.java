package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import harness.storm.Receiver;
import harness.storm.cluster.SchedulerOracle.Component;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Rebalances of which a service on this machine is asked; Storm's own plans are those of its own scheduler. */
class AskingSchedulerTest {
    private static final String T = "t-1";
    /** Not what Storm's own scheduler makes, which uses both nodes. */
    private static final Map<String, String> BEFORE =
        Map.of("__acker[1-1]", "node-1:6700", "a[2-3]", "node-1:6700", "a[4-5]", "node-1:6701");
    private static final String ADDRESS = "/model/topology/storm/proposed/" + T;

    private final List<String> asked = Collections.synchronizedList(new ArrayList<>());
    private final CountDownLatch ended = new CountDownLatch(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private volatile String answer = "";
    private volatile int status = 200;
    private volatile boolean silent;
    private HttpServer server;

    @BeforeEach
    void serve() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            asked.add(exchange.getRequestURI().getPath() + " " + body);
            if (silent) {
                waitForTheEnd();
            }
            byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
    }

    @AfterEach
    void end() {
        ended.countDown();
        server.stop(0);
        threads.shutdownNow();
    }

    private void waitForTheEnd() {
        try {
            ended.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/";
    }

    private static List<SupervisorDetails> nodes() {
        return List.of(
            SchedulerOracle.supervisor("s-1", "127.0.0.2", "node-1", List.of(6700, 6701), null, null),
            SchedulerOracle.supervisor("s-2", "127.0.0.3", "node-2", List.of(6800, 6801), null, null));
    }

    private static List<TopologyDetails> topologies(int executors) {
        return topologies(executors, 2);
    }

    private static List<TopologyDetails> topologies(int executors, int workers) {
        return List.of(SchedulerOracle.topology(T, workers,
            List.of(new Component("a", true, 4, executors), new Component("__acker", false, 1, 1)), Map.of(), 0));
    }

    private static AskingScheduler scheduler(Map<String, Object> own) {
        AskingScheduler scheduler = new AskingScheduler();
        Map<String, Object> conf = SchedulerOracle.defaults();
        conf.putAll(own);
        scheduler.prepare(conf, new StormMetricsRegistry());
        return scheduler;
    }

    /** Waits for as long as a busy machine may take. */
    private AskingScheduler asking() {
        return asking(Map.of(AskingScheduler.PATIENCE_MS, Receiver.PATIENCE_MS));
    }

    private AskingScheduler asking(Map<String, Object> own) {
        Map<String, Object> conf = new HashMap<>(own);
        conf.put(AskingScheduler.URL, url());
        conf.put(AskingScheduler.TARGET_MS, 20);
        return scheduler(conf);
    }

    private static Cluster pass(AskingScheduler scheduler, int executors, Map<String, Map<String, String>> assigned) {
        Cluster cluster = SchedulerOracle.cluster(nodes(), topologies(executors), assigned);
        scheduler.schedule(cluster.getTopologies(), cluster);
        return cluster;
    }

    private static Map<String, String> storms(int executors) {
        Cluster cluster = SchedulerOracle.cluster(nodes(), topologies(executors), Map.of());
        DefaultScheduler.defaultSchedule(cluster.getTopologies(), cluster);
        return SchedulerOracle.assignments(cluster).get(T);
    }

    /** What is in force after a pass with the topology as it ran, and one of a rebalance. */
    private static Cluster rebalanced(AskingScheduler scheduler, int executors) {
        pass(scheduler, 2, Map.of(T, BEFORE));
        return pass(scheduler, executors, Map.of());
    }

    private static Map<String, String> byHost(Map<String, String> assigned) {
        Map<String, String> byHost = new TreeMap<>();
        assigned.forEach((executor, worker) ->
            byHost.put(executor, worker.replace("node-1", "127.0.0.2").replace("node-2", "127.0.0.3")));
        return byHost;
    }

    /** As the service answers: the topology has no hop records, and not every measure is a latency. */
    private static String predicted(double valueMs, double highMs) {
        String measure = "\"%s\": {\"mean\": {\"value\": %s, \"low\": %s, \"high\": %s}}";
        return "{\"proposed\": {\"status\": \"ok\", \"reason\": \"\", \"predicted\": {"
            + String.join(", ", measure.formatted("max_sustainable_rate_tps", 1, 1, 1),
                measure.formatted("ground_truth_latency_ms", null, null, null),
                measure.formatted("ack_latency_ms", valueMs, 1.0, highMs)) + "}}}";
    }

    private static Map<String, String> now(Cluster cluster) {
        return SchedulerOracle.assignments(cluster).get(T);
    }

    @Test
    void aPlanThatMeetsTheTargetIsApplied() {
        answer = predicted(10, 20);
        Cluster cluster = rebalanced(asking(), 2);
        assertEquals(storms(2), now(cluster));
        String body = JSONValue.toJSONString(new TreeMap<>(Map.of("from", byHost(BEFORE), "placement", byHost(storms(2)))));
        assertEquals(List.of(ADDRESS + " " + body), asked);
        assertEquals("asked: applied: mean of at most 20.00 ms is predicted, 20.00 ms are asked", cluster.getStatus(T));
    }

    @Test
    void anotherOneIsNotAndWhatRanGoesOn() {
        answer = predicted(10, 20.5);
        AskingScheduler scheduler = asking();
        Cluster cluster = rebalanced(scheduler, 2);
        assertEquals(Map.of(T, Passes.sorted(BEFORE)), SchedulerOracle.assignments(cluster));
        assertEquals("asked: kept as it was: mean of at most 20.50 ms is predicted, 20.00 ms are asked",
            cluster.getStatus(T));
        pass(scheduler, 2, Map.of(T, BEFORE));
        assertEquals(1, asked.size()); // a pass without a rebalance asks nobody
    }

    @Test
    void moreWorkersThatWereRefusedAreNotGivenLater() {
        answer = predicted(10, 20.5);
        AskingScheduler scheduler = asking();
        pass(scheduler, 2, Map.of(T, BEFORE));
        for (Map<String, Map<String, String>> assigned : List.of(Map.<String, Map<String, String>>of(), Map.of(T, BEFORE))) {
            Cluster cluster = SchedulerOracle.cluster(nodes(), topologies(2, 3), assigned);
            scheduler.schedule(cluster.getTopologies(), cluster);
            assertEquals(Passes.sorted(BEFORE), now(cluster));
        }
        assertEquals(1, asked.size());
    }

    @Test
    void aModelWithoutAMeanMeetsNoTarget() {
        answer = "{\"proposed\": {\"status\": \"unpredicted\", \"reason\": \"saturated\", \"predicted\": {}}}";
        Cluster cluster = rebalanced(asking(), 2);
        assertEquals(Passes.sorted(BEFORE), now(cluster));
        assertEquals("asked: kept as it was: no mean is predicted: unpredicted saturated", cluster.getStatus(T));
    }

    @Test
    void withoutAnAnswerInTimeItIsStormsPlan() {
        silent = true;
        Cluster cluster = rebalanced(asking(Map.of()), 2);
        assertEquals(storms(2), now(cluster));
        assertEquals("asked: Storm's own plan: no answer in 2000 ms", cluster.getStatus(T));
        cluster = rebalanced(asking(Map.of(AskingScheduler.PATIENCE_MS, 1_500)), 2);
        assertEquals("asked: Storm's own plan: no answer in 1500 ms", cluster.getStatus(T));
    }

    @Test
    void anAddressThatIsNoneIsNamedAndItIsStormsPlan() {
        for (String address : List.of("http://a service", "localhost:8080", "127.0.0.1:8080", "http://")) {
            Cluster cluster = rebalanced(scheduler(Map.of(AskingScheduler.URL, address, AskingScheduler.TARGET_MS, 20)), 2);
            assertEquals(storms(2), now(cluster));
            String said = cluster.getStatus(T);
            assertTrue(said.startsWith("asked: Storm's own plan: harness.ask.url is no address of a service: "), said);
        }
    }

    @Test
    void soItIsWithoutAServiceAndWithOneThatDoesNotKnow() {
        status = 404;
        answer = "{\"errors\": [{\"error\": \"unknown topology\"}]}";
        Cluster cluster = rebalanced(asking(), 2);
        assertEquals(storms(2), now(cluster));
        assertTrue(cluster.getStatus(T).startsWith("asked: Storm's own plan: status 404: "), cluster.getStatus(T));
        AskingScheduler scheduler = asking();
        server.stop(0);
        cluster = rebalanced(scheduler, 2);
        assertEquals(storms(2), now(cluster));
        assertTrue(cluster.getStatus(T).startsWith("asked: Storm's own plan: no answer: "), cluster.getStatus(T));
    }

    @Test
    void newTopologiesOtherNumbersAndUnsetSettingsAskNobody() {
        answer = predicted(10, 2000);
        assertEquals(storms(2), now(pass(asking(), 2, Map.of())));
        assertEquals(storms(4), now(rebalanced(asking(), 4)));
        assertEquals(storms(2), now(rebalanced(scheduler(Map.of()), 2)));
        assertEquals(storms(2), now(rebalanced(asking(Map.of(AskingScheduler.PATIENCE_MS, 0)), 2)));
        assertEquals(List.of(), asked);
    }

    @Test
    void aSlotThatIsGoneCannotBeKept() {
        answer = predicted(10, 2000);
        AskingScheduler scheduler = asking();
        pass(scheduler, 2, Map.of(T, BEFORE));
        Cluster cluster = SchedulerOracle.cluster(nodes().subList(1, 2), topologies(2), Map.of());
        scheduler.schedule(cluster.getTopologies(), cluster);
        assertTrue(now(cluster).values().stream().allMatch(worker -> worker.startsWith("node-2:")), now(cluster).toString());
        assertTrue(cluster.getStatus(T).startsWith("asked: Storm's own plan, as a slot of before is gone: "),
            cluster.getStatus(T));
    }
}
