package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** Expected places are worked by hand from Storm's rules. */
class SchedulerOracleTest {
    private static final String CASE = """
        {"case": "7", "scheduler": "%s",
         "supervisors": [{"id": "s-1", "host": "10.0.0.1", "name": "node-1", "ports": [6700, 6701], "cpu_pct": 10.0, "memory_mb": 4096.0},
                         {"id": "s-2", "host": "10.0.0.2", "name": "node-2", "ports": [6700]}],
         "topologies": [{"id": "t-0", "workers": 1, "components": [{"name": "a", "kind": "spout", "tasks": 2, "executors": 1}]},
                        {"id": "t-1", "workers": 2,
                         "components": [{"name": "a", "kind": "spout", "tasks": 5, "executors": 2},
                                        {"name": "b", "kind": "bolt", "tasks": 1, "executors": 1, "inputs": ["a"], "cpu_pct": 25.0},
                                        {"name": "__acker", "kind": "bolt", "tasks": 1, "executors": 1}]}],
         "assignments": {"t-0": {"a[1-2]": "node-1:6700"}}}
        """;

    @Test
    void rangesOfTasksAndPlacesAreStorms() throws Exception {
        // the larger range first; slots of the node with the most free ones first, by id where they are level; executors dealt
        // by their first task
        assertEquals(
            Map.of("case", "7", "status", Map.of(), "assignments", Map.of(
                "t-0", Map.of("a[1-2]", "node-1:6700"),
                "t-1", Map.of("__acker[1-1]", "node-1:6701", "a[2-4]", "node-2:6700", "a[5-6]", "node-1:6701",
                    "b[7-7]", "node-2:6700"))),
            SchedulerOracle.answer(CASE.formatted("default").replace("\n", "")));
    }

    @Test
    void loadsDecideWhereTheResourceAwareSchedulerPlaces() throws Exception {
        // node-1 has 10 % of a core, which the executor that is there takes: all go to node-2, on as few workers as hold them
        Map<?, ?> assignments = (Map<?, ?>) SchedulerOracle.answer(
            CASE.formatted("resource-aware").replace("\n", "")).get("assignments");
        assertEquals(Map.of("__acker[1-1]", "node-2:6700", "a[2-4]", "node-2:6700", "a[5-6]", "node-2:6700",
            "b[7-7]", "node-2:6700"), assignments.get("t-1"));
    }

    @Test
    void anUnknownSchedulerIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> SchedulerOracle.answer(CASE.formatted("random").replace("\n", "")));
    }
}
