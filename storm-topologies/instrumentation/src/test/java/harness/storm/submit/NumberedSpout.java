package harness.storm.submit;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Emits so many messages, numbered from 0, and then no more; number 7 has the id {@code m-7}. */
abstract class NumberedSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;
    private final long messages;
    private transient SpoutOutputCollector collector;
    private long next;

    NumberedSpout(long messages) {
        this.messages = messages;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector output) {
        collector = output;
    }

    @Override
    public void nextTuple() {
        if (next < messages) {
            collector.emit(new Values(next), "m-" + next);
            next++;
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("n"));
    }
}
