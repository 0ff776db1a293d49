package harness.storm.topologies;

import harness.storm.instrument.Series;
import harness.storm.keygroups.Moved;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;

/** What a task reports of its key groups at the end of a bucket: load and size of each, and those that came. */
final class GroupReport {
    private static final class Load {
        long count;
        long wallSumNs;
    }

    private record Way(int from, String component, int to) {}

    private final Map<Integer, Load> loads = new TreeMap<>();
    private final Map<Way, Long> sent = new HashMap<>();
    private final Queue<Moved> moves = new ArrayDeque<>();

    /** A tuple of a group was dealt with in so much time. */
    void served(int group, long wallNs) {
        Load load = loads.computeIfAbsent(group, g -> new Load());
        load.count++;
        load.wallSumNs += wallNs;
    }

    /** A group's tuple went to a group of another component. */
    void sent(int from, String component, int to) {
        sent.merge(new Way(from, component, to), 1L, Long::sum);
    }

    /** A group has come. */
    void moved(Moved moved) {
        moves.add(moved);
    }

    /** Says what was counted since the last time; a group that came twice is said once now and once the next time. */
    Series drain(Map<Integer, GroupState> states) {
        Series series = new Series();
        states.keySet().forEach(group -> loads.computeIfAbsent(group, g -> new Load()));
        loads.forEach((group, load) -> {
            Map<String, Object> fields = new HashMap<>(Map.of("count", load.count, "wall_sum_ns", load.wallSumNs));
            GroupState state = states.get(group); // null of one that has gone
            if (state != null) {
                fields.putAll(Map.of("state_bytes", state.sizeBytes(), "state_tuples", state.tuples()));
            }
            series.add("key_group", "", String.valueOf(group), fields);
        });
        loads.clear();
        sent.forEach((way, count) ->
                series.add("key_group_sent", way.component, way.from + ">" + way.to, Map.of("count", count)));
        sent.clear();
        Set<Integer> said = new HashSet<>();
        for (Iterator<Moved> each = moves.iterator(); each.hasNext(); ) {
            Moved moved = each.next();
            if (said.add(moved.group())) {
                each.remove();
                series.add("key_group_moved", "", String.valueOf(moved.group()), Map.of(
                        "table_version", moved.version(), "state_bytes", moved.stateBytes(),
                        "serialise_ns", moved.serialiseNs(), "pause_ns", moved.pauseNs(), "held", (long) moved.held()));
            }
        }
        return series;
    }
}
