package harness.storm.rewrite;

import java.util.ArrayList;
import java.util.List;

/** Rows of one stream on their way from one task to another: the only value of a tuple on a hidden stream. */
public final class Batch {
    private final ArrayList<List<Object>> rows;
    private final transient BatchCounts counts;

    Batch(int expected, BatchCounts counts) {
        this.rows = new ArrayList<>(expected);
        this.counts = counts;
    }

    void add(List<Object> row) {
        rows.add(row);
    }

    int size() {
        return rows.size();
    }

    List<Object> row(int index) {
        return rows.get(index);
    }

    /** It was written for another worker, and took so many bytes. */
    void serialised(long bytes) {
        if (counts != null) {
            counts.serialised(rows.size(), bytes);
        }
    }

    @Override
    public String toString() {
        return rows.toString();
    }
}
