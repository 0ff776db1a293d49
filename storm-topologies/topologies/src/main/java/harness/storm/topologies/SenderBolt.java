package harness.storm.topologies;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;

/**
 * Writes every tuple to the output topic as a {@link SinkRecord}, with a producer of its own.
 *
 * <p>A tuple is acked as soon as the producer has taken the record, not when the broker has it: the
 * thesis's sender does so, and its complete latency ends there. The producer's batching and the broker
 * are in {@code broker_ms} instead. The price is that a record the broker refuses later belongs to a
 * tuple that is already acked: it is reported as an error of this component (which Nimbus shows), and
 * the ledger misses it. A record that the producer does not even take fails its tuple.
 */
class SenderBolt extends MessageBolt {
    private static final long serialVersionUID = 1L;
    /** Long enough to send what is batched; Storm kills a worker that takes much longer to end. */
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(2);

    private final TopologySettings.Sink sink;
    private transient Producer<byte[], byte[]> producer;

    SenderBolt(Workload workload, ServiceTime service, TopologySettings.Sink sink) {
        super(workload, service);
        this.sink = sink;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        super.prepare(conf, context, collector);
        producer = connect();
    }

    /** Creates the producer; a test gives its own. */
    Producer<byte[], byte[]> connect() {
        Map<String, Object> properties = new HashMap<>(sink.producer());
        properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, sink.bootstrap());
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    void process(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        String path = message.via(component, task).path();
        long thesisEnteredNs = message.entryNs(members);
        long leftNs = System.nanoTime();
        List<Member> left = Members.via(members, new Hop(task, receivedNs, leftNs));
        byte[] value = SinkRecord.encode(component, path, thesisEnteredNs, left);
        try {
            // The callback runs in the producer's thread; reportError may be called from there.
            producer.send(new ProducerRecord<>(sink.topic(), value), (metadata, e) -> {
                if (e != null) {
                    collector.reportError(e);
                }
            });
        } catch (KafkaException e) {
            collector.reportError(e);
            collector.fail(tuple);
            return;
        }
        collector.ack(tuple);
    }

    @Override
    public void cleanup() {
        producer.close(CLOSE_TIMEOUT);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        // A sink has no output stream.
    }
}
