package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.topologies.Fixtures.Prepared;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

/** What the sender does with what a producer answers; the producer is Kafka's own stand-in. */
class SenderBoltTest {

    private static final class Offline extends SenderBolt {
        private static final long serialVersionUID = 1L;
        private final transient MockProducer<byte[], byte[]> producer;

        Offline(boolean answersAtOnce) {
            super(Fixtures.WORKLOAD, null, new TopologySettings.Sink("nowhere:1", "out", Map.of()));
            producer = new MockProducer<>(answersAtOnce, null, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        Producer<byte[], byte[]> connect() {
            return producer;
        }
    }

    @Test
    void sendsTheRecordAndAcks() {
        Offline sender = new Offline(true);
        Prepared bolt = new Prepared(sender);
        long beforeNs = System.nanoTime();
        Tuple sent = bolt.send(1, 12, 1000);
        long afterNs = System.nanoTime();

        assertEquals(List.of(sent), bolt.recorder.acked);
        ProducerRecord<byte[], byte[]> record = sender.producer.history().get(0);
        assertEquals("out", record.topic());
        // left_ns, the last eight bytes, is the one thing that the test cannot know.
        byte[] value = record.value();
        ByteBuffer end = ByteBuffer.wrap(value, value.length - 16, 16);
        long receivedNs = end.getLong();
        long leftNs = end.getLong();
        assertTrue(beforeNs <= receivedNs && receivedNs <= leftNs && leftNs <= afterNs);
        Member member = Fixtures.member(1, 12, 1000).via(new Hop(Fixtures.TASK, receivedNs, leftNs));
        assertArrayEquals(SinkRecord.encode("bolt", "spout:1/bolt:20", 1000, List.of(member)), value);
    }

    @Test
    void theThesisEntryTimeIsTheWindows() {
        Offline sender = new Offline(true);
        Prepared bolt = new Prepared(sender);
        bolt.send(1, Fixtures.message(1, 12).entered(700), List.of(Fixtures.member(1, 12, 1000)));
        byte[] value = sender.producer.history().get(0).value();
        int at = 1 + 1 + "bolt".length() + 2 + "spout:1/bolt:20".length();
        assertEquals(700, ByteBuffer.wrap(value).getLong(at));
    }

    @Test
    void aRecordThatTheBrokerRefusesLaterIsReported() {
        Offline sender = new Offline(false);
        Prepared bolt = new Prepared(sender);
        Tuple sent = bolt.send(1, 12, 1000);
        assertEquals(List.of(sent), bolt.recorder.acked);
        KafkaException refused = new KafkaException("refused");
        assertTrue(sender.producer.errorNext(refused));
        assertEquals(List.of(refused), bolt.recorder.errors);
    }

    @Test
    void aRecordThatTheProducerDoesNotTakeFailsItsTuple() {
        Offline sender = new Offline(true);
        Prepared bolt = new Prepared(sender);
        sender.producer.sendException = new KafkaException("full");
        Tuple sent = bolt.send(1, 12, 1000);
        assertEquals(List.of(sent), bolt.recorder.failed);
        assertEquals(List.of(), bolt.recorder.acked);
        assertEquals(1, bolt.recorder.errors.size());
    }

    @Test
    void theEndClosesTheProducer() {
        Offline sender = new Offline(true);
        Prepared bolt = new Prepared(sender);
        bolt.bolt.cleanup();
        assertTrue(sender.producer.closed());
    }
}
