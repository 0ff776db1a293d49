package harness.storm.keygroups;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GroupKeeperTest {
    private static final int TABLE = GroupNet.TABLE;

    private static RoutingTable table(long version, Integer... tasks) {
        return new RoutingTable("t-1", version, List.of(tasks));
    }

    /** Runs a net once for every order of its events, and returns how many there are. */
    private static int inEveryOrder(List<RoutingTable> tables, List<List<Integer>> scripts, int tasks, int moves) {
        List<Integer> path = new ArrayList<>();
        List<Integer> widths = new ArrayList<>();
        int orders = 0;
        do {
            GroupNet net = new GroupNet(tables, scripts, tasks);
            int[] depth = {0};
            net.run(possible -> {
                int at = depth[0]++;
                if (at == path.size()) {
                    path.add(0);
                    widths.add(possible);
                }
                return path.get(at);
            });
            net.assertKept();
            assertEquals(moves, net.moved.size());
            orders++;
            while (!path.isEmpty() && path.get(path.size() - 1) + 1 == widths.get(path.size() - 1)) {
                path.remove(path.size() - 1);
                widths.remove(widths.size() - 1);
            }
            if (!path.isEmpty()) {
                path.set(path.size() - 1, path.get(path.size() - 1) + 1);
            }
        } while (!path.isEmpty());
        return orders;
    }

    /** A group moves from task 0 to task 1 while two senders each send a tuple before and one after. */
    @Test
    void aGroupMovesInEveryOrderOfEvents() {
        List<Integer> script = List.of(0, TABLE, 0);
        int orders = inEveryOrder(List.of(table(0, 0), table(1, 1)), List.of(script, List.of(TABLE, 0)), 2, 1);
        assertTrue(orders > 10_000, "orders tried: " + orders);
    }

    /** One sender, while the group goes and comes back, or goes on to a third task. */
    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void aGroupMovesTwiceInEveryOrderOfEvents(int end) {
        List<RoutingTable> tables = List.of(table(0, 0), table(1, 1), table(2, end));
        int orders = inEveryOrder(tables, List.of(List.of(0, TABLE, 0, TABLE, 0)), end == 0 ? 2 : 3, 2);
        assertTrue(orders > 100, "orders tried: " + orders);
    }

    /** Random tables, scripts and orders: up to 4 senders, 4 tasks, 6 groups and 5 tables. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void nothingIsLostOrTwiceOrOutOfOrder(int tasks) {
        for (int seed = 0; seed < 2000; seed++) {
            Random random = new Random(1000L * tasks + seed);
            int groups = 1 + random.nextInt(6);
            List<RoutingTable> tables = new ArrayList<>(List.of(RoutingTable.first(groups, tasks)));
            int versions = random.nextInt(5);
            for (int version = 1; version <= versions; version++) {
                List<Integer> to = random.ints(groups, 0, tasks).boxed().toList();
                tables.add(new RoutingTable("t-1", version, to));
            }
            List<List<Integer>> scripts = new ArrayList<>();
            for (int sender = 1 + random.nextInt(4); sender > 0; sender--) {
                List<Integer> script = new ArrayList<>();
                for (int version = 0; version <= versions; version++) {
                    random.ints(random.nextInt(8), 0, groups).forEach(script::add);
                    if (version < versions) {
                        script.add(TABLE);
                    }
                }
                scripts.add(script);
            }
            GroupNet net = new GroupNet(tables, scripts, tasks);
            net.run(random::nextInt);
            net.assertKept();
            int moves = IntStream.range(1, tables.size())
                    .map(v -> (int) IntStream.range(0, groups)
                            .filter(g -> tables.get(v).task(g) != tables.get(v - 1).task(g))
                            .count())
                    .sum();
            assertEquals(moves, net.moved.size());
        }
    }

    /** What a task did, with a clock that a test sets; each sender is 9 or 8. */
    private static final class Alone implements GroupKeeper.Work<String, List<String>> {
        final List<String> did = new ArrayList<>();
        final GroupKeeper<String, List<String>> keeper;
        long nowNs;

        Alone(int me, RoutingTable first) {
            keeper = new GroupKeeper<>(me, Set.of(9, 8), first, 100, this, () -> nowNs);
        }

        @Override
        public List<String> empty() {
            return new ArrayList<>();
        }

        @Override
        public void process(int group, List<String> state, String tuple) {
            state.add(tuple);
            did.add("processed " + tuple);
        }

        @Override
        public void handOver(int task, int group, long version, List<String> state) {
            did.add("sent group " + group + " of version " + version + " to " + task + ": " + state);
        }

        @Override
        public void moved(Moved moved) {
            did.add("came: " + moved);
        }

        @Override
        public void lost(int group, String why) {
            did.add("lost " + group + ": " + why);
        }
    }

    @Test
    void aGroupIsHandedOverWhenAllSendersHaveTheTable() {
        Alone task = new Alone(0, table(0, 0, 1));
        task.keeper.tuple(9, 0, "a");
        task.keeper.table(9, table(1, 1, 0));
        task.keeper.tuple(8, 0, "b");
        task.keeper.table(8, table(1, 1, 0));
        assertEquals(List.of("processed a", "processed b", "sent group 0 of version 1 to 1: [a, b]"), task.did);
        assertEquals(Map.of(), task.keeper.states());
    }

    /** The pause is from the first marker, at 30, to the state, at 70; a tuple that came at 50 was held. */
    @Test
    void tuplesAreHeldBackUntilTheStateIsThere() {
        Alone task = new Alone(1, table(0, 0, 1));
        task.nowNs = 30;
        task.keeper.table(9, table(1, 1, 1));
        task.nowNs = 50;
        task.keeper.tuple(9, 0, "a");
        assertEquals(1, task.keeper.waiting());
        task.nowNs = 70;
        task.keeper.state(0, 1, new ArrayList<>(List.of("z")), 12, 3);
        assertEquals(List.of("processed a", "came: " + new Moved(0, 1, 12, 3, 40, 1)), task.did);
        assertEquals(List.of("z", "a"), task.keeper.states().get(0));
        assertEquals(0, task.keeper.waiting());
    }

    @Test
    void aStateThatDoesNotComeIsGivenUp() {
        Alone task = new Alone(1, table(0, 0));
        task.keeper.table(9, table(1, 1));
        task.keeper.tuple(9, 0, "a");
        task.nowNs = 100;
        task.keeper.look();
        assertEquals(List.of(), task.did);
        task.nowNs = 101;
        task.keeper.look();
        String lost = "lost 0: its state did not come: it begins with an empty state";
        assertEquals(List.of(lost, "processed a"), task.did);
        task.keeper.state(0, 1, List.of("z"), 12, 3);
        assertTrue(task.did.get(2).startsWith("lost 0: a state came for a group that was here already"), task.did.get(2));
        assertEquals(List.of("a"), task.keeper.states().get(0));
    }

    /** Its worker was started anew, and the senders' markers came to the one before. */
    @Test
    void aTaskThatForgotItsTablesServesWhatComes() {
        Alone task = new Alone(1, table(0, 0, 1));
        task.keeper.tuple(9, 0, "a");
        task.keeper.tuple(8, 0, "b");
        String lost = "lost 0: its tuples come to a task that it is not on: it begins with an empty state";
        assertEquals(List.of(lost, "processed a", "processed b"), task.did);
        task.keeper.table(9, table(4, 0, 0));
        task.keeper.table(8, table(4, 0, 0));
        assertEquals(
                List.of("sent group 0 of version 4 to 0: [a, b]", "sent group 1 of version 4 to 0: []"),
                task.did.subList(3, 5));
    }

    /** A sender whose worker was started anew reads the tables from the first on. */
    @Test
    void markersThatCameBeforeAreLeftOut() {
        Alone task = new Alone(0, table(0, 0));
        for (long version : List.of(1L, 2L, 1L, 2L)) {
            task.keeper.table(9, table(version, version == 1 ? 1 : 0));
        }
        task.keeper.tuple(9, 0, "a");
        assertEquals(List.of(), task.did); // the group goes to task 1 and comes back first
        task.keeper.table(8, table(1, 1));
        assertEquals(List.of("sent group 0 of version 1 to 1: []"), task.did);
        task.keeper.state(0, 2, new ArrayList<>(), 4, 0);
        assertEquals("processed a", task.did.get(1));
    }

    @Test
    void tablesAreDealtInTurnAndTravelAsJson() throws Exception {
        RoutingTable first = RoutingTable.first(5, 2);
        assertEquals(List.of(0, 1, 0, 1, 0), first.tasks());
        RoutingTable later = new RoutingTable("t-1", 3, List.of(1, 0));
        assertEquals(later, RoutingTable.decode(later.encode()));
        assertTrue(later.fits("t-1", 2, 2));
        assertEquals(
                List.of(false, false, false),
                List.of(later.fits("t-2", 2, 2), later.fits("t-1", 3, 2), later.fits("t-1", 2, 1)));
    }

    /**
     * MurmurHash3's last step takes 1 to 0x514e28b7 = 1364076727; the other numbers are those of {@code key_group} in
     * Python. Java's hash of the last key is the least int, whose absolute value is none.
     */
    @Test
    void aKeysGroupIsItsMixedHashModuloTheirNumber() {
        assertEquals(1364076727 % 60, RoutingTable.group("\u0001", 60));
        assertEquals(51, RoutingTable.group("A", 60));
        assertEquals(47, RoutingTable.group("storm", 60));
        assertEquals(40, RoutingTable.group("polygenelubricants", 60));
        Set<Integer> groups = IntStream.range(0, 1000)
                .mapToObj(i -> RoutingTable.group("key " + i, 60))
                .collect(Collectors.toSet());
        assertEquals(60, groups.size());
    }
}
