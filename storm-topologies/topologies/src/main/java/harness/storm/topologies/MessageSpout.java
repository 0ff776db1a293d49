package harness.storm.topologies;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.kafka.spout.KafkaSpoutConfig.ProcessingGuarantee;
import org.apache.storm.kafka.spout.internal.CommitMetadataManager;
import org.apache.storm.kafka.spout.subscription.RoundRobinManualPartitioner;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;

/**
 * storm-kafka-client's spout on an input topic of its own. What its settings do:
 *
 * <ul>
 *   <li><b>Partitions.</b> Task i of n reads partitions i, i + n, ...; with 16 tasks and 16 partitions
 *       each task has one, whatever the number of executors.
 *   <li><b>{@code poll_timeout_ms}.</b> A task whose last poll is emitted polls again, for at most this
 *       long when nothing is there. An executor calls its tasks one after another and reads acks in
 *       between rounds only: with 16 tasks in one executor a message may wait for 15 polls. The stock
 *       200 ms would bunch arrivals and inflate the time from emit to ack.
 *   <li><b>{@code max.poll.records}</b> and other {@code consumer} settings go to the Kafka consumer.
 *       One record is emitted at each call of nextTuple, so a large poll is emitted in a row.
 *   <li><b>{@code commit_period_ms}</b> and <b>{@code guarantee}.</b>
 *       <ul>
 *         <li>no-guarantee: what was polled is committed every period, without waiting. A tuple that
 *             fails or times out is not sent again. A worker that dies replays up to one period and
 *             loses what it had in flight. In a rebalance Storm first deactivates the spouts, and this
 *             class then commits exactly what was emitted, so the next worker goes on behind it.
 *         <li>at-least-once: what was acked is committed every period; failed tuples are sent again.
 *         <li>at-most-once: each poll is committed before its records are emitted; the period has no
 *             effect.
 *       </ul>
 *       Under all of them tuples are tracked, so that max spout pending and acks work and complete
 *       latency is measured.
 * </ul>
 *
 * <p>A topology starts where its consumer group has read to, in an earlier submission too, and otherwise at
 * the beginning of the topic; a task that restarts goes on at its commit.
 */
final class MessageSpout extends KafkaSpout<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    private final MessageTranslator translator;
    private final PartitionSource partitions;
    private final ProcessingGuarantee guarantee;
    private transient CommitMetadataManager metadata;

    private MessageSpout(
            KafkaSpoutConfig<byte[], byte[]> config, MessageTranslator translator, PartitionSource partitions) {
        super(config);
        this.translator = translator;
        this.partitions = partitions;
        this.guarantee = config.getProcessingGuarantee();
    }

    /** Creates the spout. */
    static MessageSpout of(TopologySettings.Spout settings, String topic, Workload workload) {
        MessageTranslator translator = new MessageTranslator(workload);
        PartitionSource partitions = new PartitionSource(topic);
        return new MessageSpout(config(settings, translator, partitions), translator, partitions);
    }

    static KafkaSpoutConfig<byte[], byte[]> config(
            TopologySettings.Spout settings, MessageTranslator translator, PartitionSource partitions) {
        return new KafkaSpoutConfig.Builder<byte[], byte[]>(
                        settings.bootstrap(), partitions, new RoundRobinManualPartitioner())
                .setProp(settings.consumer())
                .setProp(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class)
                .setProp(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class)
                .setProp(ConsumerConfig.GROUP_ID_CONFIG, settings.group())
                .setRecordTranslator(translator)
                .setPollTimeoutMs(settings.pollTimeoutMs())
                .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
                .setOffsetCommitPeriodMs(settings.commitPeriodMs())
                .setProcessingGuarantee(stock(settings.guarantee()))
                .setTupleTrackingEnforced(true)
                .build();
    }

    private static ProcessingGuarantee stock(TopologySettings.Guarantee guarantee) {
        return switch (guarantee) {
            case NO_GUARANTEE -> ProcessingGuarantee.NO_GUARANTEE;
            case AT_LEAST_ONCE -> ProcessingGuarantee.AT_LEAST_ONCE;
            case AT_MOST_ONCE -> ProcessingGuarantee.AT_MOST_ONCE;
        };
    }

    /** The input topic. */
    String topic() {
        return partitions.getTopicsString();
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        translator.open(context.getThisComponentId(), context.getThisTaskId(), collector::reportError);
        metadata = new CommitMetadataManager(context, guarantee);
        super.open(conf, context, collector);
    }

    @Override
    public void deactivate() {
        super.deactivate();
        commitEmitted();
    }

    @Override
    public void close() {
        try {
            commitEmitted();
        } finally {
            super.close();
        }
    }

    /**
     * Without a guarantee the stock spout commits only while it is active, and commits what it polled,
     * emitted or not. The commit here says what was emitted since the last one, with the metadata by which
     * the stock spout knows its own topology's commits. It is made once only: should the partition's next
     * reader have committed already, a repeated older commit would undo that.
     */
    private void commitEmitted() {
        Consumer<?, ?> consumer = partitions.consumer();
        if (guarantee != ProcessingGuarantee.NO_GUARANTEE || consumer == null) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
        translator.takeNextOffsets().forEach((partition, offset) ->
                commits.put(partition, new OffsetAndMetadata(offset, metadata.getCommitMetadata())));
        if (!commits.isEmpty()) {
            consumer.commitSync(commits);
        }
    }
}
