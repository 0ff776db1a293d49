package harness.storm.rewrite;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** Components for tests that do not emit by themselves: each test has at the collectors. */
final class Parts {
    private Parts() {
    }

    private static void declare(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("n"));
        declarer.declareStream("straight", true, new Fields("n"));
        declarer.declareStream("unheard", new Fields("n"));
    }

    public static class Source extends BaseRichSpout {
        private static final long serialVersionUID = 1L;
        protected transient SpoutOutputCollector collector;
        protected transient TopologyContext context;

        @Override
        public void open(Map<String, Object> conf, TopologyContext own, SpoutOutputCollector output) {
            collector = output;
            context = own;
        }

        @Override
        public void nextTuple() {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }

    public static class End extends BaseRichBolt {
        private static final long serialVersionUID = 1L;
        protected transient OutputCollector collector;
        protected transient TopologyContext context;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext own, OutputCollector output) {
            collector = output;
            context = own;
        }

        @Override
        public void execute(Tuple tuple) {
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
        }
    }

    public static class Relay extends End {
        private static final long serialVersionUID = 1L;

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declare(declarer);
        }
    }
}
