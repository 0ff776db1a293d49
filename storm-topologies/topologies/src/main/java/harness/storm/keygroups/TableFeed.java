package harness.storm.keygroups;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The routing tables of a keyed component as a topic of one partition has them, read in a thread of the worker's own.
 *
 * <p>All senders in a worker share one. Records for other topologies are left out: a topic outlives a submission. So are
 * records that are no tables, tables that do not fit, and those whose version is not the next; the worker's log says so.
 */
final class TableFeed implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(TableFeed.class);
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Map<String, TableFeed> SHARED = new HashMap<>();

    private final String id;
    private final String topology;
    private final KeyedTarget target;
    private final int tasks;
    private final List<RoutingTable> read = new CopyOnWriteArrayList<>();
    private int users;
    private volatile boolean open = true;

    private TableFeed(String id, String topology, KeyedTarget target, int tasks) {
        this.id = id;
        this.topology = topology;
        this.target = target;
        this.tasks = tasks;
    }

    /** The worker's feed for a component of a topology; to be closed by each who asked. */
    static TableFeed of(String topology, KeyedTarget target, int tasks) {
        String id = topology + " " + target.component();
        synchronized (SHARED) {
            TableFeed feed = SHARED.get(id);
            if (feed == null) {
                feed = new TableFeed(id, topology, target, tasks);
                SHARED.put(id, feed);
                Thread thread = new Thread(feed::read, "routing tables of " + target.component());
                thread.setDaemon(true);
                thread.start();
            }
            feed.users++;
            return feed;
        }
    }

    /** The table that follows a version, or null while it has not come. */
    RoutingTable after(long version) {
        return version < read.size() ? read.get((int) version) : null;
    }

    @Override
    public void close() {
        synchronized (SHARED) {
            users--;
            if (users == 0) {
                open = false;
                SHARED.remove(id);
            }
        }
    }

    private void read() {
        TopicPartition partition = new TopicPartition(target.topic(), 0);
        Map<String, Object> settings = new HashMap<>(target.broker());
        settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (open) {
                consumer.poll(POLL).records(partition).forEach(this::take);
            }
        } catch (KafkaException e) {
            LOG.error("no more routing tables of {} are read from {}", target.component(), target.topic(), e);
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record) {
        try {
            take(RoutingTable.decode(record.value()), String.valueOf(record.offset()));
        } catch (IOException e) {
            LOG.error("{}@{} is no routing table: {}", record.topic(), record.offset(), e.getMessage());
        }
    }

    private void take(RoutingTable table, String at) {
        if (!table.topology().equals(topology)) {
            return;
        }
        if (table.version() != read.size() + 1 || !table.fits(topology, target.groups(), tasks)) {
            LOG.error(
                    "{}@{}: version {} of the routing table with {} groups is left out: version {} comes next, with {} groups"
                            + " on tasks 0 to {}",
                    target.topic(), at, table.version(), table.tasks().size(), read.size() + 1, target.groups(), tasks - 1);
            return;
        }
        read.add(table);
    }
}
