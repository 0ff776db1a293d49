package harness.storm.submit;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.jar.JarFile;
import org.apache.storm.Config;
import org.apache.storm.generated.AlreadyAliveException;
import org.apache.storm.generated.AuthorizationException;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.shade.net.minidev.json.JSONObject;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.thrift.transport.TTransportException;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;
import org.apache.storm.validation.ConfigValidation;

/**
 * Submits the topology of any jar to a real Nimbus, instrumented on the way: runs the jar's own {@code main} with a Nimbus
 * in front of the real one that wraps every bolt and spout of what is submitted. Where the settings name no Nimbus, nothing
 * is submitted, and what would have been is described all the same.
 *
 * <p>The only argument is the path of a JSON file ({@link SubmitSettings}). The answer is in a file that it names, so that
 * main may do with its output as it likes:
 * {@code {"topology": name, "wrapped": [component], "unwrapped": {component: reason}, "batched": [component:stream],
 * "unbatched": {component:stream: reason}, "helped": {component: helper}, "description": {...}}} with exit status 0 ({@link Description}); or
 * {@code {"error": line}}, which is the last line on standard error, too, with exit status 2 for the settings or the jar and
 * 1 for all else. The workers must have this jar in their class path.
 *
 * <p>{@code main} has so long to submit as the settings say. What it does then (some watch their topology for minutes) is
 * waited for for {@value #WATCHED_S} s only, in which a second submission or a failure counts.
 */
public final class Submit {
    private static final int WATCHED_S = 5;

    private Submit() {
    }

    /** @param args the settings file */
    public static void main(String[] args) {
        // main may end the JVM itself, and may leave threads that keep it alive: the outcome is told on the way out.
        Outcome outcome = new Outcome();
        Runtime.getRuntime().addShutdownHook(new Thread(outcome::tellAndHalt));
        try {
            if (args.length != 1) {
                throw SubmitException.settings("one argument wanted, the settings file; there are " + args.length);
            }
            SubmitSettings settings = SubmitSettings.read(Path.of(args[0]));
            outcome.answerIn(settings.answer());
            run(settings, outcome);
        } catch (SubmitException e) {
            outcome.failed(e);
        } catch (Throwable e) {
            outcome.failed(explain(e));
        }
        System.exit(0);
    }

    /** Leaves main's Nimbus in place: a shutdown hook of the user's may still want to kill the topology. */
    static void run(SubmitSettings settings, Outcome outcome) throws Exception {
        settings.storm().forEach(Submit::validate);
        Method main = main(settings);
        Capture capture = new Capture(settings.nimbus() == null ? null : connect(settings.nimbus()), settings);
        Said said = new Said();
        System.setOut(said.over(System.out));
        System.setErr(said.over(System.err));
        outcome.watch(capture, said);
        runMain(main, settings, capture);
    }

    private static void validate(String key, Object value) {
        try {
            ConfigValidation.validateTopoConf(Collections.singletonMap(key, value));
        } catch (IllegalArgumentException e) {
            throw SubmitException.settings(
                "bad Storm setting " + key + ": " + JSONValue.toJSONString(value) + ": " + e.getMessage());
        }
    }

    @SuppressWarnings({"resource", "try"}) // see run
    private static void runMain(Method main, SubmitSettings settings, Capture capture) throws Exception {
        System.setProperty("storm.jar", settings.jar().toString());
        new NimbusClient.LocalOverride(capture.proxy());
        CompletableFuture<Void> ended = inThreadOfItsOwn(main, settings.args());
        try {
            CompletableFuture.anyOf(ended, capture.submitted()).get(settings.patienceS(), TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw SubmitException.failed("main submitted no topology within " + settings.patienceS()
                + " s, which topology.main_patience_s may raise");
        } catch (ExecutionException e) {
            throw explain(e.getCause());
        }
        try {
            ended.get(WATCHED_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            System.out.println("main goes on after it has submitted " + capture.topology() + "; not waited for");
        } catch (ExecutionException e) {
            if (capture.topology() == null || capture.failure() != null) {
                throw explain(e.getCause());
            }
            if (settings.nimbus() == null) {
                // A main that looks at its topology fails where there is none.
                System.out.println("main failed after it had submitted: " + cause(e));
                return;
            }
            capture.kill();
            throw SubmitException.failed("main failed after it had submitted " + capture.topology()
                + ", which is being killed: " + cause(e), e.getCause());
        }
    }

    /** A main that never ends must not keep the JVM: its thread is a daemon. */
    private static CompletableFuture<Void> inThreadOfItsOwn(Method main, List<String> args) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                main.invoke(null, (Object) args.toArray(String[]::new));
                ended.complete(null);
            } catch (InvocationTargetException e) {
                ended.completeExceptionally(e.getCause());
            } catch (Throwable e) {
                ended.completeExceptionally(e);
            }
        }, "main of the topology");
        thread.setDaemon(true);
        thread.start();
        return ended;
    }

    /** The user's {@code main}, from the jar unless the class path has it, with the jar seen by all who load classes. */
    private static Method main(SubmitSettings settings) {
        File jar = settings.jar().toFile();
        if (!Files.isReadable(settings.jar()) || !jar.isFile()) {
            throw SubmitException.settings("no jar to read at " + jar);
        }
        try (JarFile opened = new JarFile(jar)) {
            opened.size();
        } catch (IOException e) {
            throw SubmitException.settings(jar + " is not a jar: " + e.getMessage());
        }
        try {
            URLClassLoader loader = new URLClassLoader(new URL[] {jar.toURI().toURL()}, Submit.class.getClassLoader());
            Thread.currentThread().setContextClassLoader(loader);
            Utils.setClassLoaderForJavaDeSerialize(loader);
            Method main = Class.forName(settings.main(), false, loader).getMethod("main", String[].class);
            if (!Modifier.isStatic(main.getModifiers())) {
                throw new NoSuchMethodException();
            }
            main.setAccessible(true); // the class need not be public
            return main;
        } catch (MalformedURLException e) {
            throw SubmitException.settings("no jar to read at " + jar);
        } catch (ClassNotFoundException | LinkageError e) {
            if (!holds(jar, settings.main())) {
                throw SubmitException.settings("no class " + settings.main() + " in " + jar);
            }
            String missing = MissingClass.explain(e);
            throw SubmitException.settings("class " + settings.main() + " cannot be loaded: "
                + (missing == null ? e : missing));
        } catch (NoSuchMethodException e) {
            throw SubmitException.settings("class " + settings.main() + " has no public static void main(String[])");
        }
    }

    private static boolean holds(File jar, String name) {
        try (JarFile opened = new JarFile(jar)) {
            return opened.getEntry(name.replace('.', '/') + ".class") != null;
        } catch (IOException e) {
            return false;
        }
    }

    /** A client of Nimbus, by TLS where the settings in {@code storm.conf.file} say so. */
    @SuppressWarnings("deprecation") // the builder knows no TLS where it is told the address
    private static Nimbus.Iface connect(SubmitSettings.Address nimbus) {
        Map<String, Object> conf = Utils.readStormConfig();
        conf.put(Config.STORM_NIMBUS_RETRY_TIMES, 0); // who starts a cluster waits for it elsewhere
        try {
            boolean tls = ObjectReader.getBoolean(conf.get(Config.NIMBUS_THRIFT_CLIENT_USE_TLS), false);
            return new NimbusClient(conf, nimbus.host(), nimbus.port(), null, null, tls).getClient();
        } catch (TTransportException | RuntimeException e) {
            throw SubmitException.failed("Nimbus cannot be reached at " + nimbus + ": " + cause(e), e);
        }
    }

    /** One line for what {@code main} ended with. */
    static SubmitException explain(Throwable thrown) {
        for (Throwable e = thrown; e != null; e = e.getCause()) {
            if (e instanceof SubmitException known) {
                return known;
            }
            if (e instanceof AlreadyAliveException alive) {
                return SubmitException.failed("topology name is in use: " + alive.get_msg(), thrown);
            }
            if (e instanceof InvalidTopologyException invalid) {
                return SubmitException.failed("Nimbus refuses the topology: " + invalid.get_msg(), thrown);
            }
            if (e instanceof AuthorizationException refused) {
                return SubmitException.failed("Nimbus refuses the user: " + refused.get_msg(), thrown);
            }
            if (e instanceof TTransportException) {
                return SubmitException.failed("connection to Nimbus lost: " + cause(e), thrown);
            }
            if (e instanceof OutOfMemoryError) {
                return SubmitException.settings("main needs more than the " + (Runtime.getRuntime().maxMemory() >> 20)
                    + " MB of heap that it has: raise topology.main_heap_mb");
            }
        }
        String missing = MissingClass.explain(thrown);
        if (missing != null) {
            return SubmitException.settings("main failed: " + missing);
        }
        return SubmitException.failed("main failed: " + cause(thrown), thrown);
    }

    /** The innermost cause. */
    private static String cause(Throwable thrown) {
        Throwable e = thrown;
        while (e.getCause() != null) {
            e = e.getCause();
        }
        return e.toString();
    }

    @SuppressWarnings("unchecked") // the keys of a JSON object are strings
    static Map<String, Object> object(String json) {
        return (Map<String, Object>) JSONValue.parse(json);
    }

    /** How the submission went, as told once at the end of the JVM. */
    static final class Outcome {
        private Capture capture;
        private Said said;
        private SubmitException failure;
        private Path answer;
        private final PrintStream out = System.out;
        private final PrintStream err = System.err;

        /** From now on, there is a file for the answer. */
        synchronized void answerIn(Path file) {
            answer = file;
        }

        /** From now on, what was submitted and what main says count. */
        synchronized void watch(Capture watched, Said saidByMain) {
            capture = watched;
            said = saidByMain;
        }

        synchronized void failed(SubmitException reason) {
            failure = reason;
        }

        /** The failure, or null: one refused on the way counts, even if {@code main} swallowed it. */
        synchronized SubmitException failure() {
            if (capture != null && capture.failure() != null) {
                return capture.failure();
            }
            if (failure != null) {
                return failure.getMessage().startsWith("main ") ? failure.saying(saidByMain()) : failure;
            }
            if (capture != null && capture.topology() != null) {
                return null;
            }
            return SubmitException.failed("main submitted no topology").saying(saidByMain());
        }

        private String saidByMain() {
            return said == null ? "" : said.text();
        }

        /** The result as JSON on one line. */
        synchronized String line() {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("topology", capture.topology());
            line.put("wrapped", capture.result().wrapped());
            line.put("unwrapped", capture.result().unwrapped());
            line.put("batched", capture.rewriting().batched());
            line.put("unbatched", capture.rewriting().left());
            line.put("helped", capture.rewriting().helped());
            line.put("description", capture.description());
            return JSONValue.toJSONString(line);
        }

        void tellAndHalt() {
            SubmitException reason = failure();
            try {
                if (answer != null) {
                    Files.writeString(answer, reason == null ? line() : JSONObject.toJSONString(Map.of("error", reason.getMessage())));
                }
            } catch (IOException | RuntimeException e) {
                reason = SubmitException.failed("the answer cannot be written to " + answer + ": " + e, e);
            }
            if (reason != null) {
                if (reason.getCause() != null) {
                    reason.getCause().printStackTrace(out);
                }
                err.println(reason.getMessage());
            }
            out.flush();
            err.flush();
            Runtime.getRuntime().halt(reason == null ? 0 : reason.status());
        }
    }
}
