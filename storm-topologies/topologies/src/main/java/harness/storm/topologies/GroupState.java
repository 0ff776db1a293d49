package harness.storm.topologies;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A key group's state: of each key, how many tuples had it, and the payload of the last one or the numbers of an {@link
 * Aggregate}.
 *
 * <p>So its size comes from the data. As it travels: i64 window, i32 keys, and of each key i32 length and bytes of the key, i64
 * tuples, i32 length and bytes of the payload, i32 numbers, and of each i32 length and bytes of its name, f64; big-endian, text
 * in UTF-8.
 */
final class GroupState {
    private static final int HEAD_BYTES = 8 + 4;
    private static final int ENTRY_BYTES = 4 + 8 + 4 + 4;
    private static final int NUMBER_BYTES = 4 + 8;

    private static final class Entry {
        private long tuples;
        private byte[] payload = {};
        private final Map<String, Double> numbers = new TreeMap<>();

        double sum() {
            return numbers.values().stream().mapToDouble(Double::doubleValue).sum();
        }
    }

    private final Map<String, Entry> entries = new TreeMap<>();
    private long sizeBytes = HEAD_BYTES;
    private long window;

    /** Counts a tuple, and keeps its payload. */
    void count(String key, String payload) {
        keep(counted(key), payload.getBytes(StandardCharsets.UTF_8));
    }

    /** Counts a tuple, adds to one of its key's numbers, and returns this number. */
    double add(String key, String name, double amount) {
        Entry entry = counted(key);
        return set(entry, name, entry.numbers.getOrDefault(name, 0.0) + amount);
    }

    /** Counts a tuple, sets one of its key's numbers, and returns the sum of all that the key has. */
    double put(String key, String name, double number) {
        Entry entry = counted(key);
        set(entry, name, number);
        return entry.sum();
    }

    /** The numbers of a key. */
    Collection<Double> numbers(String key) {
        Entry entry = entries.get(key);
        return entry == null ? List.of() : List.copyOf(entry.numbers.values());
    }

    /** Of each key the sum of its numbers. */
    Collection<Double> sums() {
        return entries.values().stream().map(Entry::sum).toList();
    }

    /** Whether the state is of this window: a later one than before empties it. */
    boolean in(long number) {
        if (number > window) {
            entries.clear();
            sizeBytes = HEAD_BYTES;
            window = number;
        }
        return number == window;
    }

    /** How many of the state's tuples had a key. */
    long tuples(String key) {
        Entry entry = entries.get(key);
        return entry == null ? 0 : entry.tuples;
    }

    /** How many tuples made the state. */
    long tuples() {
        return entries.values().stream().mapToLong(entry -> entry.tuples).sum();
    }

    /** Bytes that {@link #encode} would write. */
    long sizeBytes() {
        return sizeBytes;
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) sizeBytes);
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeLong(window);
            out.writeInt(entries.size());
            for (Map.Entry<String, Entry> each : entries.entrySet()) {
                writeBytes(out, utf8(each.getKey()));
                Entry entry = each.getValue();
                out.writeLong(entry.tuples);
                writeBytes(out, entry.payload);
                out.writeInt(entry.numbers.size());
                for (Map.Entry<String, Double> number : entry.numbers.entrySet()) {
                    writeBytes(out, utf8(number.getKey()));
                    out.writeDouble(number.getValue());
                }
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
            state.window = in.readLong();
            for (int left = in.readInt(); left > 0; left--) {
                Entry entry = state.entry(new String(readBytes(in), StandardCharsets.UTF_8));
                entry.tuples = in.readLong();
                state.keep(entry, readBytes(in));
                for (int numbers = in.readInt(); numbers > 0; numbers--) {
                    String name = new String(readBytes(in), StandardCharsets.UTF_8);
                    state.set(entry, name, in.readDouble());
                }
            }
        } catch (IOException e) {
            throw new MalformedMessageException("a key group's state ends within a key", e);
        }
        return state;
    }

    private Entry counted(String key) {
        Entry entry = entry(key);
        entry.tuples++;
        return entry;
    }

    private Entry entry(String key) {
        return entries.computeIfAbsent(key, added -> {
            sizeBytes += ENTRY_BYTES + utf8(added).length;
            return new Entry();
        });
    }

    private void keep(Entry entry, byte[] payload) {
        sizeBytes += payload.length - entry.payload.length;
        entry.payload = payload;
    }

    private double set(Entry entry, String name, double number) {
        if (entry.numbers.put(name, number) == null) {
            sizeBytes += NUMBER_BYTES + utf8(name).length;
        }
        return number;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
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
