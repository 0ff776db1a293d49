package harness.storm.rewrite;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The share of tuples to a helped bolt that a component in front of it serves itself, after Leron (section 4.3): one for all
 * of the component's tasks in a worker.
 */
final class Ratio {
    private static final Map<String, Ratio> OF_THIS_WORKER = new ConcurrentHashMap<>();

    private final double delta;
    private double value;
    private long requests;

    /** It begins at 0: nobody is helped who has not asked. */
    Ratio(double delta) {
        this.delta = delta;
    }

    /** The one of a worker's helper and helped component. */
    static Ratio of(String worker, String helper, String helped, double delta) {
        return OF_THIS_WORKER.computeIfAbsent(worker + "\n" + helper + "\n" + helped, key -> new Ratio(delta));
    }

    /** The helped bolt's queue has reached its high water. */
    synchronized void helpIsAskedFor() {
        value += (1 - value) * delta; // eq. 1
        requests++;
    }

    /** The helper's own queue has reached its high water. */
    synchronized void helperIsBusy() {
        value -= value * delta;
    }

    /** How often help was asked for. */
    synchronized long requests() {
        return requests;
    }

    synchronized double value() {
        return value;
    }
}
