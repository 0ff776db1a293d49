package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

class InstrumentedBoltTest {
    private static final Map<String, Object> CONF = Map.of(Series.BUCKET_S, 2);

    private final Contexts contexts = new Contexts();

    @Test
    void aTupleIsCountedWhereItCameFromAndWhereItWent() {
        InstrumentedBolt bolt = new InstrumentedBolt(new Relay());
        bolt.prepare(CONF, contexts.task(2), new OutputCollector(new FixedCollector(List.of(4, 5))));
        bolt.execute(tuple("source", 1, "default"));
        bolt.execute(tuple("source", 1, "default"));
        bolt.execute(tuple("__system", -1, "__tick"));
        Map<String, Object> report = contexts.report(2, 2, "harness.bolt");
        assertEquals("count=2i", report.get("received,stream=default,peer=source"));
        assertEquals("count=1i", report.get("received,stream=__tick,peer=__system"));
        assertTrue(((String) report.get("system_service,stream=__tick,peer=__system")).contains("count=1i"));
        assertTrue(((String) report.get("service")).startsWith("count=2i,"));
        // the relay emits once and once directly to task 5, and ticks too
        assertEquals("count=3i", report.get("emitted,stream=default"));
        assertEquals("count=3i", report.get("transferred,stream=default,peer=4"));
        assertEquals("count=3i", report.get("transferred,stream=default,peer=5"));
        assertEquals("count=3i", report.get("emitted,stream=straight"));
        assertEquals("count=3i", report.get("transferred,stream=straight,peer=5"));

        Map<String, Object> next = contexts.report(2, 2, "harness.bolt");
        assertEquals("count=0i", next.get("received,stream=default,peer=source"), "an idle bucket is reported as such");
        assertEquals("count=0i", next.get("emitted,stream=default"));
        assertNull(next.get("transferred,stream=default,peer=4"), "zero by destination is left out");
        bolt.cleanup();
    }

    /** Ticks that waited are asked for within a millisecond; points of one time would overwrite each other. */
    @Test
    void reportsAtTheSameMomentHaveTimesOfTheirOwn() {
        InstrumentedBolt bolt = new InstrumentedBolt(new Relay());
        bolt.prepare(CONF, contexts.task(2), new OutputCollector(new FixedCollector(List.of(4, 5))));
        long before = 0;
        for (int i = 0; i < 1000; i++) {
            long endMs = (Long) contexts.report(2, 2, "harness.bolt").get(Series.END_MS);
            assertTrue(endMs > before, before + " is followed by " + endMs);
            before = endMs;
        }
        bolt.cleanup();
    }

    /** Storm sends a direct tuple to nobody when the task's component does not subscribe to the stream. */
    @Test
    void aDirectEmitToATaskThatDoesNotListenIsNoTransfer() {
        Outputs outputs = new Outputs(contexts.task(2));
        outputs.emittedDirect("straight", 1);
        Series series = new Series();
        outputs.drainTo(series);
        assertEquals("count=1i", series.value().get("emitted,stream=straight"));
        assertFalse(series.value().containsKey("transferred,stream=straight,peer=1"));
    }

    @Test
    void emitsFromManyThreadsAreCountedOnceWhileReportsAreMade() throws InterruptedException {
        Outputs outputs = new Outputs(contexts.task(2));
        int perThread = 50_000;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            threads.add(new Thread(() -> {
                for (int n = 0; n < perThread; n++) {
                    outputs.emitted("default", List.of(4 + n % 2));
                }
            }));
        }
        threads.forEach(Thread::start);
        AtomicLong[] sums = {new AtomicLong(), new AtomicLong(), new AtomicLong()};
        while (threads.stream().anyMatch(Thread::isAlive)) {
            drain(outputs, sums);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        drain(outputs, sums);
        assertEquals(4L * perThread, sums[0].get());
        assertEquals(2L * perThread, sums[1].get());
        assertEquals(2L * perThread, sums[2].get());
    }

    private static void drain(Outputs outputs, AtomicLong[] sums) {
        Series series = new Series();
        outputs.drainTo(series);
        String[] keys = {
            "emitted,stream=default", "transferred,stream=default,peer=4", "transferred,stream=default,peer=5"};
        for (int i = 0; i < keys.length; i++) {
            if (series.value().get(keys[i]) instanceof String count) {
                sums[i].addAndGet(Long.parseLong(count.substring("count=".length(), count.length() - 1)));
            }
        }
    }

    @Test
    void credentialsReachABoltThatListensAndOnlyThat() {
        Listener listener = new Listener();
        new InstrumentedBolt(listener).setCredentials(Map.of("user", "x"));
        assertEquals(Map.of("user", "x"), listener.seen);
        new InstrumentedBolt(new Contexts.Bolt()).setCredentials(Map.of("user", "x"));
    }

    @Test
    void itTravelsAsStormSerialisesBolts() {
        byte[] bytes = Utils.javaSerialize(new InstrumentedBolt(new Contexts.Bolt()));
        assertNotNull(Utils.javaDeserialize(bytes, InstrumentedBolt.class));
    }

    @Test
    void oneTaskOfAWorkerReportsTheWorker() {
        List<InstrumentedBolt> bolts = new ArrayList<>();
        for (int task = 2; task <= 5; task++) {
            InstrumentedBolt bolt = new InstrumentedBolt(new Contexts.Bolt());
            bolt.prepare(CONF, contexts.task(task, "topology-2"), new OutputCollector(new FixedCollector(List.of())));
            bolts.add(bolt);
        }
        assertEquals(1, contexts.metrics.get(2).values().stream()
            .filter(named -> named.containsKey("harness.worker")).count());
        String worker = (String) contexts.report(2, 2, "harness.worker").get("worker");
        assertTrue(worker.matches("(?=.*cpu_ns=\\d+i)(?=.*gc_ms=\\d+i)(?=.*heap_bytes=\\d+i).*"), worker);
        bolts.forEach(InstrumentedBolt::cleanup);
    }

    private Tuple tuple(String component, int task, String stream) {
        return new TupleImpl(contexts.task(2), new Values("n"), component, task, stream);
    }

    private static final class Relay extends Contexts.Bolt {
        private static final long serialVersionUID = 1L;
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector output) {
            collector = output;
        }

        @Override
        public void execute(Tuple tuple) {
            collector.emit(tuple, new Values("n"));
            collector.emitDirect(5, "straight", tuple, new Values("n"));
        }
    }

    private static final class Listener extends Contexts.Bolt implements ICredentialsListener {
        private static final long serialVersionUID = 1L;
        private transient Map<String, String> seen;

        @Override
        public void setCredentials(Map<String, String> credentials) {
            seen = credentials;
        }
    }

    /** What Storm does with a tuple is not looked at here: it goes to the same tasks always. */
    private record FixedCollector(List<Integer> tasks) implements IOutputCollector {
        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
            return tasks;
        }

        @Override
        public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
        }

        @Override
        public void ack(Tuple input) {
        }

        @Override
        public void fail(Tuple input) {
        }

        @Override
        public void resetTimeout(Tuple input) {
        }

        @Override
        public void flush() {
        }

        @Override
        public void reportError(Throwable error) {
        }
    }
}
