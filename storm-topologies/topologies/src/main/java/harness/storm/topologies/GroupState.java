package harness.storm.topologies;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * A key group's state: of each key, how many tuples had it, and the payload of the last one.
 *
 * <p>So its size comes from the data. As it travels: i32 keys, and of each i32 length and bytes of the key, i64 tuples, i32
 * length and bytes of the payload; big-endian, text in UTF-8.
 */
final class GroupState {
    private static final int HEAD_BYTES = 4;
    private static final int ENTRY_BYTES = 4 + 8 + 4;

    private record Entry(long tuples, byte[] payload) {}

    private final Map<String, Entry> entries = new TreeMap<>();
    private long sizeBytes = HEAD_BYTES;

    /** Counts a tuple, and keeps its payload. */
    void add(String key, String payload) {
        Entry before = entries.get(key);
        put(key, new Entry(before == null ? 1 : before.tuples + 1, payload.getBytes(StandardCharsets.UTF_8)));
    }

    /** How many tuples had a key. */
    long tuples(String key) {
        Entry entry = entries.get(key);
        return entry == null ? 0 : entry.tuples;
    }

    /** How many tuples the group had. */
    long tuples() {
        return entries.values().stream().mapToLong(Entry::tuples).sum();
    }

    /** Bytes that {@link #encode} would write. */
    long sizeBytes() {
        return sizeBytes;
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) sizeBytes);
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeInt(entries.size());
            for (Map.Entry<String, Entry> each : entries.entrySet()) {
                writeBytes(out, each.getKey().getBytes(StandardCharsets.UTF_8));
                out.writeLong(each.getValue().tuples);
                writeBytes(out, each.getValue().payload);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("memory takes any number of bytes", e);
        }
        return bytes.toByteArray();
    }

    /**
     * Reads a state.
     *
     * @throws MalformedMessageException when the bytes end within it
     */
    static GroupState decode(byte[] bytes) throws MalformedMessageException {
        GroupState state = new GroupState();
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            for (int left = in.readInt(); left > 0; left--) {
                String key = new String(readBytes(in), StandardCharsets.UTF_8);
                long tuples = in.readLong();
                state.put(key, new Entry(tuples, readBytes(in)));
            }
        } catch (IOException e) {
            throw new MalformedMessageException("a key group's state ends within a key", e);
        }
        return state;
    }

    private void put(String key, Entry entry) {
        Entry before = entries.put(key, entry);
        long keyBytes = key.getBytes(StandardCharsets.UTF_8).length;
        sizeBytes += before == null ? ENTRY_BYTES + keyBytes : -before.payload.length;
        sizeBytes += entry.payload.length;
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }
}
