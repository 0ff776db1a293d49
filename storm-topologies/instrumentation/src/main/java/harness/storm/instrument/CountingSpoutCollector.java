package harness.storm.instrument;

import java.util.List;
import org.apache.storm.spout.ISpoutOutputCollector;

/** A spout's collector that counts what was emitted and remembers when. */
final class CountingSpoutCollector implements ISpoutOutputCollector {
    private final ISpoutOutputCollector collector;
    private final Outputs outputs;
    private final AckTimes acks;

    CountingSpoutCollector(ISpoutOutputCollector collector, Outputs outputs, AckTimes acks) {
        this.collector = collector;
        this.outputs = outputs;
        this.acks = acks;
    }

    @Override
    public List<Integer> emit(String stream, List<Object> values, Object messageId) {
        acks.emitting(messageId);
        List<Integer> tasks = collector.emit(stream, values, messageId);
        outputs.emitted(stream, tasks);
        return tasks;
    }

    @Override
    public void emitDirect(int task, String stream, List<Object> values, Object messageId) {
        acks.emitting(messageId);
        collector.emitDirect(task, stream, values, messageId);
        outputs.emittedDirect(stream, task);
    }

    @Override
    public long getPendingCount() {
        return collector.getPendingCount();
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
