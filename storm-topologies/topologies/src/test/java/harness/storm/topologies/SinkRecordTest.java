package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

class SinkRecordTest {

    /** Written out by hand from the layout in SinkRecord's documentation; the umlaut has two bytes. */
    @Test
    void layout() {
        Member member = new Member(1, 0, 2, List.of());
        byte[] record = SinkRecord.encode("s", "p:1/\u00fc:2", 255, List.of(member, member));
        String expectedMember = "0000000000000001" + "00000000" + "0000000000000002" + "0000";
        String expected = "01" + "01" + "73" + "0008" + "703a312fc3bc3a32" + "00000000000000ff" + "00000002"
                + expectedMember + expectedMember;
        assertEquals(expected, HexFormat.of().formatHex(record));
    }

    @Test
    void textsThatAreTooLongAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> SinkRecord.encode("x".repeat(256), "", 0, List.of()));
        assertThrows(IllegalArgumentException.class, () -> SinkRecord.encode("s", "p".repeat(65536), 0, List.of()));
        assertEquals(1 + 1 + 255 + 2 + 65535 + 8 + 4,
                SinkRecord.encode("x".repeat(255), "p".repeat(65535), 0, List.of()).length);
    }
}
