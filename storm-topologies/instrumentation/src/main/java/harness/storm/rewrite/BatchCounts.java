package harness.storm.rewrite;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** What became of one task's batches of one stream, since the last report. */
final class BatchCounts {
    /** Why a batch leaves. */
    enum Reason {
        /** It has as many rows as it may. */
        FULL,
        /** Its first row has waited as long as it may. */
        TIMED,
        /** Another tuple to the same task must not overtake it. */
        ORDERED,
        /** A tick, deactivation, the end, another batch size, or user code that says flush. */
        FORCED
    }

    private final long[] messages = new long[Reason.values().length];
    private long unbatched;
    private long tuples;
    private long capacity;
    private long bytes;
    private long bytesTuples;

    /** A batch has left, of so many that it could hold. */
    synchronized void sent(int rows, int size, Reason reason) {
        messages[reason.ordinal()]++;
        tuples += rows;
        capacity += size;
    }

    /** Tuples have left as they are, as batches have one row. */
    synchronized void sentAlone(int rows) {
        unbatched += rows;
        tuples += rows;
        capacity += rows;
    }

    /** From whichever thread Storm serialises in; more than once where a receiver has no room. */
    synchronized void serialised(int rows, long length) {
        bytesTuples += rows;
        bytes += length;
    }

    /** The fields of {@code batch}, with the size that holds now; starts again from zero. */
    synchronized Map<String, Object> drain(BatchSize size) {
        Map<String, Object> fields = new LinkedHashMap<>();
        long all = unbatched;
        for (long count : messages) {
            all += count;
        }
        fields.put("messages", all);
        fields.put("tuples", tuples);
        fields.put("capacity", capacity);
        for (Reason reason : Reason.values()) {
            fields.put(reason.name().toLowerCase(Locale.ROOT), messages[reason.ordinal()]);
            messages[reason.ordinal()] = 0;
        }
        fields.put("bytes", bytes);
        fields.put("bytes_tuples", bytesTuples);
        fields.put("size", size.size());
        fields.put("flush_ms", size.flushMs());
        unbatched = 0;
        tuples = 0;
        capacity = 0;
        bytes = 0;
        bytesTuples = 0;
        return fields;
    }
}
