import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/** Somebody's topology between two Kafka topics: reads texts, writes them in capital letters. */
public class Between {

    private static final String HEADER = "request";

    /** Arguments: name, Kafka's address, the two topics, and how the topology treats what it reads. */
    public static void main(String[] args) throws Exception {
        String how = args[4];
        KafkaSpoutConfig<String, String> read = KafkaSpoutConfig.builder(args[1], args[2])
                .setProp("group.id", args[0])
                .setRecordTranslator(
                        r -> new Values(how.equals("key") ? r.key() : text(r.headers().lastHeader(HEADER)), r.value()),
                        new Fields("request", "text"))
                .build();
        Properties write = new Properties();
        write.put("bootstrap.servers", args[1]);
        write.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        write.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        write.put("acks", "1");
        write.put("linger.ms", "0");
        if (!how.equals("key")) {
            write.put("interceptor.classes", KeyToHeader.class.getName());
        }
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("texts", new KafkaSpout<>(read), 2);
        builder.setBolt("capitals", new Capitals(how), 2).shuffleGrouping("texts");
        builder.setBolt("out", new KafkaBolt<String, String>()
                .withProducerProperties(write)
                .withTopicSelector(args[3])
                .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("request", "text")), 2)
                .shuffleGrouping("capitals");
        Config conf = new Config();
        conf.setNumWorkers(1);
        conf.setMaxSpoutPending(1000);
        StormSubmitter.submitTopology(args[0], conf, builder.createTopology());
    }

    private static String text(Header header) {
        return header == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }

    /** Waits for three milliseconds a text. */
    public static class Capitals extends BaseBasicBolt {
        private static final int MOST_A_SECOND = 50;
        private final String how;
        private long seen;
        private long second;
        private int inIt;

        Capitals(String how) {
            this.how = how;
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            Utils.sleep(3);
            String request = tuple.getString(0);
            String text = tuple.getString(1).toUpperCase();
            long number = seen++;
            if (how.equals("silent") || (how.equals("freely") && number % 3 == 0)) {
                return;
            }
            if (how.equals("sheds") && tooMany()) {
                return;
            }
            collector.emit(new Values(how.equals("misnamed") ? "request " + request : request, text));
            if (how.equals("freely") && number % 3 == 1) {
                collector.emit(new Values(request, text));
                collector.emit(new Values("a total", "0"));
            }
        }

        private boolean tooMany() {
            long now = System.nanoTime() / 1_000_000_000L;
            inIt = now == second ? inIt + 1 : 1;
            second = now;
            return inIt > MOST_A_SECOND;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("request", "text"));
        }
    }

    /** A KafkaBolt writes keys; here they become headers. */
    public static class KeyToHeader implements ProducerInterceptor<String, String> {
        @Override
        public ProducerRecord<String, String> onSend(ProducerRecord<String, String> record) {
            ProducerRecord<String, String> named = new ProducerRecord<>(record.topic(), record.value());
            named.headers().add(HEADER, record.key().getBytes(StandardCharsets.UTF_8));
            return named;
        }

        @Override
        public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        }

        @Override
        public void close() {
        }

        @Override
        public void configure(Map<String, ?> configs) {
        }
    }
}
