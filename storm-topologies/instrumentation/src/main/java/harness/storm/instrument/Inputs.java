package harness.storm.instrument;

import java.util.Arrays;
import java.util.Map;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * Tuples received by one task, by input stream and source component.
 *
 * <p>A handful of inputs at most: a scan over an array costs less than a hash and allocates nothing. Only touched from the
 * executor's thread, which is the one that calls execute and asks for the metrics.
 */
final class Inputs {
    private Input[] inputs;

    Inputs(TopologyContext context) {
        inputs = context.getThisSources().keySet().stream()
            .map(id -> new Input(id.get_componentId(), id.get_streamId()))
            .toArray(Input[]::new);
    }

    Input of(Tuple tuple) {
        String component = tuple.getSourceComponent();
        String stream = tuple.getSourceStreamId();
        for (Input input : inputs) {
            if (input.component.equals(component) && input.stream.equals(stream)) {
                return input;
            }
        }
        // Ticks and the like are subscribed to behind the component's back.
        Input input = new Input(component, stream);
        inputs = Arrays.copyOf(inputs, inputs.length + 1);
        inputs[inputs.length - 1] = input;
        return input;
    }

    /** Adds {@code received} and, for streams that carry no data, {@code system_service}; starts again from zero. */
    void drainTo(Series series) {
        for (Input input : inputs) {
            series.add("received", input.stream, input.component, Map.of("count", input.count));
            if (input.system && input.count > 0) {
                series.add("system_service", input.stream, input.component,
                    Map.of("count", input.count, "wall_sum_ns", input.wallSumNs));
            }
            input.count = 0;
            input.wallSumNs = 0;
        }
    }

    static final class Input {
        final String component;
        final String stream;

        /** Storm's own ({@code __tick}, {@code $checkpoint}) and {@link Series#CONTROL}. Not data, so not among arrivals and service times. */
        final boolean system;

        long count;
        long wallSumNs;

        Input(String component, String stream) {
            this.component = component;
            this.stream = stream;
            this.system =
                stream.startsWith("__") || stream.startsWith("$checkpoint") || stream.startsWith(Series.CONTROL);
        }
    }
}
