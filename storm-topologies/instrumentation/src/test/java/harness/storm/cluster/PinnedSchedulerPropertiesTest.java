package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.scheduler.SupervisorDetails;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Random plans over random assignments; expected is the plan, and for other topologies what Storm's scheduler does alone. */
class PinnedSchedulerPropertiesTest {
    private static final int CASES = 400;

    @TempDir
    private Path folder;

    /** A folder with the plans of a case. */
    private Passes nimbus(RandomCluster random, long seed) throws Exception {
        Passes nimbus = new Passes(Files.createDirectory(folder.resolve("case-" + seed)));
        random.plans.forEach((topology, plan) -> nimbus.plan(topology, 7, plan));
        return nimbus;
    }

    @Test
    void theResultIsThePlanAndTheRestIsStorms() throws Exception {
        int kept = 0;
        int moved = 0;
        for (long seed = 0; seed < CASES; seed++) {
            String at = "seed " + seed;
            RandomCluster random = new RandomCluster(seed);
            Passes nimbus = nimbus(random, seed);
            Map<String, Map<String, String>> after = nimbus.pass(random.supervisors, random.topologies, random.assigned);
            Map<String, Map<String, String>> others = new TreeMap<>(after);
            for (Map.Entry<String, Map<String, String>> plan : random.plans.entrySet()) {
                String id = plan.getKey();
                assertEquals(plan.getValue(), others.remove(id), at);
                int executors = plan.getValue().size();
                assertEquals("plan 7: " + executors + " of " + executors + " executors placed", nimbus.status(id), at);
                for (String slot : random.unchanged(id)) {
                    assertFalse(nimbus.touched.contains(slot), at + ": " + slot);
                    kept++;
                }
                moved += plan.getValue().equals(random.assigned.get(id)) ? 0 : 1;
            }
            assertEquals(random.others(random.plans), others, at);

            nimbus.pass(random.supervisors, random.topologies, after);
            for (String plan : random.plans.keySet()) {
                random.plans.get(plan).values().forEach(w -> assertFalse(nimbus.touched.contains(random.slot(w)), at));
            }
            assertEquals(List.of(), nimbus.said, at);
        }
        assertTrue(kept > CASES / 20 && moved > CASES, kept + " workers were kept, " + moved + " topologies moved");
    }

    /** Makes one thing of a plan wrong, and returns what the status has to name; the last two kinds are of the text. */
    private static String spoil(Map<String, String> plan, String label, int kind) {
        switch (kind) {
            case 0:
                plan.remove(label);
                return label;
            case 1:
                plan.put("ghost[1-1]", plan.get(label));
                return "ghost[1-1]";
            case 2:
                plan.put(label, "node-99:6700");
                return "node-99";
            case 3:
                plan.put(label, "node-1:1");
                return "slot 1";
            case 4:
                return label + " is there twice";
            default:
                return "not JSON";
        }
    }

    @Test
    void aPlanWithOneThingWrongChangesNothing() throws Exception {
        Set<Integer> kinds = new HashSet<>();
        for (long seed = 0; seed < CASES; seed++) {
            RandomCluster random = new RandomCluster(seed);
            if (random.plans.isEmpty()) {
                continue;
            }
            Passes nimbus = nimbus(random, seed);
            Map<String, Map<String, String>> before = new HashMap<>(random.assigned);
            boolean agrees = false;
            for (Map.Entry<String, Map<String, String>> plan : random.plans.entrySet()) {
                String id = plan.getKey();
                Map<String, String> wrong = new TreeMap<>(plan.getValue());
                String label = wrong.keySet().stream().toList().get(random.random.nextInt(wrong.size()));
                int kind = random.random.nextInt(6);
                kinds.add(kind);
                String named = spoil(wrong, label, kind);
                nimbus.plan(id, 8, wrong);
                if (kind >= 4) {
                    String text = Files.readString(folder.resolve("case-" + seed).resolve(id + ".json"));
                    nimbus.write(id, kind == 4
                        ? text.replace("\"executors\":{", "\"executors\":{\"" + label + "\":\"node-1:6700\",")
                        : text.substring(0, random.random.nextInt(text.length())));
                }
                before.putIfAbsent(id, Map.of());
                // as if it had been in force before Nimbus was started again: what is missing is placed
                agrees |= (kind == 2 || kind == 3) && !before.get(id).isEmpty()
                    && wrong.entrySet().containsAll(before.get(id).entrySet());
                random.plans.put(id, Map.of(named, ""));
            }
            if (agrees) {
                continue;
            }
            Map<String, Map<String, String>> after = nimbus.pass(random.supervisors, random.topologies, random.assigned);
            String at = "seed " + seed;
            Map<String, Map<String, String>> others = new TreeMap<>(after);
            for (Map.Entry<String, Map<String, String>> plan : random.plans.entrySet()) {
                String id = plan.getKey();
                assertEquals(before.get(id), others.remove(id), at);
                String status = nimbus.status(id);
                String named = plan.getValue().keySet().iterator().next();
                assertTrue(status.startsWith("plan") && status.contains(named) && status.lines().count() == 1, at + ": " + status);
                before.get(id).values().forEach(w -> assertFalse(nimbus.touched.contains(random.slot(w)), at));
            }
            assertEquals(random.others(before), others, at);
        }
        assertEquals(Set.of(0, 1, 2, 3, 4, 5), kinds);
    }

    @Test
    void nodesThatDieUnderAPlanAreWaitedFor() throws Exception {
        int waited = 0;
        for (long seed = 0; seed < CASES; seed++) {
            String at = "seed " + seed;
            RandomCluster random = new RandomCluster(seed);
            Passes nimbus = nimbus(random, seed);
            Map<String, Map<String, String>> after = nimbus.pass(random.supervisors, random.topologies, random.assigned);
            boolean restarted = random.random.nextBoolean();
            if (restarted) {
                nimbus.restart();
            }
            int dead = random.random.nextInt(random.supervisors.size());
            String name = "node-" + (dead + 1);
            List<SupervisorDetails> alive = new ArrayList<>(random.supervisors);
            alive.remove(dead);
            // its executors are missed, and so are some of other workers
            Map<String, Map<String, String>> left = new HashMap<>();
            after.forEach((id, workers) -> {
                Map<String, String> rest = new TreeMap<>(workers);
                rest.values().removeIf(worker -> worker.startsWith(name + ":"));
                if (random.plans.containsKey(id) && !rest.isEmpty() && random.random.nextBoolean()) {
                    String lost = rest.values().iterator().next();
                    rest.values().removeIf(lost::equals);
                }
                left.put(id, rest);
            });
            Map<String, Map<String, String>> held = nimbus.pass(alive, random.topologies, left);
            for (Map.Entry<String, Map<String, String>> plan : random.plans.entrySet()) {
                String id = plan.getKey();
                Map<String, String> expected = new TreeMap<>(plan.getValue());
                boolean waits = expected.values().removeIf(worker -> worker.startsWith(name + ":"));
                if (restarted && waits && left.get(id).isEmpty()) { // nothing shows that the plan was in force: it waits whole
                    assertEquals(Map.of(), held.get(id), at);
                    continue;
                }
                assertEquals(expected, held.get(id), at);
                assertEquals(waits, nimbus.status(id).endsWith("waits: there is no node " + name)
                    || nimbus.status(id).contains("there is no node " + name + ", and "), at + ": " + nimbus.status(id));
                waited += waits ? 1 : 0;
            }
            // its place is kept: whoever else needs workers does not get them on the node when it is back
            List<SupervisorDetails> back = new ArrayList<>(random.supervisors);
            SupervisorDetails old = back.get(dead);
            back.set(dead, SchedulerOracle.supervisor(old.getId() + "-anew", old.getHost(), name, old.getAllPorts(), null, null));
            Map<String, Map<String, String>> again = nimbus.pass(back, random.topologies, held);
            for (Map.Entry<String, Map<String, String>> plan : random.plans.entrySet()) {
                if (!held.get(plan.getKey()).isEmpty()) {
                    assertEquals(plan.getValue(), again.get(plan.getKey()), at);
                }
            }
        }
        assertTrue(waited > CASES / 5, waited + " topologies waited for a node");
    }
}
