package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RowTest {
    private static final String PAYLOAD = "at_s=1.5;tail=N17;year=1987;lat=57.64911;lon=10.40744";

    @Test
    void itsFieldsMakeAKey() throws Exception {
        Row row = Row.parse(PAYLOAD);
        assertEquals(1.5, row.number("at_s"));
        assertEquals("N17/1987", row.key(List.of("tail", "year")));
        assertEquals("u4pr", row.key(List.of("geohash-4")));
        assertEquals(PAYLOAD, row.payload());
        row.put("sum", 12);
        assertEquals(PAYLOAD + ";sum=12", row.payload());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "text", "=1"})
    void anotherPayloadIsNoRow(String payload) {
        assertThrows(MalformedMessageException.class, () -> Row.parse(payload));
    }

    @Test
    void whatItHasNotIsSaid() throws Exception {
        Row row = Row.parse("tail=N17");
        Exception missing = assertThrows(MalformedMessageException.class, () -> row.text("year"));
        assertEquals("a row has no field year", missing.getMessage());
        Exception text = assertThrows(MalformedMessageException.class, () -> row.number("tail"));
        assertEquals("a row's field tail is no number", text.getMessage());
    }

    /** Examples of Wikipedia's article "Geohash": 57.64911, 10.40744 and 42.6, -5.6; corners by the definition. */
    @ParameterizedTest
    @CsvSource({
        "57.64911, 10.40744, u4pruydqqvj",
        "42.605, -5.603, ezs42",
        "0, 0, s00",
        "-90, -180, 000",
        "90, 180, zzz",
    })
    void aPlaceHasACell(double lat, double lon, String cell) {
        assertEquals(cell, Geohash.of(lat, lon, cell.length()));
    }
}
