package harness.storm.topologies;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.storm.kafka.spout.RecordTranslator;
import org.apache.storm.tuple.Fields;

/**
 * Makes a tuple of a record; storm-kafka-client calls it just before it emits the tuple.
 *
 * <p>The entry time is taken last of all, so reading the record and writing the JSON are not part of
 * the time through the topology. It remembers the last record it was given of each partition, which is
 * how {@link MessageSpout} knows what was emitted.
 */
final class MessageTranslator implements RecordTranslator<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    private final Workload workload;
    private transient String component;
    private transient int task;
    private transient Consumer<Exception> report;
    private transient Map<TopicPartition, Long> nextOffsets;

    MessageTranslator(Workload workload) {
        this.workload = workload;
    }

    /**
     * Tells it where it runs.
     *
     * @param report told of records that are no messages
     */
    void open(String component, int task, Consumer<Exception> report) {
        this.component = component;
        this.task = task;
        this.report = report;
        nextOffsets = new HashMap<>();
    }

    @Override
    public List<Object> apply(ConsumerRecord<byte[], byte[]> record) {
        nextOffsets.put(new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
        Message message;
        try {
            message = Message.fromInput(record.value());
        } catch (MalformedMessageException e) {
            String at = record.topic() + " " + record.partition() + "@" + record.offset();
            report.accept(new MalformedMessageException(at + ": " + e.getMessage(), e));
            return null; // storm-kafka-client skips the record
        }
        String key = workload.key(message);
        String json = workload.output(message, component, task).toJson();
        long enteredNs = System.nanoTime();
        Hop hop = new Hop(task, enteredNs, enteredNs);
        Member member = new Member(message.messageId(), message.child(), enteredNs, List.of(hop));
        return Tuples.values(key, json, Members.encode(List.of(member)));
    }

    /**
     * For each partition, the offset after the last record that became a tuple or was skipped, if there
     * were any since this was last asked.
     */
    Map<TopicPartition, Long> takeNextOffsets() {
        Map<TopicPartition, Long> taken = nextOffsets;
        nextOffsets = new HashMap<>();
        return taken;
    }

    @Override
    public Fields getFieldsFor(String stream) {
        return Tuples.fields();
    }
}
