package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.topologies.Fixtures.Emitted;
import harness.storm.topologies.Fixtures.Prepared;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

class BoltsTest {

    @Test
    void aJsonBoltEmitsOneAnchoredTupleAndAcks() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null, OutputKey.DRAWN));
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
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, service, OutputKey.DRAWN));
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

    /** A second multiplier of at most 3 behind a first of 2: child c becomes 4c + 1 ... 4c + 3, none of them twice. */
    @Test
    void childrenOfChildrenHaveNamesOfTheirOwn() {
        Children three = new Children(3, 3, 3, 0);
        Prepared bolt = new Prepared(new MultiplierBolt(Fixtures.WORKLOAD, null, three));
        List<Member> both = List.of(
                Fixtures.member(1, 12, 1000).withChild(1), Fixtures.member(1, 13, 1000).withChild(2));
        bolt.send(1, Fixtures.message(1, 12).withChild(1), both);
        List<List<String>> labels = bolt.recorder.emitted.stream()
                .map(e -> e.members().stream().map(Member::label).toList())
                .toList();
        assertEquals(List.of(List.of("12/5", "13/9"), List.of("12/6", "13/10"), List.of("12/7", "13/11")), labels);
        assertEquals(5, bolt.recorder.emitted.get(0).message().child());
    }

    @Test
    void aComponentMayEmitAPayloadOfItsOwn() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD.emitting(300), null, OutputKey.DRAWN));
        bolt.send(1, 12, 1000);
        assertEquals("x".repeat(300), bolt.recorder.emitted.get(0).message().payload());
        bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD.emitting(null), null, OutputKey.DRAWN));
        bolt.send(1, 12, 1000);
        assertEquals("text", bolt.recorder.emitted.get(0).message().payload());
    }

    /** Of tuples with key Z four in ten keep it; the others get A, the first of the workload's keys. */
    @Test
    void aShareOfTheKeysIsForwardedAndTheOthersAreTheFirst() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null, new OutputKey(0.4, null)));
        int messages = 1000;
        for (long id = 0; id < messages; id++) {
            byte[] members = Members.encode(List.of(Fixtures.member(1, id, 1000)));
            bolt.bolt.execute(bolt.tuple(1, "Z", Fixtures.message(1, id).toJson(), members));
        }
        long forwarded = bolt.recorder.emitted.stream().filter(e -> e.key().equals("Z")).count();
        long first = bolt.recorder.emitted.stream().filter(e -> e.key().equals("A")).count();
        assertEquals(messages, forwarded + first);
        assertEquals(0.4, forwarded / (double) messages, 4 * Math.sqrt(0.24 / messages));
    }

    @Test
    void aRowsFieldsAreTheKey() {
        OutputKey fields = new OutputKey(null, List.of("tail", "geohash-2"));
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null, fields));
        Message row = Fixtures.message(1, 5).withPayload("tail=N17;lat=57.64911;lon=10.40744");
        Tuple sent = bolt.send(1, row, List.of(Fixtures.member(1, 5, 1000)));
        Tuple text = bolt.send(1, 6, 1000);
        assertEquals(List.of("N17/u4"), bolt.recorder.emitted.stream().map(Emitted::key).toList());
        assertEquals(row.payload(), bolt.recorder.emitted.get(0).message().payload());
        assertEquals(List.of(sent), bolt.recorder.acked);
        assertEquals(List.of(text), bolt.recorder.failed);
    }

    /** Seed 7, component "bolt", 30 %: the messages kept are those of the definition in Draw, computed in Python. */
    @Test
    void aFilterKeepsTheMessagesThatTheSeedSays() {
        Prepared bolt = new Prepared(new FilterBolt(Fixtures.WORKLOAD, null, 0.3));
        List<Tuple> sent = new ArrayList<>();
        for (long id = 0; id < 20; id++) {
            sent.add(bolt.send(1, id, 1000));
        }
        assertEquals(sent, bolt.recorder.acked);
        List<Long> kept = bolt.recorder.emitted.stream().map(e -> e.message().messageId()).toList();
        assertEquals(List.of(0L, 1L, 9L, 12L, 14L, 16L), kept);
        bolt.recorder.emitted.forEach(e -> assertEquals(Set.of(sent.get((int) e.message().messageId())), e.anchors()));
        bolt.recorder.emitted.forEach(e -> assertEquals(2, e.members().get(0).hops().size()));
    }

    @Test
    void aTupleThatIsNoMessageIsReportedAndFailed() {
        Prepared bolt = new Prepared(new JsonBolt(Fixtures.WORKLOAD, null, OutputKey.DRAWN));
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
