package harness.storm.keygroups;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.function.LongSupplier;

/**
 * One task's part in the migration of key groups: what it has, what it holds back, and when it hands over.
 *
 * <p>Tables are in force one sender after another. So a task knows, of each sender, the last table whose marker has
 * come. A tuple is processed here if its group is here, and no table up to its sender's has taken the group away in
 * between; else it is held back. A group is handed over by a table when the markers of all senders have come.
 *
 * <p>A worker that dies takes its groups' states along. A task that gets tuples of a group that no table gives it, or that
 * waits for a state in vain, begins with an empty state and says so ({@link Work#lost}); no tuple waits for ever.
 *
 * @param <T> a tuple
 * @param <S> a group's state
 */
public final class GroupKeeper<T, S> {

    /**
     * The component's work, and its connections.
     *
     * @param <T> a tuple
     * @param <S> a group's state
     */
    public interface Work<T, S> {
        /** The state of a group of which nothing came yet. */
        S empty();

        /** Deals with a tuple of a group that is here. */
        void process(int group, S state, T tuple);

        /** Writes a group's state and sends it to another task of the component, by its position. */
        void handOver(int task, int group, long version, S state);

        /** A group has come, and what was held back of it is processed. */
        void moved(Moved moved);

        /** A group's state is not to be had. */
        void lost(int group, String why);
    }

    private static final class Present<S> {
        final S state;
        /** Of the newest table that gave or left the group to this task. */
        long version;

        Present(S state, long version) {
            this.state = state;
            this.version = version;
        }
    }

    /** @param version of the sender's table @param sinceNs when it came */
    private record Held<T>(T tuple, long version, long sinceNs) {}

    private final int me;
    private final long patienceNs;
    private final Work<T, S> work;
    private final LongSupplier clock;
    private final Map<Integer, Long> reached = new HashMap<>();
    /** All that came: a group's state may come by an old one, when newer ones have taken the group on. */
    private final NavigableMap<Long, RoutingTable> tables = new TreeMap<>();
    private final Map<Long, Long> firstSeenNs = new HashMap<>();
    private final Map<Integer, Present<S>> present = new HashMap<>();
    private final Map<Integer, Deque<Held<T>>> held = new HashMap<>();
    private long aligned;

    /**
     * Begins with the groups of the first table, all empty.
     *
     * @param me position of the task among those of its component
     * @param senders ids of all tasks that send to it
     * @param first table that all senders begin with
     * @param patienceNs how long a tuple waits for a state
     * @param clock nanoseconds
     */
    public GroupKeeper(
            int me, Collection<Integer> senders, RoutingTable first, long patienceNs, Work<T, S> work, LongSupplier clock) {
        this.me = me;
        this.patienceNs = patienceNs;
        this.work = work;
        this.clock = clock;
        senders.forEach(sender -> reached.put(sender, first.version()));
        aligned = first.version();
        tables.put(aligned, first);
        for (int group = 0; group < first.tasks().size(); group++) {
            if (first.task(group) == me) {
                present.put(group, new Present<>(work.empty(), aligned));
            }
        }
    }

    /** A tuple of a group has come from a sender. */
    public void tuple(int sender, int group, T tuple) {
        long version = reached.get(sender);
        Present<S> here = present.get(group);
        if (here != null && stays(group, here.version, version)) {
            work.process(group, here.state, tuple);
        } else if (here == null && tables.get(version).task(group) != me) {
            begin(group, version, "its tuples come to a task that it is not on");
            work.process(group, present.get(group).state, tuple);
        } else {
            held.computeIfAbsent(group, g -> new ArrayDeque<>()).add(new Held<>(tuple, version, clock.getAsLong()));
        }
    }

    /** A sender's marker has come: what it sends from now on is routed by this table. */
    public void table(int sender, RoutingTable table) {
        long version = table.version();
        if (version <= reached.get(sender)) {
            return; // the sender's worker was started anew, and reads the tables again
        }
        tables.putIfAbsent(version, table);
        firstSeenNs.putIfAbsent(version, clock.getAsLong());
        reached.put(sender, version);
        long all = Collections.min(reached.values());
        if (all > aligned) {
            aligned = all;
            for (int group : present.keySet().stream().sorted().toList()) {
                follow(group);
            }
        }
    }

    /** A group's state has come from the task that had it. */
    public void state(int group, long version, S state, long stateBytes, long serialiseNs) {
        if (present.containsKey(group)) {
            work.lost(group, "a state came for a group that was here already, and was left out");
            return;
        }
        long pauseNs = clock.getAsLong() - firstSeenNs.getOrDefault(version, clock.getAsLong());
        present.put(group, new Present<>(state, version));
        int count = release(group);
        work.moved(new Moved(group, version, stateBytes, serialiseNs, pauseNs, count));
        follow(group);
    }

    /** Ends waits that have become too long; to be called now and then. */
    public void look() {
        long now = clock.getAsLong();
        for (int group : held.keySet().stream().sorted().toList()) {
            Deque<Held<T>> waiting = held.get(group);
            if (waiting != null && !present.containsKey(group) && now - waiting.peek().sinceNs > patienceNs) {
                begin(group, waiting.peek().version, "its state did not come");
                release(group);
                follow(group);
            }
        }
    }

    /** The groups that are here, with their states. */
    public Map<Integer, S> states() {
        Map<Integer, S> found = new TreeMap<>();
        present.forEach((group, here) -> found.put(group, here.state));
        return found;
    }

    /** Tuples that are held back now. */
    public int waiting() {
        return held.values().stream().mapToInt(Deque::size).sum();
    }

    private void begin(int group, long version, String why) {
        present.put(group, new Present<>(work.empty(), version));
        work.lost(group, why + ": it begins with an empty state");
    }

    /** Processes the tuples that were held back for the state that is here; later tables' go on waiting. */
    private int release(int group) {
        Present<S> here = present.get(group);
        Deque<Held<T>> waiting = held.getOrDefault(group, new ArrayDeque<>());
        int count = 0;
        for (Iterator<Held<T>> each = waiting.iterator(); each.hasNext(); ) {
            Held<T> next = each.next();
            if (stays(group, here.version, next.version)) {
                each.remove();
                work.process(group, here.state, next.tuple);
                count++;
            }
        }
        if (waiting.isEmpty()) {
            held.remove(group);
        }
        return count;
    }

    /** Hands a group over as soon as a table that all senders have reached gives it to another task. */
    private void follow(int group) {
        Present<S> here = present.get(group);
        for (RoutingTable table : tables.subMap(here.version, false, Math.max(aligned, here.version), true).values()) {
            if (table.task(group) != me) {
                present.remove(group);
                work.handOver(table.task(group), group, table.version(), here.state);
                return;
            }
            here.version = table.version();
        }
    }

    /** Whether no table after one, up to another, gives the group to another task. */
    private boolean stays(int group, long after, long upTo) {
        return upTo <= after
                || tables.subMap(after, false, upTo, true).values().stream().allMatch(t -> t.task(group) == me);
    }
}
