package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import harness.storm.Receiver;
import java.util.List;
import java.util.Map;
import org.apache.storm.metric.api.IMetricsConsumer.DataPoint;
import org.apache.storm.metric.api.IMetricsConsumer.TaskInfo;
import org.junit.jupiter.api.Test;

class LineProtocolConsumerTest {
    private static final TaskInfo TASK = new TaskInfo("node 1", 6701, "my bolt,a=b", 12, 1_700_000_000L, 2);

    @Test
    void onlyTheHarnessMetricsAreSentWithTheTagsOfTheirTask() throws Exception {
        try (Receiver receiver = new Receiver()) {
            LineProtocolConsumer consumer = new LineProtocolConsumer();
            consumer.prepare(Map.of(), Map.of("url", receiver.url(), "token_file", "", "ca_file", "", "spool", "",
                "topology", "t 1"), new Contexts().task(5), null);
            long before = System.currentTimeMillis();
            Map<String, Object> series = new Series().add("transferred", "default", "41", Map.of("count", 37L)).value();
            consumer.handleDataPoints(TASK, List.of(
                new DataPoint("__emit-count", Map.of("default", 3L)),
                new DataPoint("harness.bolt", series),
                new DataPoint("user's own", 1)));
            List<String> lines = receiver.await(all -> !all.isEmpty());
            consumer.cleanup();

            assertEquals(1, lines.size());
            Line line = Line.parse(lines.get(0));
            assertEquals("transferred", line.measurement());
            assertEquals(Map.of("stream", "default", "peer", "41", "topology", "t 1", "component", "my bolt,a=b",
                "task", "12", "host", "node 1", "port", "6701"), line.tags());
            assertEquals(Map.of("count", 37L), line.fields());
            assertEquals(0, line.timestampNs() % 1_000_000);
            assertTrue(line.timestampNs() / 1_000_000 >= before, "the time is the bucket's end to the millisecond");
        }
    }

    @Test
    void aMetricInTheHarnessNameThatIsNotASeriesIsCountedAsDropped() throws Exception {
        try (Receiver receiver = new Receiver()) {
            LineProtocolConsumer consumer = new LineProtocolConsumer();
            consumer.prepare(Map.of(), Map.of("url", receiver.url(), "token_file", "", "ca_file", "", "spool", "",
                "topology", "t"), new Contexts().task(5), null);
            consumer.handleDataPoints(TASK, List.of(new DataPoint("harness.odd", 1)));
            Line line = Line.parse(receiver.await(all -> !all.isEmpty()).get(0));
            consumer.cleanup();
            assertEquals("consumer", line.measurement());
            assertEquals(Map.of("dropped", 1L), line.fields());
            assertEquals("end", line.tag("component"));
        }
    }

    @Test
    void aMissingArgumentIsNamed() {
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () ->
            new LineProtocolConsumer().prepare(Map.of(), Map.of("topology", "t"), new Contexts().task(5), null));
        assertTrue(error.getMessage().contains("'url'"), error.getMessage());
    }
}
