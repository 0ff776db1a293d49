package harness.storm.topologies;

import harness.storm.keygroups.KeyedStreams;
import harness.storm.keygroups.KeyedTarget;
import harness.storm.keygroups.RoutingBolt;
import harness.storm.keygroups.TableGrouping;
import harness.storm.topologies.TopologySettings.Component;
import harness.storm.topologies.TopologySettings.Stream;
import java.util.HashMap;
import java.util.List;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/** Builds Storm's topology from the settings: any components and streams, not only the five. */
final class TopologyFactory {
    private final TopologySettings settings;
    private final Workload workload;
    private final Graph graph;
    private final TopologyBuilder builder = new TopologyBuilder();

    private TopologyFactory(TopologySettings settings) {
        this.settings = settings;
        graph = new Graph(settings.components(), settings.streams());
        workload = new Workload(settings.seed(), settings.keys());
    }

    /** Builds the topology. */
    static StormTopology build(TopologySettings settings) {
        TopologyFactory factory = new TopologyFactory(settings);
        settings.components().forEach(factory::add);
        return factory.builder.createTopology();
    }

    private void add(String name, Component component) {
        Workload own = workload.emitting(component.outputBytes());
        if (component.role().isSpout()) {
            builder.setSpout(name, MessageSpout.of(settings.spout(), component.topic(), own), component.executors())
                    .setNumTasks(component.tasks());
            return;
        }
        List<KeyedTarget> keyed = graph.keyedTargets(name).stream().map(this::target).toList();
        Role.Outlets outlets = new Role.Outlets(graph.emitted(name), keyed);
        IRichBolt plain = component.role().bolt(component, outlets, settings.sink(), own);
        IRichBolt bolt = keyed.isEmpty() ? plain : new RoutingBolt(plain, keyed);
        BoltDeclarer declarer = builder.setBolt(name, bolt, component.executors());
        declarer.setNumTasks(component.tasks());
        for (Stream stream : graph.inputs(name)) {
            subscribe(declarer, stream);
        }
        if (component.groups() != null) {
            declarer.directGrouping(name, KeyedStreams.STATES);
        }
    }

    private KeyedTarget target(String keyed) {
        Component component = settings.components().get(keyed);
        return new KeyedTarget(keyed, component.groups(), broker(), component.topic());
    }

    /** Settings by which a Kafka client reaches the broker, as the spouts' do. */
    private HashMap<String, Object> broker() {
        HashMap<String, Object> broker = new HashMap<>();
        broker.put(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, settings.spout().bootstrap());
        settings.spout().consumer().forEach((name, value) -> {
            if (name.startsWith("security.") || name.startsWith("ssl.")) {
                broker.put(name, value);
            }
        });
        return broker;
    }

    private void subscribe(BoltDeclarer bolt, Stream stream) {
        Integer groups = settings.components().get(stream.target()).groups();
        if (groups != null) {
            bolt.customGrouping(stream.source(), stream.stream(), new TableGrouping(groups));
            bolt.directGrouping(stream.source(), KeyedStreams.TABLES);
            return;
        }
        String source = stream.source();
        String id = stream.stream();
        Fields key = new Fields(Tuples.KEY);
        switch (stream.grouping()) {
            case SHUFFLE -> bolt.shuffleGrouping(source, id);
            case FIELDS -> bolt.fieldsGrouping(source, id, key);
            case LOCAL_OR_SHUFFLE -> bolt.localOrShuffleGrouping(source, id);
            case ALL -> bolt.allGrouping(source, id);
            case GLOBAL -> bolt.globalGrouping(source, id);
            case NONE -> bolt.noneGrouping(source, id);
            case PARTIAL_KEY -> bolt.partialKeyGrouping(source, id, key);
        }
    }
}
