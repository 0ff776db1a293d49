package harness.storm.submit;

import harness.storm.rewrite.RewriteException;
import harness.storm.rewrite.Rewriter;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.thrift.TException;

/**
 * A Nimbus that passes every call on to a real one, and changes the topology as it is submitted. Without a real one it
 * answers what a submission asks for, and describes the topology.
 *
 * <p>A topology belongs to the harness once it is submitted: a {@code main} that kills, deactivates or rebalances it when it
 * is done watching (as storm-perf's do) is not heard.
 */
final class Capture implements InvocationHandler {
    private static final int KILL_WAIT_S = 10;

    private final Nimbus.Iface nimbus;
    private final SubmitSettings settings;
    private final CompletableFuture<Void> submitted = new CompletableFuture<>();
    private String topology;
    private Instrumenter.Result result;
    private Rewriter.Result rewriting;
    private Map<String, Object> description;
    private SubmitException failure;

    /** @param nimbus the real one, or null */
    Capture(Nimbus.Iface nimbus, SubmitSettings settings) {
        this.nimbus = nimbus;
        this.settings = settings;
    }

    /** What {@code StormSubmitter} shall take for Nimbus. */
    Nimbus.Iface proxy() {
        return (Nimbus.Iface) Proxy.newProxyInstance(
            Capture.class.getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, this);
    }

    /** One call at a time: a Thrift client is one connection. */
    @Override
    public synchronized Object invoke(Object proxy, Method method, Object[] args) throws Throwable {
        switch (method.getName()) {
            case "submitTopology", "submitTopologyWithOpts" -> {
                return submit(method, args);
            }
            case "killTopology", "killTopologyWithOpts", "activate", "deactivate", "rebalance" -> {
                if (args[0].equals(topology)) {
                    System.out.println("not passed on to Nimbus: " + method.getName() + " " + topology);
                    return null;
                }
            }
            case "isTopologyNameAllowed" -> {
                if (topology == null && Boolean.FALSE.equals(call(method, args))) {
                    throw fail(SubmitException.failed("topology name " + args[0] + " is in use or not allowed"));
                }
                return true;
            }
            default -> {
            }
        }
        return call(method, args);
    }

    /** Done as soon as a topology was submitted. */
    CompletableFuture<Void> submitted() {
        return submitted;
    }

    /** The name of the topology that was submitted; null if none was. */
    synchronized String topology() {
        return topology;
    }

    synchronized Instrumenter.Result result() {
        return result;
    }

    /** Which streams are batched, and which are not though they were to be. */
    synchronized Rewriter.Result rewriting() {
        return rewriting;
    }

    /** What was submitted, before anything was changed. */
    synchronized Map<String, Object> description() {
        return description;
    }

    /** Why the submission was refused here, whatever {@code main} made of it; null if it was not. */
    synchronized SubmitException failure() {
        return failure;
    }

    private Object submit(Method method, Object[] args) throws Throwable {
        String name = (String) args[0];
        if (topology != null) {
            String killed = nimbus == null ? "" : "; the first is being killed";
            kill();
            throw fail(SubmitException.failed(
                "main submits more than one topology: " + topology + " and " + name + killed));
        }
        Map<String, Object> conf = new HashMap<>(Submit.object((String) args[2]));
        StormTopology changed = (StormTopology) args[3];
        description = Description.of(changed, conf);
        try {
            Description.resize(changed, settings.components());
        } catch (SubmitException e) {
            throw fail(e);
        }
        conf.putAll(settings.storm());
        Rewriter rewriter;
        try {
            rewriter = Rewriter.plan(changed, conf, settings.batching());
        } catch (RewriteException e) {
            throw fail(SubmitException.settings(e.getMessage()));
        }
        Instrumenter.Result outcome;
        if (settings.instrument()) {
            outcome = Instrumenter.wrap(changed);
            Instrumenter.configure(conf, settings.metrics());
        } else {
            outcome = Instrumenter.leave(changed, "instrumentation is off");
        }
        Rewriter.Result rewritten = rewriter.apply(changed, conf);
        args[2] = JSONValue.toJSONString(conf);
        try {
            call(method, args);
        } catch (TException e) {
            fail(Submit.explain(e)); // remembered, as main may swallow it
            throw e;
        }
        topology = name;
        result = outcome;
        rewriting = rewritten;
        submitted.complete(null);
        return null;
    }

    /**
     * Ends a topology whose submission counts as failed, so that it is not left behind.
     *
     * <p>Not at once: a supervisor that is fetching a topology's files as they vanish stops itself (Storm 2.8.3).
     */
    synchronized void kill() throws TException {
        if (nimbus != null) {
            KillOptions soon = new KillOptions();
            soon.set_wait_secs(KILL_WAIT_S);
            nimbus.killTopologyWithOpts(topology, soon);
        }
    }

    private SubmitException fail(SubmitException reason) {
        failure = reason;
        return reason;
    }

    private Object call(Method method, Object[] args) throws Throwable {
        if (nimbus == null) {
            return answer(method);
        }
        try {
            return method.invoke(nimbus, args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** What a Nimbus without topologies would say to somebody who submits one. */
    private static Object answer(Method method) {
        return switch (method.getName()) {
            case "isTopologyNameAllowed" -> true;
            case "beginFileUpload" -> "nowhere";
            case "uploadChunk", "finishFileUpload", "submitTopology", "submitTopologyWithOpts" -> null;
            default -> throw SubmitException.failed(
                "main asks Nimbus for " + method.getName() + ", and no cluster runs while a topology is described");
        };
    }
}
