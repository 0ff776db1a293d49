package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.topologies.Fixtures.Emitted;
import harness.storm.topologies.Fixtures.Prepared;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

class BoltsTest {

    @Test
    void aJsonBoltEmitsOneAnchoredTupleAndAcks() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null));
        long beforeNs = System.nanoTime();
        Tuple sent = bolt.send(1, 12, 1000);
        long afterNs = System.nanoTime();

        assertEquals(1, bolt.recorder.emitted.size());
        Emitted emitted = bolt.recorder.emitted.get(0);
        assertEquals("default", emitted.stream());
        assertEquals(Set.of(sent), emitted.anchors());
        assertEquals(List.of(sent), bolt.recorder.acked);
        Message received = Fixtures.message(1, 12);
        assertEquals(received.via("bolt", Fixtures.TASK), emitted.message());
        assertEquals(Fixtures.KEYS.of(Fixtures.SEED, received), emitted.key());
        Member member = emitted.members().get(0);
        assertEquals(Fixtures.member(1, 12, 1000).via(member.hops().get(1)), member);
        Hop hop = member.hops().get(1);
        assertEquals(Fixtures.TASK, hop.task());
        assertTrue(beforeNs <= hop.receivedNs() && hop.receivedNs() <= hop.emittedNs() && hop.emittedNs() <= afterNs);
    }

    /** The hop record's difference is at least the service time asked for; its upper side depends on the machine. */
    @Test
    void theServiceTimeIsWithinTheHop() {
        ServiceTime service =
                new ServiceTime(ServiceTime.Kind.WAIT, ServiceTime.Distribution.CONSTANT, 20, null);
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, service));
        bolt.send(1, 12, 1000);
        Hop hop = bolt.recorder.emitted.get(0).members().get(0).hops().get(1);
        assertTrue(hop.emittedNs() - hop.receivedNs() >= 20_000_000);
    }

    @Test
    void aMultiplierNumbersItsChildren() {
        Children children = new Children(1, 20, 10, 1);
        Prepared bolt = new Prepared(new MultiplierBolt(Fixtures.WORKLOAD, null, children));
        Set<String> keys = new HashSet<>();
        for (long id = 0; id < 50; id++) {
            bolt.recorder.emitted.clear();
            bolt.recorder.acked.clear();
            Tuple sent = bolt.send(1, id, 1000);
            Message received = Fixtures.message(1, id);
            int count = children.of(Fixtures.SEED, received);
            assertEquals(count, bolt.recorder.emitted.size());
            assertEquals(List.of(sent), bolt.recorder.acked);
            for (int child = 1; child <= count; child++) {
                Emitted emitted = bolt.recorder.emitted.get(child - 1);
                assertEquals(Set.of(sent), emitted.anchors());
                assertEquals(received.withChild(child).via("bolt", Fixtures.TASK), emitted.message());
                assertEquals(Fixtures.KEYS.of(Fixtures.SEED, received.withChild(child)), emitted.key());
                Member member = emitted.members().get(0);
                assertEquals(id + "/" + child, member.label());
                assertEquals(2, member.hops().size());
                keys.add(emitted.key());
            }
        }
        assertEquals(Set.copyOf(Fixtures.KEYS.names()), keys);
    }

    @Test
    void aTupleThatIsNoMessageIsReportedAndFailed() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null));
        Tuple noJson = bolt.tuple(1, "{", new byte[0]);
        Tuple noMembers = bolt.tuple(1, Fixtures.message(1, 1).toJson(), new byte[3]);
        bolt.bolt.execute(noJson);
        bolt.bolt.execute(noMembers);
        assertEquals(List.of(noJson, noMembers), bolt.recorder.failed);
        assertEquals(List.of(), bolt.recorder.acked);
        bolt.recorder.errors.forEach(e -> assertInstanceOf(MalformedMessageException.class, e));
        assertEquals(2, bolt.recorder.errors.size());
    }
}
