package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.kafka.spout.KafkaSpoutConfig.ProcessingGuarantee;
import org.junit.jupiter.api.Test;

class MessageTranslatorTest {
    private final List<Exception> reported = new ArrayList<>();
    private final MessageTranslator translator = new MessageTranslator(Fixtures.WORKLOAD);

    MessageTranslatorTest() {
        translator.open("spout", 3, reported::add);
    }

    private static ConsumerRecord<byte[], byte[]> record(int partition, long offset, String json) {
        return new ConsumerRecord<>("in", partition, offset, null, json.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void aRecordBecomesATuple() throws MalformedMessageException {
        long beforeNs = System.nanoTime();
        List<Object> values = translator.apply(record(4, 9, "{\"message_id\":12,\"payload\":\"x\"}"));
        long afterNs = System.nanoTime();
        Message entering = new Message(12, 0, "x", "", null);
        assertEquals(Fixtures.KEYS.of(Fixtures.SEED, entering), values.get(0));
        assertEquals(new Message(12, 0, "x", "spout:3", null), Message.parse((String) values.get(1)));
        Member member = Members.decode((byte[]) values.get(2)).get(0);
        assertTrue(beforeNs <= member.enteredNs() && member.enteredNs() <= afterNs);
        Hop hop = new Hop(3, member.enteredNs(), member.enteredNs());
        assertEquals(new Member(12, 0, member.enteredNs(), List.of(hop)), member);
        assertEquals(3, translator.getFieldsFor("default").size());
        assertEquals(List.of("default"), translator.streams());
    }

    @Test
    void aRecordThatIsNoMessageIsReportedAndSkipped() {
        assertNull(translator.apply(record(4, 9, "{")));
        assertEquals(1, reported.size());
        assertTrue(reported.get(0).getMessage().startsWith("in 4@9: "), reported.get(0).getMessage());
    }

    @Test
    void remembersWhereEachPartitionGoesOn() {
        assertEquals(Map.of(), translator.takeNextOffsets());
        translator.apply(record(4, 9, "{\"message_id\":1,\"payload\":\"x\"}"));
        translator.apply(record(4, 10, "{"));
        translator.apply(record(20, 5, "{\"message_id\":2,\"payload\":\"x\"}"));
        Map<TopicPartition, Long> expected = Map.of(new TopicPartition("in", 4), 11L, new TopicPartition("in", 20), 6L);
        assertEquals(expected, translator.takeNextOffsets());
        assertEquals(Map.of(), translator.takeNextOffsets());
    }

    @Test
    void settingsReachTheSpout() {
        KafkaSpoutConfig<byte[], byte[]> config = config(TopologySettings.Guarantee.NO_GUARANTEE);
        assertEquals(7, config.getPollTimeoutMs());
        assertEquals(1500, config.getOffsetsCommitPeriodMs());
        assertEquals("group", config.getConsumerGroupId());
        assertEquals(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST, config.getFirstPollOffsetStrategy());
        assertTrue(config.isTupleTrackingEnforced());
        assertFalse(config.isEmitNullTuples());
        assertEquals("broker:1", config.getKafkaProps().get("bootstrap.servers"));
        assertEquals(25, config.getKafkaProps().get("max.poll.records"));
        for (TopologySettings.Guarantee guarantee : TopologySettings.Guarantee.values()) {
            assertEquals(ProcessingGuarantee.valueOf(guarantee.name()), config(guarantee).getProcessingGuarantee());
        }
    }

    private KafkaSpoutConfig<byte[], byte[]> config(TopologySettings.Guarantee guarantee) {
        Map<String, Object> consumer = Map.of("max.poll.records", 25);
        TopologySettings.Spout settings =
                new TopologySettings.Spout("broker:1", "group", 7, 1500, guarantee, consumer);
        return MessageSpout.config(settings, translator, new PartitionSource("in"));
    }
}
