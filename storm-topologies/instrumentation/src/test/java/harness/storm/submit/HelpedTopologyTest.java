package harness.storm.submit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Line;
import harness.storm.Receiver;
import harness.storm.submit.HelpedTopology.Notes;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.storm.generated.KillOptions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Helping and pauses on a real cluster (in this JVM, one worker), by counts: nothing is lost and nothing comes twice. */
@Tag("deep")
class HelpedTopologyTest {
    private static final Map<String, Object> MARKS = Map.of("high_pct", 90, "low_pct", 10);
    private static final Map<String, Object> HELP = Map.of("delta", 0.1, "high_pct", 50, "low_pct", 10);

    @TempDir
    static Path folder;

    private static Submission submission;

    @BeforeAll
    static void start() throws Exception {
        submission = new Submission(1, folder);
    }

    @AfterAll
    static void stop() {
        submission.close();
    }

    @Test
    void computeServesSomeOfItAndEveryMessageComesOutOnce() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Notes notes = run("helped", receiver, Map.of("exclam1", HELP));
            assertTrue(notes.helped.get() > 0, "exclam1's queue comes to its mark, and compute is free");
            assertEquals(HelpedTopology.MESSAGES, notes.served.get() + notes.helped.get());
        }
    }

    @Test
    void spoutsPauseForAFullQueueAndGoOn() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Notes notes = run("pausing", receiver, Map.of());
            assertEquals(0, notes.helped.get());
            List<Line> reported = receiver.await(lines -> lines.stream().map(Line::parse).anyMatch(line ->
                line.measurement().equals("paused") && (Long) line.fields().get("paused_ns") > 0))
                .stream().map(Line::parse).toList();
            assertTrue(reported.stream().anyMatch(line -> line.measurement().equals("pressure")
                && line.tag("component").equals("exclam1") && (Long) line.fields().get("reached") > 0));
        }
    }

    /** What workers tell each other finds no room then, and must not wait for it: the bolt that has no room would wait, too. */
    @Test
    void queuesThatAreFullBeforeAnybodyLooksAreServed() throws Exception {
        try (Receiver receiver = new Receiver()) {
            run("flooded", receiver, Map.of(), "flooded");
            receiver.await(lines -> lines.stream().map(Line::parse).anyMatch(line ->
                line.measurement().equals("paused") && (Long) line.fields().get("paused_ns") > 0));
        }
    }

    private static Notes run(String name, Receiver receiver, Map<String, Object> helping, String... how) throws Exception {
        Notes notes = new Notes();
        HelpedTopology.NOTES.put(name, notes);
        Map<String, Object> settings = submission.settings(name, receiver.url());
        settings.put("main", HelpedTopology.class.getName());
        settings.put("args", Stream.concat(Stream.of(name), Stream.of(how)).toList());
        settings.put("helping", helping);
        settings.put("backpressure", MARKS);
        Submission.Exit exit = submission.submit(settings);
        assertEquals(0, exit.status(), exit.toString());
        long giveUpNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Receiver.PATIENCE_MS);
        while (notes.acks.get() + notes.fails.get() < HelpedTopology.MESSAGES) {
            if (System.nanoTime() > giveUpNs) {
                throw new TimeoutException(notes.acks + " acked, " + notes.received.size() + " received");
            }
            Thread.sleep(200);
        }
        assertEquals(0, notes.fails.get());
        assertEquals(HelpedTopology.MESSAGES, notes.computed.get());
        assertEquals(LongStream.range(0, HelpedTopology.MESSAGES).boxed().toList(), notes.received.stream().sorted().toList());
        KillOptions soon = new KillOptions();
        soon.set_wait_secs(0);
        submission.cluster.killTopologyWithOpts(name, soon);
        return notes;
    }
}
