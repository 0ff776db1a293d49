package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MessageTest {

    @Test
    void readsWhatTheGeneratorWrites() throws MalformedMessageException {
        Message message = Message.fromInput(bytes("{\"message_id\": 9007199254740993, \"payload\": \"\u00fc\"}"));
        assertEquals(new Message(9007199254740993L, 0, "\u00fc", "", null), message);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "",
        "null",
        "[]",
        "{",
        "{\"message_id\": 1}",
        "{\"payload\": \"x\"}",
        "{\"message_id\": null, \"payload\": \"x\"}",
        "{\"message_id\": \"1\", \"payload\": \"x\"}",
        "{\"message_id\": 1.5, \"payload\": \"x\"}",
        "{\"message_id\": 1, \"payload\": null}",
        "{\"message_id\": 1, \"payload\": \"x\", \"more\": 1}"
    })
    void refusesAnythingElse(String json) {
        assertThrows(MalformedMessageException.class, () -> Message.fromInput(bytes(json)));
    }

    @Test
    void refusesARecordWithoutValue() {
        assertThrows(MalformedMessageException.class, () -> Message.fromInput(null));
    }

    @Test
    void jsonRoundTrip() throws MalformedMessageException {
        Message before = new Message(1, 2, "a \"quoted\"\n\u00fc", "spout:1/b:2", null);
        String json = "{\"message_id\":1,\"child\":2,\"payload\":\"a \\\"quoted\\\"\\n\u00fc\",\"path\":\"spout:1/b:2\"}";
        assertEquals(json, before.toJson());
        assertEquals(before, Message.parse(before.toJson()));
        Message after = before.entered(77);
        assertEquals(after, Message.parse(after.toJson()));
    }

    @Test
    void thePathGrowsAndCountsTheHops() {
        Message message = new Message(1, 0, "", "", null);
        assertEquals(0, message.hop());
        assertEquals("spout:3", message.via("spout", 3).path());
        assertEquals(1, message.via("spout", 3).hop());
        assertEquals("spout:3/bolt-a:20", message.via("spout", 3).via("bolt-a", 20).path());
        assertEquals(2, message.via("spout", 3).via("bolt-a", 20).hop());
    }

    @Test
    void theEntryTimeIsTheWindowsOrTheMembers() {
        List<Member> members = List.of(Fixtures.member(1, 1, 40));
        Message message = Fixtures.message(1, 1);
        assertEquals(40, message.entryNs(members));
        assertEquals(30, message.entered(30).entryNs(members));
        assertEquals(30, message.entered(30).entryNs(List.of()));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
