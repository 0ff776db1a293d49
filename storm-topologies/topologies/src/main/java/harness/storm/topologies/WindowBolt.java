package harness.storm.topologies;

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.windowing.TupleWindow;

/**
 * One output for a window on each stream that is due: on all of its streams, or on those that a join's
 * {@link Routing} says.
 *
 * <p><b>What the output is</b> (thesis 5.3.1). The window's tuples are sorted by path; one of the paths
 * that occur is chosen, each as likely; one of the tuples that followed it is chosen as the basis; and
 * the output's entry time ({@link Message#enteredNs}) is the mean over all tuples that followed it. The
 * choices are draws named by the first tuple in order (path, then message, then child), so the same
 * window always gives the same output. Outputs on different streams are chosen independently.
 *
 * <p><b>Whom the output stands for.</b> Its members are those of the tuples that are new in the window.
 * A sliding window's tuples are in several windows, but each is listed once, with the first window that
 * has it: every message has one latency for each sink, the earliest at which a result that includes it
 * is out. Should the window fire with old tuples only, the output has no members.
 */
final class WindowBolt extends BaseWindowedBolt {
    private static final long serialVersionUID = 1L;
    private final Workload workload;
    private final Routing routing;
    private final List<String> streams;
    private transient OutputCollector collector;
    private transient Arrivals arrivals;
    private transient String component;
    private transient int task;

    /**
     * Creates the bolt.
     *
     * @param routing a join's; null for a bolt that emits on all of its streams
     * @param streams that it emits on
     */
    WindowBolt(Workload workload, Window window, Routing routing, List<String> streams) {
        this.workload = workload;
        this.routing = routing;
        this.streams = List.copyOf(streams);
        window.applyTo(this);
    }

    /** Tells the bolt where to find its tuples' arrivals; called before prepare. */
    void readFrom(Arrivals arrivals) {
        this.arrivals = arrivals;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        component = context.getThisComponentId();
        task = context.getThisTaskId();
    }

    @Override
    public void execute(TupleWindow window) {
        List<Arrivals.Arrival> all = arrivals.of(window.get());
        List<Arrivals.Arrival> fresh = arrivals.of(window.getNew());
        for (String stream : due(all)) {
            Message basis = basis(all, routing == null ? 0 : streams.indexOf(stream) + 1);
            String key = workload.key(basis);
            String json = workload.output(basis, component, task).toJson();
            long emittedNs = System.nanoTime();
            List<Member> members = fresh.stream().flatMap(a -> a.membersVia(task, emittedNs).stream()).toList();
            collector.emit(stream, Tuples.values(key, json, Members.encode(members)));
        }
        arrivals.release(window.getNew());
    }

    private List<String> due(List<Arrivals.Arrival> window) {
        if (routing == null) {
            return streams;
        }
        Map<String, Long> byInput =
                window.stream().collect(Collectors.groupingBy(Arrivals.Arrival::source, Collectors.counting()));
        return routing.streams(byInput.values(), streams);
    }

    /**
     * Chooses the tuple that an output is based on.
     *
     * @param index tells the outputs of one window apart
     * @return its message, with the thesis's entry time
     */
    private Message basis(List<Arrivals.Arrival> window, int index) {
        List<Arrivals.Arrival> sorted = window.stream().sorted(BY_PATH).toList();
        Map<String, List<Arrivals.Arrival>> byPath =
                sorted.stream()
                        .collect(Collectors.groupingBy(a -> a.message().path(), TreeMap::new, Collectors.toList()));
        Message first = sorted.get(0).message();
        Function<Draw.Purpose, Draw> draw = purpose -> Draw.of(workload.seed(), purpose, first);
        int path = draw.apply(Draw.Purpose.PATH).below(byPath.size(), index);
        List<Arrivals.Arrival> followers = List.copyOf(byPath.values()).get(path);
        int chosen = draw.apply(Draw.Purpose.BASIS).below(followers.size(), index);
        return followers.get(chosen).message().entered(meanEntryNs(followers));
    }

    private static final Comparator<Arrivals.Arrival> BY_PATH =
            Comparator.<Arrivals.Arrival, String>comparing(a -> a.message().path())
                    .thenComparingLong(a -> a.message().messageId())
                    .thenComparingInt(a -> a.message().child());

    /** The mean, taken from the first so that no sum of clock readings can overflow. */
    private static long meanEntryNs(List<Arrivals.Arrival> followers) {
        long origin = entryNs(followers.get(0));
        double mean = followers.stream().mapToLong(a -> entryNs(a) - origin).average().orElseThrow();
        return origin + Math.round(mean);
    }

    private static long entryNs(Arrivals.Arrival arrival) {
        return arrival.message().entryNs(arrival.members());
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        Fields fields = Tuples.fields();
        for (String stream : streams) {
            declarer.declareStream(stream, fields);
        }
    }
}
