package harness.storm.instrument;

import java.util.Collection;
import java.util.List;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.tuple.Tuple;

/** A bolt's collector that counts what was emitted, after Storm has accepted it. */
final class CountingBoltCollector implements IOutputCollector {
    private final IOutputCollector collector;
    private final Outputs outputs;

    CountingBoltCollector(IOutputCollector collector, Outputs outputs) {
        this.collector = collector;
        this.outputs = outputs;
    }

    @Override
    public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> values) {
        List<Integer> tasks = collector.emit(stream, anchors, values);
        outputs.emitted(stream, tasks);
        return tasks;
    }

    @Override
    public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> values) {
        collector.emitDirect(task, stream, anchors, values);
        outputs.emittedDirect(stream, task);
    }

    @Override
    public void ack(Tuple input) {
        collector.ack(input);
    }

    @Override
    public void fail(Tuple input) {
        collector.fail(input);
    }

    @Override
    public void resetTimeout(Tuple input) {
        collector.resetTimeout(input);
    }

    @Override
    public void flush() {
        collector.flush();
    }

    @Override
    public void reportError(Throwable error) {
        collector.reportError(error);
    }
}
