package harness.storm.topologies;

import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;

/** A real Kafka broker in this JVM, on free ports of the loopback address, with clients for a test. */
final class Broker implements AutoCloseable {
    private static final String CONTROLLER = "CONTROLLER";

    private final String bootstrap;
    private final KafkaRaftServer server;
    private final Admin admin;
    private final KafkaProducer<byte[], byte[]> producer;

    Broker(Path folder) throws Exception {
        int port = freePort();
        int controllerPort = freePort();
        bootstrap = "127.0.0.1:" + port;
        Properties settings = new Properties();
        settings.put("process.roles", "broker,controller");
        settings.put("node.id", "1");
        settings.put("controller.quorum.voters", "1@127.0.0.1:" + controllerPort);
        settings.put("controller.listener.names", CONTROLLER);
        settings.put("listeners", "PLAINTEXT://" + bootstrap + "," + CONTROLLER + "://127.0.0.1:" + controllerPort);
        settings.put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT," + CONTROLLER + ":PLAINTEXT");
        settings.put("log.dirs", folder.toString());
        settings.put("offsets.topic.replication.factor", "1");
        settings.put("offsets.topic.num.partitions", "1");
        settings.put("group.initial.rebalance.delay.ms", "0");
        settings.put("auto.create.topics.enable", "false");
        format(folder);
        server = new KafkaRaftServer(new KafkaConfig(settings), Time.SYSTEM);
        server.startup();
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        // Not idempotent: on a topic just created a first batch may be refused and the second taken, and
        // then the broker refuses the first for good, as out of order.
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "enable.idempotence", false),
                new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void format(Path folder) throws Exception {
        new Formatter()
                .setNodeId(1)
                .setClusterId(Uuid.randomUuid().toString())
                .addDirectory(folder.toString())
                .setMetadataLogDirectory(Optional.of(folder.toString()))
                .setControllerListenerName(CONTROLLER)
                .setPrintStream(new PrintStream(OutputStream.nullOutputStream()))
                .run();
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    String bootstrap() {
        return bootstrap;
    }

    void createTopics(int partitions, String... names) throws ExecutionException, InterruptedException {
        List<NewTopic> topics = new ArrayList<>();
        for (String name : names) {
            topics.add(new NewTopic(name, partitions, (short) 1));
        }
        admin.createTopics(topics).all().get();
    }

    void send(String topic, int partition, String json) {
        producer.send(new ProducerRecord<>(topic, partition, null, json.getBytes(StandardCharsets.UTF_8)));
    }

    void flush() {
        producer.flush();
    }

    /** The offsets that a consumer group has committed. */
    Map<TopicPartition, OffsetAndMetadata> committed(String group) throws ExecutionException, InterruptedException {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    /** A consumer of all of a topic's partitions, from their beginnings. */
    KafkaConsumer<byte[], byte[]> read(String topic) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Set<TopicPartition> partitions = new HashSet<>();
        consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        return consumer;
    }

    static List<byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        List<byte[]> values = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
            values.add(record.value());
        }
        return values;
    }

    @Override
    public void close() {
        producer.close();
        admin.close();
        server.shutdown();
        server.awaitShutdown();
    }
}
