package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.submit.Submission.Exit;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.StormTopology;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the program does besides measuring, with a real Nimbus that has no workers to place anything on. */
class SubmitTest {
    private static final String NOWHERE = "http://127.0.0.1:9/write";

    @TempDir
    static Path folder;

    private static Submission submission;

    @BeforeAll
    static void start() throws Exception {
        submission = new Submission(0, folder);
    }

    @AfterAll
    static void stop() {
        submission.close();
    }

    @Test
    void withoutInstrumentationTheTopologyIsSubmittedAsItIs() throws Exception {
        Map<String, Object> settings = submission.settings("plain", NOWHERE);
        settings.put("args", List.of("plain", "exit"));
        settings.put("instrument", false);
        settings.put("storm", Map.of("topology.workers", 1));
        Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        Map<String, Object> result = Submit.object(exit.answer());
        assertEquals(List.of(), result.get("wrapped"));
        assertEquals("instrumentation is off", ((Map<?, ?>) result.get("unwrapped")).get("pool"));
        Map<String, Object> conf = Submit.object(submission.cluster.getTopologyConf(submission.id("plain")));
        assertEquals(1, conf.get("topology.workers"), "the submission's setting takes the topology's place");
        assertNull(conf.get("topology.metrics.consumer.register"));
        kill("plain");
    }

    @ParameterizedTest
    @ValueSource(strings = {"inactive", "inactive-then-active"})
    void aTopologySubmittedInactiveIsActive(String how) throws Exception {
        Map<String, Object> settings = submission.settings(how, NOWHERE);
        settings.put("args", List.of(how, how));
        Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        assertEquals("ACTIVE", submission.cluster.getTopologyInfo(submission.id(how)).get_status());
        kill(how);
    }

    @Test
    void aNameInUseIsAnErrorOfOneLine() throws Exception {
        Map<String, Object> settings = submission.settings("used", NOWHERE);
        settings.put("instrument", false);
        settings.put("args", List.of("used"));
        assertEquals(0, submission.submit(settings).status());
        assertFailure(1, "topology name used is in use or not allowed", submission.submit(settings));
        kill("used");
    }

    @Test
    void aMainThatSubmitsTwiceLeavesNothingBehind() throws Exception {
        Map<String, Object> settings = submission.settings("twice", NOWHERE);
        settings.put("args", List.of("first", "twice"));
        assertFailure(1, "main submits more than one topology: first and first-again; the first is being killed",
            submission.submit(settings));
        assertGone("first");
        assertGone("first-again");
    }

    @Test
    void aMainThatFailsAfterwardsLeavesNothingBehind() throws Exception {
        Map<String, Object> settings = submission.settings("thrown", NOWHERE);
        settings.put("args", List.of("thrown", "throw"));
        assertFailure(1, "main failed after it had submitted thrown, which is being killed: "
            + "java.lang.IllegalStateException: main is not happy at all", submission.submit(settings));
        assertGone("thrown");
    }

    @Test
    void aMainThatNeverSubmits() throws Exception {
        Map<String, Object> settings = submission.settings("never", NOWHERE);
        settings.put("args", List.of());
        assertFailure(1, "main submitted no topology", submission.submit(settings));
    }

    @Test
    void aMainThatEndsTheProgramIsQuoted() throws Exception {
        Map<String, Object> settings = submission.settings("refuses", NOWHERE);
        settings.put("args", List.of(""));
        Exit exit = submission.submit(settings);
        assertEquals(1, exit.status());
        assertEquals("main submitted no topology; it said: usage: the topology needs a name",
            exit.err().lines().reduce((first, last) -> last).orElseThrow());
    }

    @Test
    void aJarWithoutTheClass() throws Exception {
        Map<String, Object> settings = submission.settings("class", NOWHERE);
        settings.put("main", "no.such.Main");
        assertFailure(2, "no class no.such.Main in " + settings.get("jar"), submission.submit(settings));
    }

    @Test
    void aMainThatNeitherSubmitsNorEnds() throws Exception {
        Map<String, Object> settings = submission.settings("hangs", NOWHERE);
        settings.put("args", List.of("hangs", "hang"));
        settings.put("patience_s", 1);
        assertFailure(1, "main submitted no topology within 1 s, which topology.main_patience_s may raise", submission.submit(settings));
    }

    @Test
    void aMainThatWatchesItsTopologyForEverIsNotWaitedFor() throws Exception {
        Map<String, Object> settings = submission.settings("watches", NOWHERE);
        settings.put("args", List.of("watches", "watch"));
        Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        assertEquals("watches", Submit.object(exit.answer()).get("topology"));
        kill("watches");
    }

    @Test
    void whatIsNotAJar() throws Exception {
        Map<String, Object> settings = submission.settings("text", NOWHERE);
        Path text = Files.writeString(folder.resolve("text.txt"), "not a jar");
        settings.put("jar", text.toString());
        Exit exit = submission.submit(settings);
        assertEquals(2, exit.status());
        assertTrue(exit.err().startsWith(text + " is not a jar: "), exit.err());
        assertEquals(1, exit.err().lines().count());
    }

    @Test
    void aClassWithoutAMain() throws Exception {
        Map<String, Object> settings = submission.settings("mainless", NOWHERE);
        settings.put("main", SampleTopology.Source.class.getName());
        assertFailure(2, "class " + SampleTopology.Source.class.getName() + " has no public static void main(String[])",
            submission.submit(settings));
    }

    @Test
    void executorsAndTasksAreAsAsked() throws Exception {
        Map<String, Object> settings = submission.settings("sized", NOWHERE);
        settings.put("components", Map.of("sink", Map.of("executors", 1, "tasks", 5)));
        Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        StormTopology made = submission.cluster.getTopology(submission.id("sized"));
        assertEquals(1, made.get_bolts().get("sink").get_common().get_parallelism_hint());
        Map<String, Object> conf = Submit.object(made.get_bolts().get("sink").get_common().get_json_conf());
        assertEquals(5, conf.get("topology.tasks"));
        assertEquals(1, conf.get("topology.tick.tuple.freq.secs"), "what main asked for the component stays");
        kill("sized");
    }

    @Test
    void anUnknownComponentIsNamed() throws Exception {
        Map<String, Object> settings = submission.settings("unknown", NOWHERE);
        settings.put("components", Map.of("sinks", Map.of("executors", 1, "tasks", 5)));
        assertFailure(2, "there is no component sinks; the topology has clock, counted, direct, pool, sink, source, window",
            submission.submit(settings));
        assertGone("unknown");
    }

    @Test
    void withoutNimbusTheTopologyIsDescribed() throws Exception {
        Map<String, Object> settings = submission.settings("described", NOWHERE);
        settings.put("nimbus", null);
        Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        Map<String, Object> line = Submit.object(exit.answer());
        assertEquals("described", line.get("topology"));
        Map<?, ?> components = (Map<?, ?>) ((Map<?, ?>) line.get("description")).get("components");
        assertEquals(List.of("clock", "counted", "direct", "pool", "sink", "source", "window"),
            components.keySet().stream().sorted().toList());
        assertGone("described");
    }

    @Test
    void withoutNimbusASecondSubmissionIsRefusedToo() throws Exception {
        Map<String, Object> settings = submission.settings("described-twice", NOWHERE);
        settings.put("nimbus", null);
        settings.put("args", List.of("first", "twice"));
        assertFailure(1, "main submits more than one topology: first and first-again", submission.submit(settings));
    }

    @Test
    void aNimbusThatIsNotThere() throws Exception {
        Map<String, Object> settings = submission.settings("gone", NOWHERE);
        int port = Submission.freePorts(1);
        settings.put("nimbus", Map.of("host", "127.0.0.1", "port", port));
        Exit exit = submission.submit(settings);
        assertEquals(1, exit.status());
        assertTrue(exit.err().startsWith("Nimbus cannot be reached at 127.0.0.1:" + port + ": "), exit.err());
        assertEquals(1, exit.err().lines().count());
    }

    @Test
    void aStormSettingOfTheWrongType() throws Exception {
        Map<String, Object> settings = submission.settings("setting", NOWHERE);
        settings.put("storm", Map.of("topology.workers", "many"));
        Exit exit = submission.submit(settings);
        assertEquals(2, exit.status());
        assertTrue(exit.err().startsWith("bad Storm setting topology.workers: \"many\": "), exit.err());
    }

    private static void assertFailure(int status, String message, Exit exit) {
        assertEquals(message, exit.err(), exit.toString());
        assertEquals(status, exit.status());
    }

    private static void kill(String name) throws Exception {
        assertNotNull(submission.id(name));
        submission.cluster.killTopologyWithOpts(name, LocalCluster.KILL_NOW);
    }

    private static void assertGone(String name) throws Exception {
        assertNull(submission.id(name));
    }
}
