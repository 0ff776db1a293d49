package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import harness.storm.cluster.PinnedPlan.Worker;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PinnedPlanTest {
    @Test
    void aPlanIsItsGenerationAndTheWorkerOfEachExecutor() throws PlanException {
        PinnedPlan plan = PinnedPlan.parse(
            "{\"generation\": 7, \"executors\": {\"bolt-a[3-4]\": \"node-1:6700\", \"__acker[1-1]\": \"a:b:6800\"}}");
        assertEquals(7, plan.generation());
        assertEquals(Map.of("bolt-a[3-4]", new Worker("node-1", 6700), "__acker[1-1]", new Worker("a:b", 6800)),
            plan.executors());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        {"generation": 1, "executors": {"a[1-1]": "n:1", "a[1-1]": "n:2"}} | a[1-1] is there twice
        {"generation": 1, "generation": 2, "executors": {"a[1-1]": "n:1"}} | generation is there twice
        {"executors": {"a[1-1]": "n:1"}}                                   | generation must be a whole number, not null
        {"generation": 1.5, "executors": {"a[1-1]": "n:1"}}                | generation must be a whole number, not 1.5
        {"generation": 1}                                                  | executors must be an object with the worker of each executor
        {"generation": 1, "executors": {}}                                 | executors must be an object with the worker of each executor
        {"generation": 1, "executors": ["a[1-1]"]}                         | executors must be an object with the worker of each executor
        {"generation": 1, "executors": {"a[1-1]": "n:1"}, "more": 0}       | unknown key more
        {"generation": 1, "executors": {"a[1-1]": "node-1"}}               | the worker of executor a[1-1] must be NODE:PORT, not "node-1"
        {"generation": 1, "executors": {"a[1-1]": ":1"}}                   | the worker of executor a[1-1] must be NODE:PORT, not ":1"
        {"generation": 1, "executors": {"a[1-1]": "n:0"}}                  | the worker of executor a[1-1] must be NODE:PORT, not "n:0"
        {"generation": 1, "executors": {"a[1-1]": null}}                   | the worker of executor a[1-1] must be NODE:PORT, not null
        {"generation": 1, "executors": {"a[1-1]": {"n": 1}}}               | the worker of executor a[1-1] must be NODE:PORT, not {"n":1}
        [1]                                                                | it is not a JSON object
        7                                                                  | it is not a JSON object
        """)
    void whatIsWrongIsNamed(String text, String wrong) {
        assertEquals(wrong, assertThrows(PlanException.class, () -> PinnedPlan.parse(text)).getMessage());
    }

    @Test
    void aTextThatIsCutAnywhereIsNoPlan() {
        String text = "{\"generation\": 7, \"executors\": {\"bolt-a[3-4]\": \"node-1:6700\"}}";
        for (int length = 0; length < text.length(); length++) {
            String cut = text.substring(0, length);
            PlanException e = assertThrows(PlanException.class, () -> PinnedPlan.parse(cut), cut);
            assertEquals(1, e.getMessage().lines().count(), e.getMessage());
        }
        assertThrows(PlanException.class, () -> PinnedPlan.parse(text + text));
        assertThrows(PlanException.class, () -> PinnedPlan.parse("{\"a\":".repeat(100_000)));
    }
}
