package harness.storm.rewrite;

import java.util.List;
import org.apache.storm.tuple.Values;

/**
 * What one worker tells the others of the queues of one component's tasks. It says how things are, and not what has changed,
 * so that one which is lost, comes twice or comes late does no harm.
 *
 * @param origin the worker
 * @param number of this one among its signals
 * @param component whose queues
 * @param state what is done about them
 * @param reached how often they reached their high mark, since the worker began
 */
record Signal(String origin, long number, String component, Relief.State state, long reached) {
    static final List<String> FIELDS = List.of("origin", "number", "component", "state", "reached");

    static Signal of(List<Object> values) {
        return new Signal((String) values.get(0), (Long) values.get(1), (String) values.get(2),
            Relief.State.valueOf((String) values.get(3)), (Long) values.get(4));
    }

    Values values() {
        return new Values(origin, number, component, state.name(), reached);
    }
}
