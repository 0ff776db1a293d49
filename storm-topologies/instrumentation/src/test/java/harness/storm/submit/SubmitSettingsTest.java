package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import harness.storm.rewrite.BatchSize;
import harness.storm.rewrite.HelpSettings;
import harness.storm.rewrite.Watermarks;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONObject;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SubmitSettingsTest {
    private static final String VALID = """
        {"answer": "/answer.json", "nimbus": {"host": "127.0.0.1", "port": 6627}, "jar": "/a.jar", "main": "a.Main", "args": ["/t.json"],
         "patience_s": 60, "instrument": true, "components": {"a": {"executors": 1, "tasks": 4}},
         "batching": {"a:s": {"size": 20, "flush_ms": 5}},
         "helping": {"a": {"delta": 0.1, "high_pct": 50, "low_pct": 10}}, "backpressure": {"high_pct": 60, "low_pct": 20},
         "storm": {"topology.workers": 2},
         "metrics": {"url": "http://127.0.0.1:8086/write", "token_file": "", "ca_file": "", "spool": "", "topology": "t",
                     "bucket_s": 2, "consumers": 1}}""";

    @TempDir
    Path folder;

    @Test
    void allOfItIsRead() throws IOException {
        assertEquals(new SubmitSettings(Path.of("/answer.json"), new SubmitSettings.Address("127.0.0.1", 6627), Path.of("/a.jar"), "a.Main",
            List.of("/t.json"), 60, true, new SubmitSettings.Metrics("http://127.0.0.1:8086/write", "", "", "", "t", 2, 1),
            Map.of("a", new SubmitSettings.Size(1, 4)), Map.of("a:s", new BatchSize(20, 5)),
            Map.of("a", new HelpSettings(0.1, new Watermarks(50, 10))), new Watermarks(60, 20), Map.of("topology.workers", 2)),
            read(VALID));
    }

    @Test
    void spoutsPauseOnlyWhereItIsAsked() throws IOException {
        assertNull(read(VALID.replace("{\"high_pct\": 60, \"low_pct\": 20}", "null")).backpressure());
    }

    @Test
    void withoutNimbusTheTopologyIsToBeDescribed() throws IOException {
        assertNull(read(VALID.replace("{\"host\": \"127.0.0.1\", \"port\": 6627}", "null")).nimbus());
    }

    @ParameterizedTest
    @ValueSource(strings = {"answer", "nimbus", "nimbus.host", "nimbus.port", "jar", "main", "args", "patience_s", "instrument",
        "components", "components.a.tasks", "batching", "batching.a:s.size", "batching.a:s.flush_ms", "helping", "helping.a.delta", "helping.a.high_pct", "helping.a.low_pct", "backpressure",
        "backpressure.high_pct", "backpressure.low_pct", "storm", "metrics", "metrics.url", "metrics.token_file", "metrics.ca_file", "metrics.spool",
        "metrics.topology", "metrics.bucket_s", "metrics.consumers"})
    void aMissingKeyIsNamed(String key) throws IOException {
        JSONObject json = (JSONObject) JSONValue.parse(VALID);
        JSONObject parent = json;
        String[] path = key.split("\\.");
        for (int i = 0; i < path.length - 1; i++) {
            parent = (JSONObject) parent.get(path[i]);
        }
        parent.remove(path[path.length - 1]);
        assertError("missing key " + key, json.toJSONString());
    }

    @Test
    void anUnknownKeyIsNamed() throws IOException {
        assertError("unknown key metrics.buckets", VALID.replace("\"bucket_s\"", "\"buckets\": 3, \"bucket_s\""));
        assertError("unknown key jars", VALID.replace("\"jar\"", "\"jars\": 3, \"jar\""));
    }

    @Test
    void aWrongValueIsNamed() throws IOException {
        assertError("metrics.bucket_s must be a whole number above 0, not 0", VALID.replace("\"bucket_s\": 2",
            "\"bucket_s\": 0"));
        assertError("nimbus.port must be a whole number above 0, not 1.5", VALID.replace("6627", "1.5"));
        assertError("nimbus.port must be a whole number above 0, not \"x\"", VALID.replace("6627", "\"x\""));
        assertError("batching.a:s.size must be a whole number above 0, not 0", VALID.replace("\"size\": 20", "\"size\": 0"));
        assertError("batching.a:s.flush_ms must be a whole number above 0, not -1",
            VALID.replace("\"flush_ms\": 5", "\"flush_ms\": -1"));
        assertError("helping.a.delta must be between 0 and 1, not 1.0", VALID.replace("0.1", "1"));
        assertError("helping.a.low_pct must be below high_pct, both between 0 and 100, not 50.0 and 50.0",
            VALID.replace("\"low_pct\": 10", "\"low_pct\": 50"));
        assertError("backpressure.high_pct must be a number, not \"x\"", VALID.replace("\"high_pct\": 60", "\"high_pct\": \"x\""));
        assertError("args must be a list of texts, not [1]", VALID.replace("[\"/t.json\"]", "[1]"));
        assertError("instrument must be true or false, not null", VALID.replace("true", "null"));
    }

    @Test
    void whatIsNoJsonObjectIsNamed() throws IOException {
        Path file = file("[]");
        assertEquals(file + " is not a JSON object",
            assertThrows(SubmitException.class, () -> SubmitSettings.read(file)).getMessage());
        Path gone = folder.resolve("gone.json");
        assertEquals("cannot read the settings " + gone + ": " + gone,
            assertThrows(SubmitException.class, () -> SubmitSettings.read(gone)).getMessage());
    }

    private void assertError(String message, String json) throws IOException {
        Path file = file(json);
        SubmitException error = assertThrows(SubmitException.class, () -> SubmitSettings.read(file));
        assertEquals(file + ": " + message, error.getMessage());
        assertEquals(2, error.status());
    }

    private SubmitSettings read(String json) throws IOException {
        return SubmitSettings.read(file(json));
    }

    private Path file(String json) throws IOException {
        return Files.writeString(folder.resolve("submit.json"), json);
    }
}
