package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import harness.storm.Line;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LineProtocolTest {

    /** The examples of InfluxDB's line protocol reference, on special characters. */
    @Test
    void specialCharactersAreEscapedAsTheReferenceSays() {
        assertEquals("my\\ meas\\,urement=1", LineProtocol.measurement("my meas,urement=1"));
        assertEquals("tag\\ Key\\,1\\=a", LineProtocol.tag("tag Key,1=a"));
        assertEquals("\"string \\\"within\\\" a \\\\ string\"", LineProtocol.field("string \"within\" a \\ string"));
        assertEquals("37i", LineProtocol.field(37L));
        assertEquals("1.0E19", LineProtocol.field(1e19));
    }

    @Test
    void whatIsWrittenIsReadBack() {
        Random random = new Random(2);
        for (int i = 0; i < 5_000; i++) {
            String stream = text(random, ", =\"ab:ü") + "\\x";
            String peer = text(random, ", =\"cd") + "y";
            String value = text(random, ", =\"\\[]{}i");
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put(text(random, ", =z") + "k", random.nextLong());
            fields.put("double", random.nextGaussian() * 1e12);
            fields.put("text", value);
            Map<String, Object> series = new Series().add("a b", stream, peer, fields).value();
            String key = series.keySet().stream().filter(name -> !name.equals(Series.END_MS)).findFirst().orElseThrow();

            Line line = Line.parse(key + " " + series.get(key) + " 17");

            assertEquals("a b", line.measurement());
            assertEquals(Map.of("stream", stream, "peer", peer), line.tags());
            assertEquals(fields, line.fields());
            assertEquals(17, line.timestampNs());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "a\nb", "a\rb", "ends with \\", "a\\,b", "a\\ b", "a\\=b"})
    void aNameThatNoLineCanHoldIsAnError(String name) {
        assertThrows(IllegalArgumentException.class, () -> LineProtocol.tag(name));
    }

    @Test
    void aValueThatNoLineCanHoldIsAnError() {
        assertThrows(IllegalArgumentException.class, () -> LineProtocol.field(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> LineProtocol.field(Double.POSITIVE_INFINITY));
        assertThrows(IllegalArgumentException.class, () -> LineProtocol.field("two\nlines"));
        assertThrows(IllegalArgumentException.class, () -> LineProtocol.field(new Object()));
    }

    @Test
    void aSeriesIsAddedOnce() {
        Series series = new Series().add("held", Map.of("members", "1/0"));
        assertThrows(IllegalArgumentException.class, () -> series.add("held", Map.of("members", "2/0")));
    }

    private static String text(Random random, String alphabet) {
        StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(6); i > 0; i--) {
            text.append(alphabet.charAt(random.nextInt(alphabet.length())));
        }
        return text.toString();
    }
}
