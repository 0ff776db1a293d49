package harness.storm.rewrite;

import java.util.Map;

/** What was seen of one task's receive queue since the last report. Its owner has a lock. */
final class Pressure {
    private final String component;
    private final Watermarks marks;
    private boolean over;
    private long looks;
    private double sumPct;
    private double mostPct;
    private long reached;
    private long watchedNs;
    private long helpedNs;
    private long pressedNs;

    Pressure(String component, Watermarks marks) {
        this.component = component;
        this.marks = marks;
    }

    String component() {
        return component;
    }

    /** Whether it has been at the high mark, and not at the low one since. */
    boolean over() {
        return over;
    }

    /** Takes note of a fill; returns whether the high mark was reached just now. */
    boolean reaches(double pct) {
        looks++;
        sumPct += pct;
        mostPct = Math.max(mostPct, pct);
        boolean before = over;
        over = before ? pct > marks.lowPct() : pct >= marks.highPct();
        if (over && !before) {
            reached++;
        }
        return over && !before;
    }

    /** Time has passed in which its component was helped with every tuple, or in nobody's care, or neither. */
    void passed(long ns, Relief.State state) {
        watchedNs += ns;
        helpedNs += state == Relief.State.HELPED ? ns : 0;
        pressedNs += state == Relief.State.PRESSED ? ns : 0;
    }

    /** The fields of {@code pressure}; starts again from zero. */
    Map<String, Object> drain() {
        Map<String, Object> fields = Map.of("fill_pct", looks == 0 ? 0 : sumPct / looks, "fill_most_pct", mostPct,
            "reached", reached, "helped_ns", helpedNs, "pressed_ns", pressedNs, "watched_ns", watchedNs);
        looks = 0;
        sumPct = 0;
        mostPct = 0;
        reached = 0;
        helpedNs = 0;
        pressedNs = 0;
        watchedNs = 0;
        return fields;
    }
}
