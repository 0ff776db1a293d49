package harness.storm.keygroups;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The table that a sending task routes by: its {@link RoutingBolt} changes it, its {@link TableGrouping} reads it.
 *
 * <p>Storm makes groupings itself, one an executor, so the two meet by the names of topology, task and component. Both are
 * called on the executor's thread.
 */
final class Adopted {
    private static final Map<Key, Adopted> ALL = new ConcurrentHashMap<>();

    private record Key(String topology, int task, String component) {}

    private RoutingTable table;

    private Adopted(RoutingTable table) {
        this.table = table;
    }

    /** What a task routes by on its way to a component, at first the first table. */
    static Adopted of(String topology, int task, String component, RoutingTable first) {
        return ALL.computeIfAbsent(new Key(topology, task, component), key -> new Adopted(first));
    }

    RoutingTable table() {
        return table;
    }

    void adopt(RoutingTable newer) {
        table = newer;
    }
}
