package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import harness.storm.instrument.Series;
import harness.storm.topologies.Fixtures.Prepared;
import harness.storm.topologies.Window.Kind;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.junit.jupiter.api.Test;

/** What windowed bolts report has the names of {@code metrics.json}, which Python's types make ({@code harness.schemas}). */
class HeldMembersTest {

    @Test
    void windowedBoltsReportTheListedMeasurementAndField() throws IOException {
        WindowBolt function = new WindowBolt(Fixtures.WORKLOAD, new Window(Kind.COUNT, 3, 3), null, List.of("default"));
        Prepared bolt = new Prepared(new ArrivalWindowExecutor(function, Fixtures.WORKLOAD, null),
            Map.of(Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS, 3600, Series.BUCKET_S, 2));
        try {
            String name = Series.PREFIX + "held";
            Object report = bolt.metrics.get(HeldMembers.PERIOD_S).get(Fixtures.TASK).get(name).getValueAndReset();
            List<String> reported = new ArrayList<>();
            ((Map<?, ?>) report).forEach((series, fields) -> {
                if (fields instanceof String text) { // the other value is the time
                    reported.add(series + " " + text.substring(0, text.indexOf('=')));
                }
            });
            assertEquals(listed(), reported);
        } finally {
            bolt.bolt.cleanup();
        }
    }

    private static List<String> listed() throws IOException {
        try (InputStream file = HeldMembersTest.class.getResourceAsStream("/metrics.json")) {
            List<String> listed = new ArrayList<>();
            for (Map.Entry<String, JsonNode> metric : new ObjectMapper().readTree(file).properties()) {
                if (metric.getValue().get("reporter").asText().equals("windowed test bolts")) {
                    metric.getValue().get("fields").forEach(field -> listed.add(metric.getKey() + " " + field.asText()));
                }
            }
            return listed;
        }
    }
}
