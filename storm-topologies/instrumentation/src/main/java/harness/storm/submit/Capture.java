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
import org.apache.storm.generated.SubmitOptions;
import org.apache.storm.generated.TopologyInitialStatus;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.thrift.TException;
import org.apache.storm.utils.Utils;

/**
 * A Nimbus that passes every call on to a real one, and changes the topology as it is submitted. Without a real one it
 * answers what a submission asks for, and describes the topology.
 *
 * <p>A topology belongs to the harness once it is submitted: a {@code main} that kills, deactivates or rebalances it when it
 * is done watching (as storm-perf's do) is not heard.
 */
final class Capture implements InvocationHandler {
    private static final int KILL_WAIT_S = 10;
    /** Of a topology's name; with a number, a time and an ending it names files. */
    private static final int MOST_CHARACTERS = 180;
    /** Place of {@code submitTopologyWithOpts}' options. */
    private static final int OPTIONS = 4;

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
                if (args[0].equals(topology)) { // activate, too: see submit
                    System.out.println("not passed on to Nimbus: " + method.getName() + " " + topology);
                    return null;
                }
            }
            case "isTopologyNameAllowed" -> {
                requireName((String) args[0]);
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

    /** Which streams are batched, which are not though they were to be, and who is helped. */
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
        requireName(name);
        Map<String, Object> conf = new HashMap<>(Submit.object((String) args[2]));
        StormTopology changed = (StormTopology) args[3];
        description = Description.of(changed, conf);
        try {
            Description.resize(changed, settings.components());
            if (settings.instrument()) {
                Instrumenter.requireNames(changed);
            }
        } catch (SubmitException e) {
            throw fail(e);
        }
        conf.putAll(settings.storm());
        Rewriter rewriter;
        try {
            rewriter = Rewriter.plan(
                changed, conf, settings.batching(), settings.helping(), settings.backpressure());
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
        if (args.length > OPTIONS) { // whoever measures it begins when it is up, and main's own activate is not heard
            args[OPTIONS] = ((SubmitOptions) args[OPTIONS]).deepCopy();
            ((SubmitOptions) args[OPTIONS]).set_initial_status(TopologyInitialStatus.ACTIVE);
        }
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

    /** Storm's own rules, before anything is uploaded: a name becomes part of paths and of keys. */
    private void requireName(String name) {
        try {
            Utils.validateTopologyName(name);
        } catch (IllegalArgumentException e) {
            throw fail(SubmitException.settings("topology name " + name + ": Storm takes none with / . : or \\ in it"));
        }
        if (!Utils.isValidKey(name)) {
            throw fail(SubmitException.settings(
                "topology name " + name + ": Storm takes letters, digits, spaces, _ and - only"));
        }
        if (name.length() > MOST_CHARACTERS) {
            throw fail(SubmitException.settings(
                "topology name " + name.substring(0, 40) + "... has " + name.length() + " characters, "
                    + MOST_CHARACTERS + " at most become names of files"));
        }
    }

    private SubmitException fail(SubmitException reason) {
        failure = reason;
        return reason;
    }

    private Object call(Method method, Object[] args) throws Throwable {
        if (nimbus == null) {
            return NimbusWithoutTopologies.answer(method);
        }
        try {
            return method.invoke(nimbus, args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }
}
