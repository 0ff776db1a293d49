package harness.storm.topologies;

import harness.storm.instrument.Series;
import harness.storm.keygroups.GroupKeeper;
import harness.storm.keygroups.KeyedStreams;
import harness.storm.keygroups.KeyedTarget;
import harness.storm.keygroups.Moved;
import harness.storm.keygroups.RoutingTable;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A json component with a state by key, in key groups that move between its tasks ({@link GroupKeeper}).
 *
 * <p>What comes of a group that is on its way waits here, unacked, until the group's state is installed. The wait is a part
 * of the hop, between {@code received_ns} and {@code emitted_ns}.
 */
final class KeyedBolt extends JsonBolt implements GroupKeeper.Work<KeyedBolt.Received, GroupState> {
    private static final long serialVersionUID = 1L;
    private static final long PATIENCE_NS = 30_000_000_000L;

    private final Aggregate aggregate;
    private final int groups;
    private final List<KeyedTarget> targets;
    private transient int serving;
    private transient GroupKeeper<Received, GroupState> keeper;
    private transient GroupReport report;
    private transient List<Integer> tasks;

    /** A tuple with what was read of it. */
    record Received(Tuple tuple, Message message, List<Member> members, long receivedNs) {}

    /**
     * Creates the bolt.
     *
     * @param aggregate what is made of a row; null where tuples are counted and the last payload is kept
     * @param targets components with key groups that subscribe to it
     */
    KeyedBolt(
            Workload workload,
            ServiceTime service,
            OutputKey key,
            Aggregate aggregate,
            int groups,
            List<KeyedTarget> targets) {
        super(workload, service, key);
        this.aggregate = aggregate;
        this.groups = groups;
        this.targets = List.copyOf(targets);
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        super.prepare(conf, context, collector);
        tasks = context.getComponentTasks(component).stream().sorted().toList();
        Set<Integer> senders = context.getThisSources().keySet().stream()
                .filter(source -> source.get_streamId().equals(KeyedStreams.TABLES))
                .flatMap(source -> context.getComponentTasks(source.get_componentId()).stream())
                .collect(Collectors.toSet());
        RoutingTable first = RoutingTable.first(groups, tasks.size());
        keeper = new GroupKeeper<>(tasks.indexOf(task), senders, first, PATIENCE_NS, this, System::nanoTime);
        report = new GroupReport();
        // The constant is part of this class: Series itself is not loaded without instrumentation.
        if (conf.containsKey(Series.BUCKET_S)) {
            Series.publish(conf, context, "groups", () -> report.drain(keeper.states()));
        }
    }

    @Override
    public void execute(Tuple tuple) {
        keeper.look();
        try {
            switch (tuple.getSourceStreamId()) {
                case KeyedStreams.TABLES -> {
                    keeper.table(tuple.getSourceTask(), RoutingTable.decode(tuple.getBinary(0)));
                    collector.ack(tuple);
                }
                case KeyedStreams.STATES -> {
                    byte[] state = tuple.getBinary(2);
                    int group = tuple.getInteger(0);
                    keeper.state(group, tuple.getLong(1), GroupState.decode(state), state.length, tuple.getLong(3));
                    collector.ack(tuple);
                }
                default -> super.execute(tuple);
            }
        } catch (IOException | MalformedMessageException e) {
            refuse(tuple, e);
        }
    }

    @Override
    void receive(Tuple tuple, Message message, List<Member> members, long receivedNs) {
        int group = RoutingTable.group(tuple.getStringByField(Tuples.KEY), groups);
        keeper.tuple(tuple.getSourceTask(), group, new Received(tuple, message, members, receivedNs));
    }

    @Override
    public GroupState empty() {
        return new GroupState();
    }

    @Override
    public void process(int group, GroupState state, Received received) {
        long startedNs = System.nanoTime();
        serving = group;
        try {
            Message message = kept(state, received.tuple.getStringByField(Tuples.KEY), received.message);
            serve(received.tuple, message, received.members, received.receivedNs);
        } catch (MalformedMessageException e) {
            refuse(received.tuple, e);
        }
        report.served(group, System.nanoTime() - startedNs);
    }

    /** Brings the key's state up to date, and returns what goes on. */
    private Message kept(GroupState state, String key, Message message) throws MalformedMessageException {
        if (aggregate == null) {
            state.count(key, message.payload());
            return message;
        }
        Row row = Row.parse(message.payload());
        aggregate.add(state, key, row);
        return message.withPayload(row.payload());
    }

    @Override
    void sends(String key) {
        for (KeyedTarget target : targets) {
            report.sent(serving, target.component(), RoutingTable.group(key, target.groups()));
        }
    }

    @Override
    public void handOver(int to, int group, long version, GroupState state) {
        long startedNs = System.nanoTime();
        byte[] bytes = state.encode();
        long serialiseNs = System.nanoTime() - startedNs;
        collector.emitDirect(tasks.get(to), KeyedStreams.STATES, new Values(group, version, bytes, serialiseNs));
    }

    @Override
    public void moved(Moved moved) {
        report.moved(moved);
    }

    @Override
    public void lost(int group, String why) {
        collector.reportError(new IllegalStateException("key group " + group + ": " + why));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        super.declareOutputFields(declarer);
        declarer.declareStream(KeyedStreams.STATES, true, KeyedStreams.fields(KeyedStreams.STATES));
    }
}
