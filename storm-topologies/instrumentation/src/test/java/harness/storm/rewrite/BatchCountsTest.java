package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.Test;

/** What batches report has the names of {@code metrics.json}, which Python's types make ({@code harness.schemas}). */
class BatchCountsTest {

    @Test
    void batchesReportTheListedFields() throws IOException {
        try (InputStream file = BatchCountsTest.class.getResourceAsStream("/metrics.json")) {
            Map<?, ?> listed = (Map<?, ?>) JSONValue.parse(new String(file.readAllBytes(), StandardCharsets.UTF_8));
            assertEquals(((Map<?, ?>) listed.get("batch")).get("fields"), List.copyOf(new BatchCounts().drain(new BatchSize(20, 5)).keySet()));
        }
    }
}
