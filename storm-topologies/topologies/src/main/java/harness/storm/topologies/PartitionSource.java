package harness.storm.topologies;

import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.storm.kafka.spout.subscription.NamedTopicFilter;
import org.apache.storm.kafka.spout.subscription.TopicFilter;

/**
 * The partitions of one topic, and the consumer that storm-kafka-client asks them of.
 *
 * <p>KafkaSpout keeps its consumer to itself, but shows it to its topic filter whenever it looks for
 * partitions (when activated, and every two seconds); {@link MessageSpout} needs it to commit.
 */
final class PartitionSource implements TopicFilter {
    private static final long serialVersionUID = 1L;

    private final NamedTopicFilter filter;
    private transient Consumer<?, ?> consumer;

    PartitionSource(String topic) {
        filter = new NamedTopicFilter(topic);
    }

    @Override
    public Set<TopicPartition> getAllSubscribedPartitions(Consumer<?, ?> consumer) {
        this.consumer = consumer;
        return filter.getAllSubscribedPartitions(consumer);
    }

    /** The spout's consumer; null before the first activation. */
    Consumer<?, ?> consumer() {
        return consumer;
    }

    @Override
    public String getTopicsString() {
        return filter.getTopicsString();
    }
}
