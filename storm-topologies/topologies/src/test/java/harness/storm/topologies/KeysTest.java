package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class KeysTest {

    /**
     * Chi-square of 160,000 keys against skewed weights A-P. 37.70 is the 99.9 % quantile with 15
     * degrees of freedom (tables); the seed is fixed, so the test either always passes or never.
     */
    @Test
    void frequenciesFollowTheWeights() {
        List<String> names = new ArrayList<>();
        List<Double> weights = new ArrayList<>();
        for (char c = 'A'; c <= 'P'; c++) {
            names.add(String.valueOf(c));
            weights.add((double) ('P' - c + 1));
        }
        Keys keys = new Keys(names, weights);
        int n = 160_000;
        Map<String, Integer> counts = new HashMap<>();
        for (int id = 0; id < n; id++) {
            counts.merge(keys.of(1, new Message(id, 0, "", "spout:1", null)), 1, Integer::sum);
        }
        double sum = weights.stream().mapToDouble(w -> w).sum();
        double chiSquare = 0;
        for (int i = 0; i < names.size(); i++) {
            double expected = n * weights.get(i) / sum;
            double difference = counts.get(names.get(i)) - expected;
            chiSquare += difference * difference / expected;
        }
        assertTrue(chiSquare < 37.70, "chi-square " + chiSquare);
    }

    @Test
    void sameTupleSameKey() {
        Message message = Fixtures.message(1, 5);
        assertEquals(Fixtures.KEYS.of(3, message), Fixtures.KEYS.of(3, message));
    }

    /** Two hops, or two children, of a message choose independently: with ten keys they agree in a tenth. */
    @Test
    void hopsAndChildrenChooseIndependently() {
        List<String> names = List.of("0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
        Keys keys = new Keys(names, names.stream().map(k -> 1.0).toList());
        int n = 20_000;
        int sameHop = 0;
        int sameChild = 0;
        for (int id = 0; id < n; id++) {
            Message message = new Message(id, 1, "", "spout:1", null);
            String key = keys.of(1, message);
            sameHop += key.equals(keys.of(1, message.via("b", 2))) ? 1 : 0;
            sameChild += key.equals(keys.of(1, message.withChild(2))) ? 1 : 0;
        }
        double tolerance = 4 * Math.sqrt(0.1 * 0.9 / n);
        assertEquals(0.1, sameHop / (double) n, tolerance);
        assertEquals(0.1, sameChild / (double) n, tolerance);
    }

    @Test
    void theTaskOnThePathDoesNotMatter() {
        Message here = new Message(5, 1, "", "spout:1/b:2", null);
        Message there = new Message(5, 1, "", "spout:3/b:4", null);
        assertEquals(Fixtures.KEYS.of(3, here), Fixtures.KEYS.of(3, there));
        assertNotEquals(here, there);
    }

    @Test
    void refusesWhatIsNoDistribution() {
        assertThrows(IllegalArgumentException.class, () -> new Keys(List.of(), List.of()));
        assertThrows(IllegalArgumentException.class, () -> new Keys(List.of("A"), List.of(1.0, 2.0)));
        assertThrows(IllegalArgumentException.class, () -> new Keys(List.of("A", "A"), List.of(1.0, 2.0)));
        assertThrows(IllegalArgumentException.class, () -> new Keys(List.of("A", "B"), List.of(1.0, 0.0)));
        assertThrows(IllegalArgumentException.class, () -> new Keys(List.of("A"), List.of(Double.NaN)));
    }
}
