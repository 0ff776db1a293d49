package harness.storm.topologies;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * A record of the output topic, big-endian.
 *
 * <pre>
 * u8 version = 1
 * u8 length of the sink's name, the name (UTF-8)
 * u16 length of the path, the path (UTF-8)
 * i64 thesis_entered_ns
 * i32 number of members, the members as in {@link Members}
 * </pre>
 */
final class SinkRecord {
    private static final int VERSION = 1;
    private static final int MAX_NAME_BYTES = 0xFF;
    private static final int MAX_PATH_BYTES = 0xFFFF;

    private SinkRecord() {}

    /**
     * Writes a record.
     *
     * @throws IllegalArgumentException when the name or the path is too long for its length field
     */
    static byte[] encode(String sink, String path, long thesisEnteredNs, List<Member> members) {
        byte[] name = utf8(sink, MAX_NAME_BYTES);
        byte[] steps = utf8(path, MAX_PATH_BYTES);
        int size = 1 + 1 + name.length + 2 + steps.length + 8 + 4 + Members.sizeBytes(members);
        ByteBuffer out = ByteBuffer.allocate(size);
        out.put((byte) VERSION);
        out.put((byte) name.length).put(name);
        out.putShort((short) steps.length).put(steps);
        out.putLong(thesisEnteredNs);
        out.putInt(members.size());
        Members.put(members, out);
        return out.array();
    }

    private static byte[] utf8(String text, int limit) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > limit) {
            throw new IllegalArgumentException("longer than " + limit + " bytes: " + text);
        }
        return bytes;
    }
}
