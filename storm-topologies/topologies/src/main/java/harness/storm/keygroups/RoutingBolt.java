package harness.storm.keygroups;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;

/**
 * A bolt that sends to keyed components: takes up new routing tables between two tuples, and sends each as a marker first.
 *
 * <p>A tick comes every second, so that a sender without input takes them up too. The bolt may emit on the executor's
 * thread only.
 */
public final class RoutingBolt implements IRichBolt {
    private static final long serialVersionUID = 1L;

    private final IRichBolt bolt;
    private final List<KeyedTarget> targets;
    private transient OutputCollector collector;
    private transient List<Route> routes;

    private record Route(TableFeed feed, Adopted adopted, List<Integer> tasks) {}

    /**
     * Wraps a bolt.
     *
     * @param bolt that emits
     * @param targets keyed components that subscribe to it
     */
    public RoutingBolt(IRichBolt bolt, List<KeyedTarget> targets) {
        this.bolt = bolt;
        this.targets = List.copyOf(targets);
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        routes = new ArrayList<>();
        for (KeyedTarget target : targets) {
            List<Integer> tasks = context.getComponentTasks(target.component()).stream().sorted().toList();
            RoutingTable first = RoutingTable.first(target.groups(), tasks.size());
            String topology = context.getStormId();
            Adopted adopted = Adopted.of(topology, context.getThisTaskId(), target.component(), first);
            adopted.adopt(first); // of a task that was here before
            routes.add(new Route(TableFeed.of(topology, target, tasks.size()), adopted, tasks));
        }
        bolt.prepare(conf, context, collector);
    }

    @Override
    public void execute(Tuple tuple) {
        routes.forEach(this::takeUp);
        if (TupleUtils.isTick(tuple)) {
            collector.ack(tuple);
        } else {
            bolt.execute(tuple);
        }
    }

    private void takeUp(Route route) {
        RoutingTable next;
        while ((next = route.feed.after(route.adopted.table().version())) != null) {
            byte[] json = next.encode();
            route.tasks.forEach(task -> collector.emitDirect(task, KeyedStreams.TABLES, new Values(json)));
            route.adopted.adopt(next);
        }
    }

    @Override
    public void cleanup() {
        routes.forEach(route -> route.feed.close());
        bolt.cleanup();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        bolt.declareOutputFields(declarer);
        declarer.declareStream(KeyedStreams.TABLES, true, KeyedStreams.fields(KeyedStreams.TABLES));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 1);
    }
}
