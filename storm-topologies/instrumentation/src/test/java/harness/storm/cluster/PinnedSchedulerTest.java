package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import harness.storm.cluster.SchedulerOracle.Component;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What a pinned plan meets; expected places are the plan's own text. */
class PinnedSchedulerTest {
    private static final String T = "t-1";
    /** Two spouts and an acker, on the first slots of three nodes. */
    private static final Map<String, String> PLAN =
        Map.of("__acker[1-1]", "node-3:6900", "a[2-3]", "node-1:6700", "a[4-5]", "node-2:6800");
    private static final String PLACED = "plan 7: 3 of 3 executors placed";

    @TempDir
    private Path folder;

    private static SupervisorDetails node(int number, int slots) {
        return node(number, slots, "s-" + number);
    }

    private static SupervisorDetails node(int number, int slots, String id) {
        List<Integer> ports = IntStream.range(0, slots).mapToObj(i -> 6600 + 100 * number + i).toList();
        return SchedulerOracle.supervisor(id, "127.0.0." + (number + 1), "node-" + number, ports, null, null);
    }

    private static List<SupervisorDetails> nodes() {
        return List.of(node(1, 2), node(2, 2), node(3, 2));
    }

    private static TopologyDetails topology(String id, int workers, int executors) {
        return SchedulerOracle.topology(id, workers,
            List.of(new Component("a", true, 4, executors), new Component("__acker", false, 1, 1)), Map.of(), 0);
    }

    private static List<TopologyDetails> topologies() {
        return List.of(topology(T, 3, 2));
    }

    private static Map<String, Map<String, String>> only(String id, Map<String, String> workers) {
        return Map.of(id, workers);
    }

    @Test
    void executorsGoWhereThePlanSaysAndStay() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), Map.of()));
        assertEquals(List.of(PLACED), nimbus.said);
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), only(T, PLAN)));
        assertEquals(Set.of(), nimbus.touched);
        assertEquals(List.of(), nimbus.said); // Nimbus logs each status that is set
        assertEquals(PLACED, nimbus.status(T));
    }

    @Test
    void aNimbusThatStartsAgainKeepsThePlan() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        Map<String, Map<String, String>> assigned = nimbus.pass(nodes(), topologies(), Map.of());
        nimbus.restart();
        assertEquals(assigned, nimbus.pass(nodes(), topologies(), assigned));
        assertEquals(Set.of(), nimbus.touched);
        assertEquals(PLACED, nimbus.status(T));
    }

    @Test
    void aNodeWithoutANameGoesByItsHost() {
        Map<String, Double> resources = Map.of(Config.SUPERVISOR_CPU_CAPACITY, 400.0, Config.SUPERVISOR_MEMORY_CAPACITY_MB, 4096.0);
        List<SupervisorDetails> unnamed = List.of(new SupervisorDetails("s-9", "here", null, List.of(6700), resources));
        Map<String, String> plan = Map.of("__acker[1-1]", "here:6700", "a[2-3]", "here:6700", "a[4-5]", "here:6700");
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, plan);
        assertEquals(only(T, plan), nimbus.pass(unnamed, topologies(), Map.of()));
        assertEquals(PLACED, nimbus.status(T));
    }

    @Test
    void onlyWorkersWhoseExecutorsChangeAreTouched() {
        Passes nimbus = new Passes(folder);
        Map<String, String> swapped = new HashMap<>(PLAN);
        swapped.put("a[2-3]", "node-2:6800");
        swapped.put("a[4-5]", "node-1:6700");
        nimbus.plan(T, 8, swapped);
        assertEquals(only(T, swapped), nimbus.pass(nodes(), topologies(), only(T, PLAN)));
        assertEquals(Set.of("s-1:6700", "s-2:6800"), nimbus.touched);
    }

    @Test
    void workersThatThePlanDoesNotUseAreNeitherGivenNorTaken() {
        // 4 workers are asked for and 2 used: to Storm the topology needs workers at every pass
        List<TopologyDetails> topologies = List.of(topology(T, 4, 4), topology("t-2", 1, 1));
        Map<String, String> plan = Map.of("__acker[1-1]", "node-1:6700", "a[2-2]", "node-1:6700", "a[3-3]", "node-1:6700",
            "a[4-4]", "node-1:6700", "a[5-5]", "node-2:6800");
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, plan);
        Map<String, Map<String, String>> assigned = nimbus.pass(nodes(), topologies, only(T, plan));
        assertEquals(new TreeMap<>(plan), assigned.get(T)); // although the other topology is placed in this pass
        assertEquals(2, assigned.get("t-2").size());
        for (int i = 0; i < 5; i++) {
            assertEquals(assigned, nimbus.pass(nodes(), topologies, assigned));
            assertEquals(Set.of(), nimbus.touched);
        }
        Cluster plain = SchedulerOracle.cluster(nodes(), topologies, only(T, plan));
        DefaultScheduler.defaultSchedule(plain.getTopologies(), plain);
        assertNotEquals(new TreeMap<>(plan), SchedulerOracle.assignments(plain).get(T)); // what is kept from it
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        {"generation": 8                                                 | plan file t-1.json waits: it is not JSON: it ends too soon
        {"generation": 8, "executors": {"a[2-3]": "node-1:6700", "a[2-3]": "node-2:6800"}} | plan file t-1.json waits: a[2-3] is there twice
        {"generation": 8, "executors": {"a[2-3]": "node-1:6700", "a[4-5]": "node-2:6800"}} | plan 8 waits: it leaves out executor __acker[1-1]
        {"generation": 8, "executors": {"b[2-3]": "node-1:6700"}}        | plan 8 waits: the topology has no executor b[2-3]
        {"generation": 8, "executors": {"a[2-3]": "node-2:6800", "a[4-5]": "node-9:6800", "__acker[1-1]": "node-3:6900"}} | plan 8 waits: there is no node node-9
        {"generation": 8, "executors": {"a[2-3]": "node-2:6800", "a[4-5]": "node-1:6799", "__acker[1-1]": "node-3:6900"}} | plan 8 waits: node node-1 has no slot 6799
        {"generation": 8, "executors": {"a[2-3]": "node-2:6800", "a[4-5]": "node-1:6701", "__acker[1-1]": "node-3:6900"}} | plan 8 waits: slot node-1:6701 is in use by t-2
        """)
    void aPlanThatDoesNotFitChangesNothing(String text, String reason) {
        List<TopologyDetails> topologies = List.of(topology(T, 3, 2), topology("t-2", 1, 1));
        Map<String, Map<String, String>> assigned =
            Map.of(T, PLAN, "t-2", Map.of("__acker[1-1]", "node-1:6701", "a[2-5]", "node-1:6701"));
        Passes nimbus = new Passes(folder);
        nimbus.write(T, text);
        assertEquals(assigned, nimbus.pass(nodes(), topologies, assigned));
        assertEquals(reason + "; nothing is moved", nimbus.status(T)); // placed by Storm, not by a plan, so far

        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies, assigned);
        assertEquals(PLACED, nimbus.status(T));
        nimbus.write(T, text);
        assertEquals(assigned, nimbus.pass(nodes(), topologies, assigned));
        assertEquals(Set.of(), nimbus.touched);
        assertEquals(reason + "; " + PLACED, nimbus.status(T));

        // a worker dies meanwhile: the plan in force is held
        Map<String, String> alive = new HashMap<>(PLAN);
        alive.remove("a[2-3]");
        assertEquals(assigned, nimbus.pass(nodes(), topologies, Map.of(T, alive, "t-2", assigned.get("t-2"))));

        // a topology of which nothing is placed yet waits whole
        nimbus.restart();
        assertEquals(Map.of(), nimbus.pass(nodes(), topologies, Map.of("t-2", assigned.get("t-2"))).get(T));
        assertEquals(reason + "; nothing is moved", nimbus.status(T));
    }

    @Test
    void aPlanWaitsForASlotThatAnotherTopologyLeaves() {
        List<TopologyDetails> topologies = List.of(topology(T, 3, 2), topology("t-2", 1, 1));
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies, Map.of("t-2", Map.of("__acker[1-1]", "node-1:6700", "a[2-5]", "node-1:6700")));
        assertEquals("plan 7 waits: slot node-1:6700 is in use by t-2; nothing is moved", nimbus.status(T));
        assertEquals(new TreeMap<>(PLAN), nimbus.pass(nodes(), topologies(), Map.of()).get(T));
        assertEquals(PLACED, nimbus.status(T));
    }

    @Test
    void aFolderThatCannotBeReadChangesNothing() throws IOException {
        Passes nimbus = new Passes(Files.writeString(folder.resolve("file"), ""));
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), only(T, PLAN)));
        assertEquals("plan file t-1.json waits: it cannot be read: java.nio.file.FileSystemException: "
            + folder.resolve("file/t-1.json") + ": Not a directory; nothing is moved", nimbus.status(T));
        Files.createDirectory(folder.resolve("t-1.json"));
        nimbus = new Passes(folder);
        nimbus.pass(nodes(), topologies(), only(T, PLAN));
        assertEquals("plan file t-1.json waits: it cannot be read: java.io.IOException: Is a directory; nothing is moved",
            nimbus.status(T));
    }

    @Test
    void withoutAFolderOrAFileStormPlaces() {
        Cluster plain = SchedulerOracle.cluster(nodes(), topologies(), Map.of());
        DefaultScheduler.defaultSchedule(plain.getTopologies(), plain);
        for (Path plans : new Path[] {null, folder, folder.resolve("nowhere")}) {
            Passes nimbus = new Passes(plans);
            assertEquals(SchedulerOracle.assignments(plain), nimbus.pass(nodes(), topologies(), Map.of()));
            assertNull(nimbus.status(T));
        }
    }

    @Test
    void aPlanThatIsTakenAwayIsStormsAgain() throws IOException {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), only(T, PLAN));
        Files.delete(folder.resolve("t-1.json"));
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), only(T, PLAN)));
        assertEquals("no plan: placed by Storm's own scheduler", nimbus.status(T));
        nimbus.pass(nodes(), topologies(), only(T, PLAN));
        assertEquals(List.of(), nimbus.said);
    }

    @ParameterizedTest
    @CsvSource({"false", "true"})
    void aNodeThatDiesIsWaitedForWhileTheOthersAreHeld(boolean restarted) {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), Map.of());
        if (restarted) {
            nimbus.restart();
        }
        List<SupervisorDetails> two = List.of(node(1, 2), node(2, 2));
        String waits = "plan 7: 2 of 3 executors placed; node-3:6900 waits: there is no node node-3";

        // its executors have not been missed for long enough yet: Nimbus shows them on a node that is gone
        Map<String, String> stale = new HashMap<>(PLAN);
        stale.put("__acker[1-1]", "s-3:6900");
        assertEquals(only(T, stale), nimbus.pass(two, topologies(), only(T, stale)));
        assertEquals(Set.of(), nimbus.touched);
        assertEquals(waits, nimbus.status(T));

        // then they are; and a worker of another node dies
        Map<String, String> alive = new HashMap<>(PLAN);
        alive.remove("__acker[1-1]");
        assertEquals(only(T, alive), nimbus.pass(two, topologies(), only(T, Map.of("a[2-3]", "node-1:6700"))));
        assertEquals(Set.of("s-2:6800"), nimbus.touched);
        assertEquals(waits, nimbus.status(T));

        // it comes back, made anew
        List<SupervisorDetails> back = List.of(node(1, 2), node(2, 2), node(3, 2, "s-4"));
        assertEquals(only(T, PLAN), nimbus.pass(back, topologies(), only(T, alive)));
        assertEquals(Set.of("s-4:6900"), nimbus.touched);
        assertEquals(PLACED, nimbus.status(T));
    }

    @Test
    void anotherPlanIsNotAppliedInPartAlthoughWhatIsLeftIsWhereItSays() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), Map.of());
        // node-3 and node-2 die; the next plan keeps a[2-3], and has a slot for one of the others only
        nimbus.plan(T, 8, Map.of("__acker[1-1]", "node-1:6701", "a[2-3]", "node-1:6700", "a[4-5]", "node-9:7500"));
        Map<String, Map<String, String>> left = only(T, Map.of("a[2-3]", "node-1:6700"));
        assertEquals(left, nimbus.pass(List.of(node(1, 2)), topologies(), left));
        assertEquals(Set.of(), nimbus.touched);
        assertEquals("plan 8 waits: there is no node node-9; plan 7: 1 of 3 executors placed; node-2:6800 waits: there is no "
            + "node node-2, and 1 more", nimbus.status(T));
    }

    @Test
    void aNodeMadeAnewIsUsedOnceItsPredecessorIsForgotten() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        List<SupervisorDetails> both = List.of(node(1, 2), node(2, 2), node(3, 2), node(3, 2, "s-4"));
        assertEquals(Map.of(), nimbus.pass(both, topologies(), Map.of()).get(T));
        assertEquals("plan 7 waits: 2 nodes are named node-3; nothing is moved", nimbus.status(T));
        List<SupervisorDetails> successor = List.of(node(1, 2), node(2, 2), node(3, 2, "s-4"));
        assertEquals(only(T, PLAN), nimbus.pass(successor, topologies(), Map.of()));
    }

    @Test
    void aDeadWorkerIsPlacedAgainOnePassLater() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), Map.of());
        // Nimbus hides its port for one pass. Assigned there at once, its executors would count as started before.
        Map<String, String> alive = new HashMap<>(PLAN);
        alive.remove("a[2-3]");
        SupervisorDetails hidden = SchedulerOracle.supervisor("s-1", "127.0.0.2", "node-1", List.of(6701), null, null);
        assertEquals(only(T, alive), nimbus.pass(List.of(hidden, node(2, 2), node(3, 2)), topologies(), only(T, alive)));
        assertEquals("plan 7: 2 of 3 executors placed; node-1:6700 waits: node node-1 has no slot 6700", nimbus.status(T));
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), only(T, alive)));
        assertEquals(Set.of("s-1:6700"), nimbus.touched);
    }

    @Test
    void otherExecutorsThanThePlansWaitForTheRebalance() {
        Passes nimbus = new Passes(folder);
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), Map.of());
        Map<String, String> one = Map.of("__acker[1-1]", "node-2:6801", "a[2-5]", "node-1:6701");
        nimbus.plan(T, 8, one); // the file is there first
        assertEquals(only(T, PLAN), nimbus.pass(nodes(), topologies(), only(T, PLAN)));
        assertEquals("plan 8 waits: the topology has no executor a[2-5]; " + PLACED, nimbus.status(T));
        // Nimbus leaves out the assignment of a topology that it rebalances
        assertEquals(only(T, one), nimbus.pass(nodes(), List.of(topology(T, 2, 1)), Map.of()));
        assertEquals("plan 8: 2 of 2 executors placed", nimbus.status(T));
    }

    @ParameterizedTest
    @CsvSource({"3, false", "1000000, true"})
    void aNodeThatWasAwayForSecondsIsBlacklistedUnlessMuchIsTolerated(int tolerance, boolean placed) {
        Passes nimbus = new Passes(folder, tolerance);
        List<SupervisorDetails> two = List.of(node(1, 2), node(2, 2));
        nimbus.pass(nodes(), topologies(), Map.of());
        for (int i = 0; i < 4; i++) {
            nimbus.pass(two, topologies(), Map.of());
        }
        nimbus.plan(T, 7, PLAN);
        nimbus.pass(nodes(), topologies(), Map.of());
        assertEquals(placed ? PLACED : "plan 7 waits: node node-3 is blacklisted; nothing is moved", nimbus.status(T));
    }

    @Test
    void topologiesThatStormsSchedulerFailsAtTogetherArePlacedOneByOne() {
        // one has two workers where it asks for one, as of a plan that was taken away, and lacks an executor
        List<TopologyDetails> topologies = List.of(topology("t-1", 1, 2), topology("t-2", 1, 1));
        Map<String, Map<String, String>> assigned = only("t-1", Map.of("a[2-3]", "node-1:6700", "a[4-5]", "node-2:6800"));
        Cluster plain = SchedulerOracle.cluster(nodes(), topologies, assigned);
        assertThrows(IllegalArgumentException.class, () -> DefaultScheduler.defaultSchedule(plain.getTopologies(), plain));
        Map<String, Map<String, String>> after = new Passes(folder).pass(nodes(), topologies, assigned);
        assertEquals(Set.of("__acker[1-1]", "a[2-3]", "a[4-5]"), after.get("t-1").keySet());
        assertEquals(Set.of("__acker[1-1]", "a[2-5]"), after.get("t-2").keySet());
    }
}
