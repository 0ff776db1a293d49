package harness.storm.rewrite;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.Histogram;
import com.codahale.metrics.Meter;
import com.codahale.metrics.MetricSet;
import com.codahale.metrics.Timer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.generated.NodeInfo;
import org.apache.storm.hooks.ITaskHook;
import org.apache.storm.metric.api.CombinedMetric;
import org.apache.storm.metric.api.ICombiner;
import org.apache.storm.metric.api.IMetric;
import org.apache.storm.metric.api.IReducer;
import org.apache.storm.metric.api.ReducedMetric;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Fields;

/**
 * A task's context that knows nothing of hidden streams; all else is the task's own, from Storm.
 *
 * <p>User code asks it for sources, and may wait for each: event-time windows wait for tuples of every source before they
 * let time pass.
 */
final class PlainContext extends TopologyContext {
    private final TopologyContext own;

    PlainContext(TopologyContext own) {
        super(HiddenStreams.without(own.getRawTopology()), own.getConf(), own.getTaskToComponent(), Map.of(), Map.of(),
            own.getBlobToLastKnownVersion(), own.getStormId(), own.getCodeDir(), null, own.getThisTaskId(),
            own.getThisWorkerPort(), own.getThisWorkerTasks(), Map.of(), Map.of(), new HashMap<>(), new HashMap<>(),
            new AtomicBoolean(), null);
        this.own = own;
    }

    @Override
    public List<Integer> getComponentTasks(String componentId) {
        return own.getComponentTasks(componentId);
    }

    @Override
    public Fields getComponentOutputFields(String componentId, String streamId) {
        return own.getComponentOutputFields(componentId, streamId);
    }

    @Override
    public List<Integer> getThisWorkerTasks() {
        return own.getThisWorkerTasks();
    }

    @Override
    public String getAssignmentId() {
        return own.getAssignmentId();
    }

    @Override
    public AtomicReference<Map<Integer, NodeInfo>> getTaskToNodePort() {
        return own.getTaskToNodePort();
    }

    @Override
    public AtomicReference<Map<String, String>> getNodeToHost() {
        return own.getNodeToHost();
    }

    @Override
    public String getPIDDir() {
        return own.getPIDDir();
    }

    @Override
    public Object getResource(String name) {
        return own.getResource(name);
    }

    @Override
    public ExecutorService getSharedExecutor() {
        return own.getSharedExecutor();
    }

    @Override
    public void setTaskData(String name, Object data) {
        own.setTaskData(name, data);
    }

    @Override
    public Object getTaskData(String name) {
        return own.getTaskData(name);
    }

    @Override
    public void setExecutorData(String name, Object data) {
        own.setExecutorData(name, data);
    }

    @Override
    public Object getExecutorData(String name) {
        return own.getExecutorData(name);
    }

    @Override
    public void addTaskHook(ITaskHook hook) {
        own.addTaskHook(hook);
    }

    @Override
    public List<ITaskHook> getHooks() {
        return own.getHooks();
    }

    @Deprecated
    @Override
    public <T extends IMetric> T registerMetric(String name, T metric, int timeBucketSizeInSecs) {
        return own.registerMetric(name, metric, timeBucketSizeInSecs);
    }

    @Deprecated
    @Override
    public ReducedMetric registerMetric(String name, IReducer reducer, int timeBucketSizeInSecs) {
        return own.registerMetric(name, reducer, timeBucketSizeInSecs);
    }

    @Deprecated
    @Override
    public CombinedMetric registerMetric(String name, ICombiner combiner, int timeBucketSizeInSecs) {
        return own.registerMetric(name, combiner, timeBucketSizeInSecs);
    }

    @Deprecated
    @Override
    public IMetric getRegisteredMetricByName(String name) {
        return own.getRegisteredMetricByName(name);
    }

    @Override
    public Timer registerTimer(String name) {
        return own.registerTimer(name);
    }

    @Override
    public Histogram registerHistogram(String name) {
        return own.registerHistogram(name);
    }

    @Override
    public Meter registerMeter(String name) {
        return own.registerMeter(name);
    }

    @Override
    public Counter registerCounter(String name) {
        return own.registerCounter(name);
    }

    @Override
    public <T> Gauge<T> registerGauge(String name, Gauge<T> gauge) {
        return own.registerGauge(name, gauge);
    }

    @Override
    public void registerMetricSet(String prefix, MetricSet set) {
        own.registerMetricSet(prefix, set);
    }
}
