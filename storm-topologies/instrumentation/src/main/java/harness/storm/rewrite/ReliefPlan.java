package harness.storm.rewrite;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Whose queues are watched, and what follows from it.
 *
 * @param marks of the components that are watched
 * @param helpers the helper of each helped component
 * @param deltas the step of the helped share, by helped component
 * @param pausing whether spouts pause while a queue is under pressure and nobody helps (Heron's back-pressure)
 */
record ReliefPlan(TreeMap<String, Watermarks> marks, TreeMap<String, String> helpers, TreeMap<String, Double> deltas,
        boolean pausing) implements Serializable {

    ReliefPlan(Map<String, Watermarks> marks, Map<String, String> helpers, Map<String, Double> deltas, boolean pausing) {
        this(new TreeMap<>(marks), new TreeMap<>(helpers), new TreeMap<>(deltas), pausing);
    }

    /** The components that a component helps. */
    List<String> helpedBy(String helper) {
        return helpers.keySet().stream().filter(helped -> helpers.get(helped).equals(helper)).toList();
    }
}
