package harness.storm.topologies;

import java.io.Serializable;
import java.util.List;
import java.util.Set;

/**
 * The keys that fields grouping sees, and how often each is chosen (thesis figure 5.5).
 *
 * <p>The key of a tuple is the first whose cumulative weight, divided by the sum of all, exceeds
 * {@code uniform(0)} of the tuple's {@link Draw} for {@code KEY}. Sums are taken from the first key
 * on, in double precision.
 *
 * @param names at least one key, all different
 * @param weights one a key, positive, in any unit
 */
record Keys(List<String> names, List<Double> weights) implements Serializable {

    Keys {
        Checks.allPresent("names", names);
        Checks.allPresent("weights", weights);
        Checks.that(!names.isEmpty(), "there has to be at least one key");
        Checks.that(names.size() == weights.size(), "there have to be as many weights as names");
        Checks.that(Set.copyOf(names).size() == names.size(), "two keys have the same name");
        for (double weight : weights) {
            Checks.that(weight > 0 && Double.isFinite(weight), "a weight has to be positive, not " + weight);
        }
        names = List.copyOf(names);
        weights = List.copyOf(weights);
    }

    /** The key of the tuple that this message is emitted as. */
    String of(long seed, Message message) {
        return at(Draw.of(seed, Draw.Purpose.KEY, message).uniform(0));
    }

    private String at(double uniform) {
        double sum = 0;
        for (double weight : weights) {
            sum += weight;
        }
        double reached = 0;
        for (int i = 0; i < names.size() - 1; i++) {
            reached += weights.get(i);
            if (uniform < reached / sum) {
                return names.get(i);
            }
        }
        return names.get(names.size() - 1);
    }
}
