package harness.storm.keygroups;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;

/**
 * Senders, tasks and first-in-first-out channels between each two, in memory: somebody chooses the next event.
 *
 * <p>A sender has a script: it sends a tuple of a group, or takes up the next table. A state is the list of the tuples that
 * made it.
 */
final class GroupNet {
    /** Of a script: the next table is taken up. */
    static final int TABLE = -1;

    private static final int FIRST_SENDER = 100;

    /** A tuple: the number that its sender gave it, counted by sender. */
    record Numbered(int sender, int group, int number) {}

    private final List<RoutingTable> tables;
    private final List<Deque<Integer>> scripts = new ArrayList<>();
    private final List<Integer> versions = new ArrayList<>();
    private final List<GroupKeeper<Numbered, List<Numbered>>> keepers = new ArrayList<>();
    private final Map<String, Deque<Runnable>> channels = new TreeMap<>();
    private final List<Numbered> processed = new ArrayList<>();
    private final List<String> lost = new ArrayList<>();
    final List<Moved> moved = new ArrayList<>();
    private int sent;
    private long nowNs;

    /**
     * @param tables in their order, the first one that all begin with
     * @param scripts one a sender
     * @param tasks of the component
     */
    GroupNet(List<RoutingTable> tables, List<List<Integer>> scripts, int tasks) {
        this.tables = tables;
        List<Integer> senders = new ArrayList<>();
        for (List<Integer> script : scripts) {
            senders.add(FIRST_SENDER + this.scripts.size());
            this.scripts.add(new ArrayDeque<>(script));
            versions.add(0);
        }
        for (int task = 0; task < tasks; task++) {
            keepers.add(new GroupKeeper<>(task, senders, tables.get(0), Long.MAX_VALUE, new Net(task), () -> nowNs));
        }
    }

    private final class Net implements GroupKeeper.Work<Numbered, List<Numbered>> {
        private final int me;

        Net(int me) {
            this.me = me;
        }

        @Override
        public List<Numbered> empty() {
            return new ArrayList<>();
        }

        @Override
        public void process(int group, List<Numbered> state, Numbered tuple) {
            state.add(tuple);
            processed.add(tuple);
        }

        @Override
        public void handOver(int task, int group, long version, List<Numbered> state) {
            List<Numbered> copy = new ArrayList<>(state);
            state.clear(); // whoever still used it would be found out
            post("task " + me, task, () -> keepers.get(task).state(group, version, copy, copy.size(), 0));
        }

        @Override
        public void moved(Moved of) {
            moved.add(of);
        }

        @Override
        public void lost(int group, String why) {
            lost.add(group + ": " + why);
        }
    }

    private void post(String from, int to, Runnable delivery) {
        channels.computeIfAbsent(from + " -> " + to, channel -> new ArrayDeque<>()).add(delivery);
    }

    /** Lets events happen, each chosen among those possible by its number, until none is left. */
    void run(IntUnaryOperator choose) {
        while (true) {
            List<Runnable> possible = new ArrayList<>();
            for (int sender = 0; sender < scripts.size(); sender++) {
                if (!scripts.get(sender).isEmpty()) {
                    int at = sender;
                    possible.add(() -> act(at));
                }
            }
            channels.values().stream().filter(c -> !c.isEmpty()).forEach(c -> possible.add(() -> c.remove().run()));
            if (possible.isEmpty()) {
                return;
            }
            nowNs++;
            possible.get(choose.applyAsInt(possible.size())).run();
        }
    }

    private void act(int sender) {
        int group = scripts.get(sender).remove();
        String from = "sender " + sender;
        if (group == TABLE) {
            int version = versions.get(sender) + 1;
            versions.set(sender, version);
            for (int task = 0; task < keepers.size(); task++) {
                int to = task;
                post(from, to, () -> keepers.get(to).table(FIRST_SENDER + sender, tables.get(version)));
            }
            return;
        }
        Numbered tuple = new Numbered(sender, group, sent++);
        int to = tables.get(versions.get(sender)).task(group);
        post(from, to, () -> keepers.get(to).tuple(FIRST_SENDER + sender, group, tuple));
    }

    /** Asserts that each tuple was dealt with once, in its sender's order of its group, and where all states are. */
    void assertKept() {
        assertEquals(List.of(), lost);
        assertEquals(sent, processed.size(), "tuples processed of " + sent);
        assertEquals(sent, processed.stream().distinct().count(), "tuples that are different");
        Map<String, Integer> last = new HashMap<>();
        for (Numbered tuple : processed) {
            Integer before = last.put(tuple.sender + "/" + tuple.group, tuple.number);
            assertEquals(true, before == null || before < tuple.number, () -> "out of order: " + processed);
        }
        RoutingTable end = tables.get(tables.size() - 1);
        for (int task = 0; task < keepers.size(); task++) {
            assertEquals(0, keepers.get(task).waiting());
            for (Map.Entry<Integer, List<Numbered>> each : keepers.get(task).states().entrySet()) {
                assertEquals(task, end.task(each.getKey()), "task of group " + each.getKey());
                List<Numbered> all = processed.stream().filter(t -> t.group == each.getKey()).toList();
                assertEquals(all, each.getValue(), "state of group " + each.getKey());
            }
        }
        int groups = keepers.stream().mapToInt(k -> k.states().size()).sum();
        assertEquals(end.tasks().size(), groups, "groups that are somewhere");
    }
}
