package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.instrument.Series;
import harness.storm.topologies.Fixtures.Emitted;
import harness.storm.topologies.Fixtures.Prepared;
import harness.storm.topologies.Window.Kind;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.LongStream;
import org.apache.storm.Config;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The windowed bolts in Storm's own window executor and window manager. */
class WindowBoltTest {
    private static final Map<String, Object> CONF = Map.of(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS, 3600);

    private Prepared bolt;

    @AfterEach
    void end() {
        bolt.bolt.cleanup(); // ends a time window's thread
    }

    private void prepare(Window window, Routing routing, ServiceTime service, Map<String, Object> conf) {
        WindowBolt function = new WindowBolt(
                Fixtures.WORKLOAD, window, routing, routing == null ? List.of("default") : List.of("stream-5", "stream-6"));
        bolt = new Prepared(new ArrivalWindowExecutor(function, Fixtures.WORKLOAD, service), conf);
    }

    private void prepare(Window window, Routing routing) {
        prepare(window, routing, null, CONF);
    }

    private List<Tuple> send(long firstId, long lastId) {
        List<Tuple> sent = new ArrayList<>();
        for (long id = firstId; id <= lastId; id++) {
            sent.add(bolt.send(1, id, 1000 * id));
        }
        return sent;
    }

    private static List<String> labels(Emitted emitted) {
        return emitted.members().stream().map(Member::label).sorted().toList();
    }

    private static List<String> labels(long firstId, long lastId) {
        return LongStream.rangeClosed(firstId, lastId).mapToObj(id -> id + "/0").sorted().toList();
    }

    private static Set<Tuple> identities(List<Tuple> tuples) {
        Set<Tuple> set = Collections.newSetFromMap(new IdentityHashMap<>());
        set.addAll(tuples);
        return set;
    }

    @Test
    void aTumblingCountWindowListsEachMemberOnce() {
        prepare(new Window(Kind.COUNT, 10, 10), null);
        List<Tuple> sent = send(1, 35);
        assertEquals(3, bolt.recorder.emitted.size());
        for (int w = 0; w < 3; w++) {
            Emitted emitted = bolt.recorder.emitted.get(w);
            assertEquals("default", emitted.stream());
            assertEquals(labels(10 * w + 1, 10 * w + 10), labels(emitted));
            assertEquals(identities(sent.subList(10 * w, 10 * w + 10)), emitted.anchors());
        }
    }

    /** Storm acks a tumbling window's tuples when the next window fires. */
    @Test
    void tuplesAreAckedWhenTheyLeaveTheWindow() {
        prepare(new Window(Kind.COUNT, 10, 10), null);
        List<Tuple> sent = send(1, 19);
        assertEquals(List.of(), bolt.recorder.acked);
        sent.addAll(send(20, 20));
        assertEquals(identities(sent.subList(0, 10)), identities(bolt.recorder.acked));
        assertEquals(10, bolt.recorder.acked.size());
    }

    /** Above 100 tuples Storm expires events while a window fills; no member is lost by that. */
    @Test
    void aLongCountWindowListsEachMemberOnce() {
        prepare(new Window(Kind.COUNT, 250, 250), null);
        send(1, 1000);
        assertEquals(4, bolt.recorder.emitted.size());
        for (int w = 0; w < 4; w++) {
            assertEquals(labels(250 * w + 1, 250 * w + 250), labels(bolt.recorder.emitted.get(w)));
        }
    }

    /** Windows of 10 every 5: fired at 5 (half full), 10, 15, 20; each lists the five new tuples. */
    @Test
    void aSlidingCountWindowListsEachMemberInItsFirstWindow() {
        prepare(new Window(Kind.COUNT, 10, 5), null);
        List<Tuple> sent = send(1, 20);
        assertEquals(4, bolt.recorder.emitted.size());
        for (int w = 0; w < 4; w++) {
            Emitted emitted = bolt.recorder.emitted.get(w);
            assertEquals(labels(5 * w + 1, 5 * w + 5), labels(emitted));
            int first = Math.max(0, 5 * w - 5);
            assertEquals(identities(sent.subList(first, 5 * w + 5)), emitted.anchors());
        }
    }

    @Test
    void eachMemberHasItsOwnArrival() {
        prepare(new Window(Kind.COUNT, 3, 3), null);
        List<Long> beforeNs = new ArrayList<>();
        for (long id = 1; id <= 3; id++) {
            beforeNs.add(System.nanoTime());
            bolt.send(1, id, id);
        }
        long afterNs = System.nanoTime();
        List<Member> members = bolt.recorder.emitted.get(0).members();
        for (int i = 0; i < 3; i++) {
            Hop hop = members.get(i).hops().get(1);
            assertEquals(Fixtures.TASK, hop.task());
            assertTrue(hop.receivedNs() >= beforeNs.get(i));
            assertTrue(i == 2 || hop.receivedNs() <= beforeNs.get(i + 1));
            assertTrue(hop.emittedNs() >= beforeNs.get(2) && hop.emittedNs() <= afterNs);
        }
    }

    /** 5.3.1: the basis follows one of the window's paths, and the entry time is the mean over that path. */
    @Test
    void theThesisEntryTimeIsTheMeanOverAPath() {
        prepare(new Window(Kind.COUNT, 5, 5), null);
        Set<String> paths = new HashSet<>();
        Set<Long> bases = new HashSet<>();
        for (long w = 0; w < 60; w++) {
            bolt.recorder.emitted.clear();
            long id = 10 * w;
            bolt.send(2, id + 4, 500);
            bolt.send(1, id + 1, 100);
            bolt.send(2, id + 5, 701);
            bolt.send(1, id + 2, 200);
            bolt.send(1, id + 3, 301);
            Emitted emitted = bolt.recorder.emitted.get(0);
            Message output = emitted.message();
            paths.add(output.path());
            bases.add(output.messageId() - id);
            boolean first = output.path().equals("spout:1/bolt:20");
            // (100 + 200 + 301) / 3 = 200.33, (500 + 701) / 2 = 600.5
            assertEquals(first ? 200 : 601, output.enteredNs());
            assertTrue(first ? output.messageId() <= id + 3 : output.messageId() > id + 3);
            Message basis = new Message(output.messageId(), 0, "text", first ? "spout:1" : "spout:2", null);
            assertEquals(Fixtures.KEYS.of(Fixtures.SEED, basis), emitted.key());
        }
        assertEquals(Set.of("spout:1/bolt:20", "spout:2/bolt:20"), paths);
        assertEquals(Set.of(1L, 2L, 3L, 4L, 5L), bases);
    }

    @Test
    void theChoiceDoesNotDependOnTheOrderOfArrival() {
        List<Message> outputs = new ArrayList<>();
        for (List<Long> order : List.of(List.of(1L, 2L, 3L), List.of(3L, 1L, 2L))) {
            prepare(new Window(Kind.COUNT, 3, 3), null);
            for (long id : order) {
                bolt.send((int) (1 + id % 2), id, 10 * id);
            }
            outputs.add(bolt.recorder.emitted.get(0).message());
        }
        assertEquals(outputs.get(0), outputs.get(1));
    }

    /** The service is spent for each tuple when it arrives, so a window of 3 takes 3 service times. */
    @Test
    void theServiceIsSpentOnEachArrival() {
        ServiceTime service = new ServiceTime(ServiceTime.Kind.WAIT, ServiceTime.Distribution.CONSTANT, 5, null);
        prepare(new Window(Kind.COUNT, 3, 3), null, service, CONF);
        send(1, 3);
        List<Member> members = bolt.recorder.emitted.get(0).members();
        for (int i = 0; i < 3; i++) {
            Hop hop = members.get(i).hops().get(1);
            assertTrue(hop.emittedNs() - hop.receivedNs() >= (3 - i) * 5_000_000L);
        }
    }

    @Test
    void aTumblingTimeWindowListsEachMemberOnce() throws InterruptedException {
        prepare(new Window(Kind.TIME, 50, 50), null);
        Set<String> seen = new HashSet<>();
        for (int round = 0; round < 5; round++) {
            send(10 * round + 1, 10 * round + 10);
            awaitMembers(10 * round + 10);
        }
        for (Emitted emitted : bolt.recorder.emittedSoFar()) {
            for (String label : labels(emitted)) {
                assertTrue(seen.add(label), label + " is listed twice");
            }
        }
        assertEquals(Set.copyOf(labels(1, 50)), seen);
    }

    /** A window of 300 ms every 50 ms has old tuples only when no more are sent: outputs without members. */
    @Test
    void aSlidingTimeWindowListsEachMemberInItsFirstWindow() throws InterruptedException {
        prepare(new Window(Kind.TIME, 300, 50), null);
        List<Tuple> sent = send(1, 10);
        awaitMembers(10);
        bolt.recorder.await("an output without members", all -> all.stream().anyMatch(e -> e.members().isEmpty()));
        List<String> listed = new ArrayList<>();
        for (Emitted emitted : bolt.recorder.emittedSoFar()) {
            listed.addAll(labels(emitted));
            assertTrue(identities(sent).containsAll(emitted.anchors()));
            assertTrue(emitted.message().messageId() >= 1 && emitted.message().messageId() <= 10);
        }
        assertEquals(labels(1, 10), listed.stream().sorted().toList());
    }

    private void awaitMembers(int count) throws InterruptedException {
        bolt.recorder.await(
                count + " members", emitted -> emitted.stream().mapToInt(e -> e.members().size()).sum() >= count);
    }

    @Test
    void aJoinEmitsOneOutputOnEachStream() {
        prepare(new Window(Kind.COUNT, 4, 4), Routing.ONE_PER_WINDOW);
        for (long w = 0; w < 20; w++) {
            bolt.recorder.emitted.clear();
            for (long id = 4 * w + 1; id <= 4 * w + 4; id++) {
                bolt.send((int) (1 + id % 3), id, id);
            }
            assertEquals(List.of("stream-5", "stream-6"), bolt.recorder.emitted.stream().map(Emitted::stream).toList());
            for (Emitted emitted : bolt.recorder.emitted) {
                assertEquals(labels(4 * w + 1, 4 * w + 4), labels(emitted));
                assertEquals(4, emitted.anchors().size());
            }
        }
    }

    /** What a window emits is gathered by the next: of tuples with 2 and 3 members come 5, each once. */
    @Test
    void aWindowBehindAWindowHasTheMembersOfAllItsTuples() {
        prepare(new Window(Kind.COUNT, 2, 2), null);
        List<Member> pair = List.of(Fixtures.member(1, 1, 10), Fixtures.member(1, 2, 20));
        List<Member> three =
                List.of(Fixtures.member(1, 3, 30), Fixtures.member(1, 4, 40), Fixtures.member(1, 5, 50));
        bolt.send(1, Fixtures.message(1, 1).entered(15), pair);
        bolt.send(1, Fixtures.message(1, 4).entered(40), three);
        Emitted emitted = bolt.recorder.emitted.get(0);
        assertEquals(labels(1, 5), labels(emitted));
        // both tuples followed one path: the output's entry is the mean of theirs (thesis 5.3.1)
        assertEquals(28, emitted.message().enteredNs());
    }

    @Test
    void theOutputsOfAJoinAreChosenIndependently() {
        prepare(new Window(Kind.COUNT, 2, 2), Routing.ONE_PER_WINDOW);
        int windows = 400;
        int same = 0;
        for (long w = 0; w < windows; w++) {
            bolt.recorder.emitted.clear();
            bolt.send(1, 2 * w, 1);
            bolt.send(1, 2 * w + 1, 1);
            same += bolt.recorder.emitted.get(0).message().equals(bolt.recorder.emitted.get(1).message()) ? 1 : 0;
        }
        assertEquals(0.5, same / (double) windows, 4 * 0.5 / Math.sqrt(windows));
    }

    /** Both odd or both even: stream-5; one odd: stream-6. Sources: tasks 1 and 2 left, 3 right. */
    @Test
    void aJoinRoutesByParity() {
        assertEquals("stream-5", parity(2, 4));
        assertEquals("stream-5", parity(3, 1));
        assertEquals("stream-5", parity(2, 0));
        assertEquals("stream-6", parity(2, 3));
        assertEquals("stream-6", parity(0, 3));
    }

    /** One odd: the second stream, which nobody hears; both odd: the first. */
    @Test
    void nobodyHearsTheSecondStreamOfParity() {
        WindowBolt function =
                new WindowBolt(Fixtures.WORKLOAD, new Window(Kind.COUNT, 2, 2), Routing.PARITY, List.of("stream-5"));
        bolt = new Prepared(new ArrivalWindowExecutor(function, Fixtures.WORKLOAD, null), CONF);
        bolt.send(1, 1, 1);
        bolt.send(3, 2, 1);
        assertEquals(List.of("stream-5"), bolt.recorder.emitted.stream().map(Emitted::stream).toList());
        bolt.send(1, 3, 1);
        bolt.send(1, 4, 1);
        assertEquals(2, bolt.recorder.emitted.size()); // two of one input: even and even
        bolt = new Prepared(
                new ArrivalWindowExecutor(
                        new WindowBolt(
                                Fixtures.WORKLOAD, new Window(Kind.COUNT, 3, 3), Routing.PARITY, List.of("stream-5")),
                        Fixtures.WORKLOAD,
                        null),
                CONF);
        bolt.send(1, 1, 1);
        bolt.send(1, 2, 1);
        bolt.send(3, 3, 1);
        bolt.send(1, 4, 1);
        bolt.send(1, 5, 1);
        bolt.send(3, 6, 1);
        assertEquals(0, bolt.recorder.emitted.size());
        assertEquals(3, bolt.recorder.acked.size()); // those of the window before
    }

    private String parity(int left, int right) {
        prepare(new Window(Kind.COUNT, left + right, left + right), Routing.PARITY);
        for (int i = 0; i < left; i++) {
            bolt.send(1 + i % 2, i, i);
        }
        for (int i = 0; i < right; i++) {
            bolt.send(3, 100 + i, i);
        }
        assertEquals(1, bolt.recorder.emitted.size());
        assertEquals(left + right, bolt.recorder.emitted.get(0).members().size());
        return bolt.recorder.emitted.get(0).stream();
    }

    @Test
    void aTupleThatIsNoMessageIsReportedAndFailed() {
        prepare(new Window(Kind.COUNT, 2, 2), null);
        Tuple broken = bolt.tuple(1, "{", new byte[0]);
        bolt.bolt.execute(broken);
        send(1, 2);
        assertEquals(List.of(broken), bolt.recorder.failed);
        assertEquals(1, bolt.recorder.emitted.size());
        assertEquals(1, bolt.recorder.errors.size());
    }

    private IMetric prepareInstrumented(Window window) {
        Map<String, Object> conf = new HashMap<>(CONF);
        conf.put(Series.BUCKET_S, 2);
        prepare(window, null, null, conf);
        return bolt.metrics.get(HeldMembers.PERIOD_S).get(Fixtures.TASK).get(Series.PREFIX + "held");
    }

    private static Object held(IMetric metric) {
        Object value = metric.getValueAndReset();
        return value == null ? null : ((Map<?, ?>) value).get("held");
    }

    @Test
    void heldMembersAreSaidInPeriodsWithoutArrivals() {
        IMetric metric = prepareInstrumented(new Window(Kind.COUNT, 3, 3));
        assertEquals("members=\"\"", held(metric), "nothing arrived yet");
        assertEquals("members=\"\"", held(metric), "still nothing");
        send(1, 5);
        assertEquals(null, held(metric), "a period with arrivals");
        assertEquals("members=\"4/0,5/0\"", held(metric));
        assertEquals("members=\"4/0,5/0\"", held(metric));
        send(6, 6);
        assertEquals(null, held(metric));
        assertEquals("members=\"\"", held(metric));
        assertEquals("members=\"\"", held(metric));
    }

    /** A time window empties itself without an arrival: what was said to be held must be taken back. */
    @Test
    void heldMembersOfATimeWindowAreTakenBack() throws InterruptedException {
        IMetric metric = prepareInstrumented(new Window(Kind.TIME, 500, 500));
        send(1, 2);
        assertEquals(null, held(metric));
        awaitMembers(2);
        // Emitted, but perhaps not yet released: the window's thread does that next.
        Object said = held(metric);
        while (!"members=\"\"".equals(said)) {
            assertEquals("members=\"1/0,2/0\"", said);
            Thread.onSpinWait();
            said = held(metric);
        }
        assertEquals("members=\"\"", held(metric));
    }

    @Test
    void withoutInstrumentationNothingIsRegistered() {
        prepare(new Window(Kind.COUNT, 3, 3), null);
        assertEquals(Map.of(), bolt.metrics);
    }
}
