package harness.storm.rewrite;

import harness.storm.instrument.Series;
import java.io.Serializable;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.storm.ICredentialsListener;
import org.apache.storm.task.IBolt;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * A task's part of Leron's versatile bolt (section 5.1): the next bolt, and the choice of tuples that it serves here instead of
 * in a task of its own.
 *
 * <p>What the next bolt emits leaves on streams of its own, to whoever subscribes to the helped component's. It is acked and
 * failed like anything else that is anchored to the task's inputs.
 */
final class Helper implements Serializable {
    private static final long serialVersionUID = 1L;

    private final IBolt next;
    private final String helped;
    private final String stream;
    private transient Relief relief;
    private transient Ratio ratio;
    private transient Share share;
    private transient long offered;
    private transient long tuples;
    private transient long wallNs;

    /**
     * @param next the helped component's object, not instrumented
     * @param helped the component
     * @param stream the helper's stream that only the helped component subscribes to
     */
    Helper(IBolt next, String helped, String stream) {
        this.next = next;
        this.helped = helped;
        this.stream = stream;
    }

    String stream() {
        return stream;
    }

    void prepare(Map<String, Object> conf, TopologyContext plain, Relief of, BoltOutputs outputs) {
        relief = of;
        ratio = of.ratio(helped);
        share = new Share();
        next.prepare(conf, plain, new OutputCollector(new Outputs(outputs)));
    }

    /** Whether the next tuple of the stream is served here. */
    boolean takes() {
        offered++;
        return share.next(relief.helps(helped) ? 1 : ratio.value());
    }

    /** Serves a tuple, as the helped component would. */
    void serve(Tuple tuple) {
        long startedNs = System.nanoTime();
        next.execute(tuple);
        tuples++;
        wallNs += System.nanoTime() - startedNs;
    }

    void setCredentials(Map<String, String> credentials) {
        if (next instanceof ICredentialsListener listener) {
            listener.setCredentials(credentials);
        }
    }

    void cleanup() {
        next.cleanup();
    }

    /** Adds {@code help}; starts again from zero. */
    void drainTo(Series series) {
        series.add("help", stream, helped, Map.of("offered", offered, "tuples", tuples, "wall_sum_ns", wallNs,
            "ratio", ratio.value(), "requests", ratio.requests()));
        offered = 0;
        tuples = 0;
        wallNs = 0;
    }

    /** The next collector: from the helped component's streams to those of the helper. */
    private final class Outputs implements IOutputCollector {
        private final BoltOutputs outputs;

        Outputs(BoltOutputs outputs) {
            this.outputs = outputs;
        }

        @Override
        public List<Integer> emit(String of, Collection<Tuple> anchors, List<Object> values) {
            return outputs.emit(HiddenStreams.help(helped, of), anchors, values);
        }

        @Override
        public void emitDirect(int task, String of, Collection<Tuple> anchors, List<Object> values) {
            outputs.emitDirect(task, HiddenStreams.help(helped, of), anchors, values);
        }

        @Override
        public void ack(Tuple input) {
            outputs.ack(input);
        }

        @Override
        public void fail(Tuple input) {
            outputs.fail(input);
        }

        @Override
        public void resetTimeout(Tuple input) {
            outputs.resetTimeout(input);
        }

        @Override
        public void flush() {
            outputs.flush();
        }

        @Override
        public void reportError(Throwable error) {
            outputs.reportError(error);
        }
    }
}
