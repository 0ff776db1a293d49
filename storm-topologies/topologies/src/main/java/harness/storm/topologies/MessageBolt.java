package harness.storm.topologies;

import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/**
 * A bolt that deals with one tuple at a time: reads its message, spends the service time, emits
 * anchored tuples, acks. A tuple that is not a message is reported and failed.
 */
abstract class MessageBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    protected final Workload workload;
    private final ServiceTime service;
    protected transient OutputCollector collector;
    protected transient String component;
    protected transient int task;

    /**
     * Creates the bolt.
     *
     * @param workload seed and keys
     * @param service time spent on each tuple; null for none
     */
    MessageBolt(Workload workload, ServiceTime service) {
        this.workload = workload;
        this.service = service;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        component = context.getThisComponentId();
        task = context.getThisTaskId();
    }

    @Override
    public void execute(Tuple tuple) {
        long receivedNs = System.nanoTime();
        try {
            receive(tuple, Tuples.message(tuple), Members.decode(Tuples.members(tuple)), receivedNs);
        } catch (MalformedMessageException e) {
            refuse(tuple, e);
        }
    }

    /** Reports and fails a tuple that is not what it should be. */
    final void refuse(Tuple tuple, Exception why) {
        collector.reportError(why);
        collector.fail(tuple);
    }

    /** Serves a tuple that has come: at once, but in a bolt that holds some back. */
    void receive(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        serve(tuple, message, members, receivedNs);
    }

    /** Spends the service time, and emits. */
    final void serve(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        if (service != null) {
            service.spend(workload.seed(), message);
        }
        process(tuple, message, members, receivedNs);
    }

    /**
     * Emits what the bolt makes of a tuple, and acks it.
     *
     * @param tuple to anchor to and to ack
     * @param message the tuple's message, without this component
     * @param members the tuple's members, without this component
     * @param receivedNs nanoTime when the tuple was received
     */
    abstract void process(Tuple tuple, Message message, List<Member> members, long receivedNs);

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Tuples.fields());
    }
}
