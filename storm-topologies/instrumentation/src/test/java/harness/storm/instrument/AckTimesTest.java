package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.Test;

class AckTimesTest {

    @Test
    void acksAreTimedFromTheirEmits() {
        AckTimes acks = new AckTimes(true);
        long startNs = System.nanoTime();
        acks.emitting(1L);
        acks.emitting(2L);
        acks.acked(2L);
        acks.acked(1L);
        long tookNs = System.nanoTime() - startNs;
        Map<String, Object> ack = drain(acks);
        assertEquals(2L, ack.get("count"));
        assertEquals(2L, ack.get("acked"));
        assertEquals(0L, ack.get("failed"));
        assertFalse(ack.containsKey("failed_ids"));
        assertTrue((Long) ack.get("sum_ns") <= 2 * tookNs);
    }

    @Test
    void anIdInFlightTwiceIsTimedTwice() {
        AckTimes acks = new AckTimes(true);
        for (int i = 0; i < 3; i++) {
            acks.emitting("same");
        }
        acks.acked("same");
        acks.emitting("same");
        for (int i = 0; i < 3; i++) {
            acks.acked("same");
        }
        Map<String, Object> ack = drain(acks);
        assertEquals(4L, ack.get("count"));
        acks.acked("same"); // not in flight any more
        ack = drain(acks);
        assertEquals(1L, ack.get("acked"));
        assertEquals(0L, ack.get("count"));
    }

    @Test
    void emitsFromManyThreadsAreAllTimed() throws InterruptedException {
        AckTimes acks = new AckTimes(true);
        int perThread = 5_000;
        List<Thread> threads = IntStream.range(0, 4).mapToObj(thread -> new Thread(() -> {
            for (int i = 0; i < perThread; i++) {
                acks.emitting(thread * perThread + i);
                acks.emitting("shared");
            }
        })).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        for (int i = 0; i < 4 * perThread; i++) {
            acks.acked(i);
        }
        Map<String, Object> ack = drain(acks);
        assertEquals(4L * perThread, ack.get("count"));
    }

    @Test
    void failedIdsAreListedUpToABoundAndTheRestCounted() {
        AckTimes acks = new AckTimes(true);
        acks.failed("{topic-partition=in-3, offset=17}");
        acks.failed("say \"no\"\n");
        acks.failed("x".repeat(AckTimes.ID_LENGTH + 1));
        for (int i = 0; i < AckTimes.LISTED_IDS; i++) {
            acks.failed(i);
        }
        Map<String, Object> ack = drain(acks);
        List<?> ids = (List<?>) JSONValue.parse((String) ack.get("failed_ids"));
        assertEquals(AckTimes.LISTED_IDS, ids.size());
        assertEquals("{topic-partition=in-3, offset=17}", ids.get(0));
        assertEquals("say \"no\"\n", ids.get(1));
        assertEquals(3L, ack.get("failed_ids_cut"));
        assertEquals(AckTimes.LISTED_IDS + 3L, ack.get("failed"));
    }

    /** Some spouts give every message the same id: as many may be in flight as a queue holds. */
    @Test
    void aMillionMessagesOfOneIdAreInFlight() {
        AckTimes acks = new AckTimes(true);
        int messages = 1_000_000;
        for (int i = 0; i < messages; i++) {
            acks.emitting("ACK");
        }
        for (int i = 0; i < messages; i++) {
            acks.acked("ACK");
        }
        Map<String, Object> ack = drain(acks);
        assertEquals((long) messages, ack.get("count"));
        assertEquals(0L, ack.get("pending"));
    }

    @Test
    void everyEmitWithAnIdIsAckedFailedOrPending() {
        AckTimes acks = new AckTimes(true);
        for (int i = 0; i < 10; i++) {
            acks.emitting(i % 7); // three ids twice
        }
        acks.emitting(null);
        acks.acked(0);
        acks.failed(1);
        Map<String, Object> ack = drain(acks);
        assertEquals(List.of(10L, 1L, 1L, 8L),
            List.of(ack.get("tracked"), ack.get("acked"), ack.get("failed"), ack.get("pending")));
        acks.acked(0);
        acks.acked(99); // never emitted
        ack = drain(acks);
        assertEquals(List.of(0L, 2L, 0L, 7L),
            List.of(ack.get("tracked"), ack.get("acked"), ack.get("failed"), ack.get("pending")),
            "pending is counted, not computed: 8 + 0 is not 2 + 0 + 7, and that shows");
    }

    @Test
    void withoutAckersAcksAreCountedOnly() {
        AckTimes acks = new AckTimes(false);
        acks.emitting(1L);
        acks.acked(1L);
        Map<String, Object> ack = drain(acks);
        assertEquals(1L, ack.get("acked"));
        assertEquals(0L, ack.get("count"));
        assertEquals(0L, ack.get("tracked"));
    }

    private static Map<String, Object> drain(AckTimes acks) {
        Series series = new Series();
        acks.drainTo(series);
        return Line.parse("ack " + series.value().get("ack") + " 0").fields();
    }
}
