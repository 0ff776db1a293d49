package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SpoutOutputCollector;
import org.junit.jupiter.api.Test;

class SaturatedPairTest {
    private final List<String> sent = new ArrayList<>();
    private final List<Object> open = new ArrayList<>();
    private long nowNs;
    private long tickNs;

    private SaturatedPair.Sender sender(SaturatedPair.Phase... phases) {
        var sender = new SaturatedPair.Sender(List.of(phases), 10);
        sender.open(() -> nowNs += tickNs, new SpoutOutputCollector(new ISpoutOutputCollector() {
            @Override
            public List<Integer> emit(String stream, List<Object> values, Object id) {
                sent.add(stream + ":" + ((byte[]) values.get(0)).length);
                open.add(id);
                return List.of(1);
            }

            @Override
            public void emitDirect(int task, String stream, List<Object> values, Object id) {
                throw new UnsupportedOperationException();
            }

            @Override
            public long getPendingCount() {
                return 0;
            }

            @Override
            public void reportError(Throwable error) {
                throw new AssertionError(error);
            }

            @Override
            public void flush() {}
        }));
        return sender;
    }

    private static SaturatedPair.Phase phase(int batch, int size, int inFlight) {
        return new SaturatedPair.Phase(SaturatedPair.stream(batch, size, 0), size, 0, inFlight);
    }

    @Test
    void noMoreThanItMayAreUnanswered() {
        var sender = sender(phase(1, 8, 2));
        for (int i = 0; i < 5; i++) {
            sender.nextTuple();
        }
        assertEquals(List.of("b1-t8-w0:8", "b1-t8-w0:8"), sent);
        sender.ack(open.get(0));
        sender.nextTuple();
        assertEquals(3, sent.size());
    }

    @Test
    void everyStreamHasAPhaseInEveryRoundAndWaitsForTheAcksBefore() {
        var sender = sender(phase(1, 8, 1), phase(10, 100, 1), phase(10, 8, 1));
        List<String> order = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            sender.nextTuple();
            order.add(sent.get(sent.size() - 1));
            nowNs += 10_000_000;
            sender.nextTuple(); // its phase is over, and its tuple is not acked
            assertEquals(i + 1, sent.size());
            sender.ack(open.get(i));
        }
        Set<String> all = Set.of("b1-t8-w0:8", "b10-t100-w0:100", "b10-t8-w0:8");
        assertEquals(all, new HashSet<>(order.subList(0, 3)));
        assertEquals(all, new HashSet<>(order.subList(3, 6)));
    }

    @Test
    void userCodeTakesItsTimeBeforeEachTuple() {
        tickNs = 1_000;
        var sender = sender(new SaturatedPair.Phase("worked", 8, 50, 2));
        sender.nextTuple();
        long before = nowNs;
        sender.nextTuple();
        assertEquals(2, sent.size());
        assertTrue(nowNs - before >= 50_000, () -> "took " + (nowNs - before) + " ns");
        assertTrue(nowNs - before <= 55_000, () -> "took " + (nowNs - before) + " ns");
    }

    @Test
    void theReceiverGetsEveryStream() {
        StormTopology topology = SaturatedPair.topology(new int[] {1, 10}, new int[] {8}, new int[] {0, 50}, 10, 1);
        var inputs = topology.get_bolts().get("receiver").get_common().get_inputs().keySet();
        assertTrue(inputs.stream().allMatch(id -> id.get_componentId().equals("sender")));
        assertEquals(4, inputs.size());
    }

    @Test
    void wrongArgumentsAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> SaturatedPair.main(new String[] {"only a name"}));
    }
}
