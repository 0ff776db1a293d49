package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import harness.storm.topologies.Aggregate.Kind;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Results counted by hand, and against plain counting. */
class AggregateTest {
    private static final Aggregate SUM = new Aggregate(Kind.SUM, "delay", null, null);
    private static final Aggregate TOP = new Aggregate(Kind.TOP_K, "article", 2, 60);
    private static final Aggregate MERGE = new Aggregate(Kind.MERGE_TOP_K, null, 2, null);

    private static String after(Aggregate aggregate, GroupState state, String key, String payload) throws Exception {
        Row row = Row.parse(payload);
        aggregate.add(state, key, row);
        return row.payload().substring(payload.length());
    }

    @Test
    void aSumIsOfAKey() throws Exception {
        GroupState state = new GroupState();
        assertEquals(";sum=12", after(SUM, state, "N1/1987", "delay=12"));
        assertEquals(";sum=-3", after(SUM, state, "N2/1987", "delay=-3"));
        assertEquals(";sum=7", after(SUM, state, "N1/1987", "delay=-5"));
        assertEquals(3, state.tuples());
        assertEquals(List.of(7.0), state.numbers("N1/1987"));
    }

    /** Articles a, b, c of cell X have 2, 2, 1 edits: a third place is not among two. A minute begins with nothing. */
    @Test
    void aTopIsOfAKeyAndAWindow() throws Exception {
        GroupState state = new GroupState();
        assertEquals(";window=0;counted_for=X;count=1", top(state, "X", "a", 1));
        assertEquals(";window=0;counted_for=X;count=2", top(state, "X", "a", 2));
        assertEquals(";window=0;counted_for=X;count=1", top(state, "X", "b", 3));
        assertEquals(";window=0;counted_for=X;count=2", top(state, "X", "b", 4));
        assertEquals(";window=0;counted_for=X;count=0", top(state, "X", "c", 5));
        assertEquals(";window=0;counted_for=Y;count=1", top(state, "Y", "c", 59.9));
        assertEquals(";window=1;counted_for=X;count=1", top(state, "X", "c", 60));
        assertEquals(";window=0;counted_for=X;count=0", top(state, "X", "a", 59.95));
        assertEquals(1, state.tuples());
    }

    private static String top(GroupState state, String cell, String article, double atS) throws Exception {
        return after(TOP, state, cell, "at_s=" + atS + ";article=" + article);
    }

    @Test
    void aMergeSumsTheLastCountOfEachCell() throws Exception {
        GroupState state = new GroupState();
        assertEquals(";total=2", merged(state, "a", 0, "X", 2));
        assertEquals(";total=5", merged(state, "a", 0, "Y", 3));
        assertEquals(";total=6", merged(state, "a", 0, "X", 3));
        assertEquals(";total=4", merged(state, "b", 0, "X", 4));
        assertEquals(";total=0", merged(state, "c", 0, "X", 3));
        assertEquals(";total=0", merged(state, "a", 0, "X", 0));
        assertEquals(List.of(3.0, 3.0), state.numbers("a"));
        assertEquals(";total=1", merged(state, "c", 1, "X", 1));
        assertEquals(";total=0", merged(state, "a", 0, "X", 9));
        assertEquals(List.of(1.0), state.sums());
    }

    private static String merged(GroupState state, String article, long window, String cell, long count)
            throws Exception {
        return after(MERGE, state, article, "window=" + window + ";counted_for=" + cell + ";count=" + count);
    }

    /** Where k is as large as the number of articles, merged totals of a window are plain counts of its edits. */
    @Test
    void bothTogetherCountEachEditOnce() throws Exception {
        Aggregate top = new Aggregate(Kind.TOP_K, "article", 9, 60);
        Aggregate merge = new Aggregate(Kind.MERGE_TOP_K, null, 9, null);
        GroupState cells = new GroupState();
        GroupState articles = new GroupState();
        Map<String, Long> edits = new HashMap<>();
        Random random = new Random(3);
        for (int i = 0; i < 900; i++) {
            Row row = Row.parse("at_s=" + i / 10.0 + ";article=" + random.nextInt(9));
            top.add(cells, "cell " + random.nextInt(4), row);
            merge.add(articles, row.text("article"), row);
            if (i == 600) {
                edits.clear();
            }
            long due = edits.merge(row.text("article"), 1L, Long::sum);
            assertEquals(due, row.number("total"));
        }
        assertEquals(300, cells.tuples());
    }

    @Test
    void whatAKindHasNoUseForIsRefused() {
        for (Kind kind : Kind.values()) {
            assertThrows(IllegalArgumentException.class, () -> new Aggregate(kind, null, null, null));
            assertThrows(IllegalArgumentException.class, () -> new Aggregate(kind, null, 2, 60));
        }
        assertThrows(IllegalArgumentException.class, () -> new Aggregate(Kind.SUM, "delay", 2, null));
        assertThrows(IllegalArgumentException.class, () -> new Aggregate(Kind.TOP_K, "article", 2, null));
        assertThrows(IllegalArgumentException.class, () -> new Aggregate(Kind.MERGE_TOP_K, "article", 2, null));
        assertThrows(IllegalArgumentException.class, () -> new Aggregate(Kind.TOP_K, "article", 0, 60));
        assertThrows(IllegalArgumentException.class, () -> new Aggregate(Kind.TOP_K, "article", 2, 0));
    }
}
