package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.io.Serializable;
import java.util.Collection;

/**
 * What a keyed component makes of its tuples' rows: the state of a tuple's key is brought up to date, and the row goes on with
 * the result. One tuple goes out for each that comes in, whatever the windows.
 *
 * <p>Windows are of the rows' own time, {@code at_s}: number {@code floor(at_s / window_s)}. A group's state is of one window;
 * the first row of a later one empties it. A row of an earlier window goes on uncounted.
 *
 * @param kind what is made
 * @param of the field that is summed, or whose values are counted; null for merge-top-k
 * @param k how many of the greatest; null for sum
 * @param windowS seconds of a window; null but for top-k
 */
record Aggregate(Kind kind, String of, Integer k, Integer windowS) implements Serializable {
    /** When a row was made, in seconds. */
    static final String AT_S = "at_s";

    /** What is made. */
    enum Kind {
        /** Of each key the sum of a field, over all its rows: {@code sum}. */
        @JsonProperty("sum")
        SUM {
            @Override
            void add(Aggregate asked, GroupState state, String key, Row row) throws MalformedMessageException {
                double sum = state.add(key, "sum", row.number(asked.of));
                row.put("sum", Math.round(sum));
            }
        },
        /**
         * Of each key and window the number of rows with each value of a field. The row goes on with its value's {@code count}, 0
         * unless fewer than k values have more; with the {@code window}; and with the key, as {@code counted_for}.
         */
        @JsonProperty("top-k")
        TOP_K {
            @Override
            void add(Aggregate asked, GroupState state, String key, Row row) throws MalformedMessageException {
                long window = (long) Math.floor(row.number(AT_S) / asked.windowS);
                double count = 0;
                if (state.in(window)) {
                    double counted = state.add(key, row.text(asked.of), 1);
                    count = asked.isGreat(counted, state.numbers(key)) ? counted : 0;
                }
                row.put("window", window);
                row.put("counted_for", key);
                row.put("count", (long) count);
            }
        },
        /**
         * Merges what a top-k counted of the same window, for a key that is the counted value. Of each key the last count of every
         * {@code counted_for}. The row goes on with the sum of these as {@code total}, 0 unless fewer than k keys of the group have
         * more. The k greatest of all are thus among the k of their groups.
         */
        @JsonProperty("merge-top-k")
        MERGE_TOP_K {
            @Override
            void add(Aggregate asked, GroupState state, String key, Row row) throws MalformedMessageException {
                double count = row.number("count");
                double total = 0;
                if (state.in((long) row.number("window")) && count > 0) {
                    double merged = state.put(key, row.text("counted_for"), count);
                    total = asked.isGreat(merged, state.sums()) ? merged : 0;
                }
                row.put("total", (long) total);
            }
        };

        abstract void add(Aggregate asked, GroupState state, String key, Row row) throws MalformedMessageException;
    }

    Aggregate {
        Checks.present("kind", kind);
        boolean merging = kind == Kind.MERGE_TOP_K;
        Checks.that(merging == (of == null), "of is for sum and top-k, and required there");
        Checks.that((kind == Kind.SUM) == (k == null), "k is for top-k and merge-top-k, and required there");
        Checks.that((kind == Kind.TOP_K) == (windowS != null), "window_s is for top-k, and required there");
        Checks.that(k == null || k >= 1, "k has to be at least 1, not " + k);
        Checks.that(windowS == null || windowS >= 1, "window_s has to be at least 1, not " + windowS);
    }

    /** Brings a key's state up to date, and puts the result into the row. */
    void add(GroupState state, String key, Row row) throws MalformedMessageException {
        kind.add(this, state, key, row);
    }

    /** Whether fewer than k have more; those that are alike share a place. */
    private boolean isGreat(double number, Collection<Double> all) {
        return all.stream().filter(other -> other > number).limit(k).count() < k;
    }
}
