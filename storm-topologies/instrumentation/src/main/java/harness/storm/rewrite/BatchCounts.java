package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.util.LinkedHashMap;
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
        /** A tick, deactivation, the end, or user code that says flush. */
        FORCED
    }

    private final String stream;
    private final int size;
    private final long[] messages = new long[Reason.values().length];
    private long unbatched;
    private long tuples;
    private long bytes;
    private long bytesTuples;

    BatchCounts(String stream, int size) {
        this.stream = stream;
        this.size = size;
    }

    /** A batch has left. */
    synchronized void sent(int rows, Reason reason) {
        messages[reason.ordinal()]++;
        tuples += rows;
    }

    /** Tuples have left as they are, as batches have one row. */
    synchronized void sentAlone(int rows) {
        unbatched += rows;
        tuples += rows;
    }

    /** From whichever thread Storm serialises in; more than once where a receiver has no room. */
    synchronized void serialised(int rows, long length) {
        bytesTuples += rows;
        bytes += length;
    }

    /** Adds {@code batch} and starts again from zero. */
    synchronized void drainTo(Series series) {
        Map<String, Object> fields = new LinkedHashMap<>();
        long all = unbatched;
        for (long count : messages) {
            all += count;
        }
        fields.put("messages", all);
        fields.put("tuples", tuples);
        fields.put("capacity", all * size);
        for (Reason reason : Reason.values()) {
            fields.put(reason.name().toLowerCase(java.util.Locale.ROOT), messages[reason.ordinal()]);
            messages[reason.ordinal()] = 0;
        }
        fields.put("bytes", bytes);
        fields.put("bytes_tuples", bytesTuples);
        series.add("batch", stream, "", fields);
        unbatched = 0;
        tuples = 0;
        bytes = 0;
        bytesTuples = 0;
    }
}
