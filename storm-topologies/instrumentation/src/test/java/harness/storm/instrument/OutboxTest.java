package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import harness.storm.Receiver;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OutboxTest {
    @TempDir
    Path folder;

    private static Outbox outbox(Receiver receiver, String token) {
        return new Outbox(URI.create(receiver.url()), token, null, null, dropped -> "dropped " + dropped);
    }

    @Test
    void linesLeaveInOrderAndInBatches() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Outbox outbox = outbox(receiver, "t0ken");
            List<String> lines = IntStream.range(0, 1_234).mapToObj(i -> "line " + i).toList();
            lines.forEach(outbox::add);
            outbox.start();
            assertEquals(lines, receiver.await(all -> all.size() >= 1_234));
            assertEquals(List.of(500, 500, 234), receiver.batchSizes());
            assertTrue(receiver.authorizations().stream().allMatch("Token t0ken"::equals));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void withoutATokenThereIsNoAuthorization() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Outbox outbox = outbox(receiver, "");
            outbox.add("line");
            outbox.start();
            receiver.await(all -> all.size() == 1);
            assertNull(receiver.authorizations().get(0));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void aServerInTroubleGetsEveryLineOnceItIsBack() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(503, 429, 500);
            Outbox outbox = outbox(receiver, "");
            outbox.add("a");
            outbox.add("b");
            outbox.start();
            assertEquals(List.of("a", "b"), receiver.await(all -> all.size() >= 2));
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(List.of("a", "b"), receiver.lines());
            assertEquals(4, receiver.batchSizes().size());
        }
    }

    @Test
    void aServerThatIsNotThereYetGetsThemToo() throws Exception {
        String url;
        try (Receiver gone = new Receiver()) {
            url = gone.url();
        }
        int port = URI.create(url).getPort();
        Outbox outbox = new Outbox(URI.create(url), "", null, null, dropped -> "dropped " + dropped);
        outbox.add("early");
        outbox.start();
        try (Receiver receiver = new Receiver(port)) {
            assertEquals(List.of("early"), receiver.await(all -> !all.isEmpty()));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void refusedLinesAreCountedAndTheCountIsSent() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(400);
            Outbox outbox = outbox(receiver, "");
            outbox.add("bad");
            outbox.add("worse");
            outbox.start();
            assertEquals(List.of("dropped 2"), receiver.await(all -> !all.isEmpty()));
            outbox.add("good");
            assertEquals(List.of("dropped 2", "good"), receiver.await(all -> all.size() == 2));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void aRefusedCountIsNotLost() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(400);
            Outbox outbox = outbox(receiver, "");
            outbox.drop(3);
            outbox.add("bad");
            outbox.start();
            assertEquals(List.of("dropped 4"), receiver.await(all -> !all.isEmpty()));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void memoryIsBounded() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Outbox outbox = outbox(receiver, "");
            IntStream.range(0, Outbox.CAPACITY + 7).forEach(i -> outbox.add("line"));
            outbox.start();
            assertEquals("dropped 7", receiver.await(all -> all.size() >= Outbox.CAPACITY + 1).get(0));
            outbox.close(Receiver.PATIENCE_MS);
        }
    }

    @Test
    void closingSendsWhatIsWaiting() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Outbox outbox = outbox(receiver, "");
            outbox.start();
            outbox.add("last words");
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(List.of("last words"), receiver.lines());
        }
    }

    // -- with a spool ----------------------------------------------------------------------------

    private Outbox spooling(Receiver receiver, long mostBytes) throws IOException {
        Spool spool = new Spool(folder, "1-" + System.nanoTime(), mostBytes);
        return new Outbox(URI.create(receiver.url()), "", null, spool, dropped -> "dropped " + dropped);
    }

    private List<Path> onDisk() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.toList();
        }
    }

    @Test
    void whatWasDeliveredIsNotOnDiskAnyMore() throws Exception {
        try (Receiver receiver = new Receiver()) {
            Outbox outbox = spooling(receiver, Spool.MOST_BYTES);
            List<String> lines = IntStream.range(0, 1_234).mapToObj(i -> "line " + i).toList();
            lines.forEach(outbox::add);
            outbox.start();
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(lines, receiver.lines());
            assertEquals(List.of(500, 500, 234), receiver.batchSizes());
            assertEquals(List.of(), onDisk());
        }
    }

    @Test
    void whatAKilledWorkerLeftIsDeliveredByTheNextInOrderAndOnce() throws Exception {
        Spool left = new Spool(folder, "1-1", Spool.MOST_BYTES);
        assertTrue(left.add(List.of("a", "b")));
        assertTrue(left.add(List.of("c")));
        try (Receiver receiver = new Receiver()) {
            receiver.answer(503, 401, 404); // away, with a token that is not known yet, without its bucket
            Outbox outbox = spooling(receiver, Spool.MOST_BYTES);
            outbox.add("d");
            outbox.start();
            receiver.await(all -> all.size() >= 4);
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(List.of("a", "b", "c", "d"), receiver.lines());
            assertEquals(List.of(), onDisk());
        }
    }

    @Test
    void closingWhileTheServerIsAwayLeavesTheLinesOnDisk() throws Exception {
        String url;
        try (Receiver gone = new Receiver()) {
            url = gone.url();
        }
        Spool spool = new Spool(folder, "1-1", Spool.MOST_BYTES);
        Outbox outbox = new Outbox(URI.create(url), "", null, spool, dropped -> "dropped " + dropped);
        outbox.start();
        outbox.add("kept");
        outbox.close(Receiver.PATIENCE_MS);
        assertEquals(List.of("kept\n"), onDisk().stream().map(OutboxTest::content).toList());
    }

    @Test
    void closingWithoutTimeLeavesEveryLineOnDisk() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(400); // after which the sender sleeps for seconds, and closing wakes it
            Outbox outbox = spooling(receiver, Spool.MOST_BYTES);
            outbox.start();
            outbox.add("bad");
            receiver.awaitPosts(1);
            List<String> lines = IntStream.range(0, 1_234).mapToObj(i -> "line " + i).toList();
            lines.forEach(outbox::add);
            outbox.close(1);
            assertEquals(List.of(), receiver.lines());
            assertEquals(lines, onDisk().stream().sorted().flatMap(file -> content(file).lines())
                .filter(line -> line.startsWith("line")).toList());
        }
    }

    @Test
    void aFullSpoolGivesUpNoLineThatFitsIntoMemory() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(503, 503);
            Outbox outbox = spooling(receiver, 10);
            List<String> lines = IntStream.range(0, 1_234).mapToObj(i -> "line " + i).toList();
            lines.forEach(outbox::add);
            outbox.start();
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(lines, receiver.lines());
        }
    }

    @Test
    void refusedLinesAreCountedWithASpoolToo() throws Exception {
        try (Receiver receiver = new Receiver()) {
            receiver.answer(400);
            Outbox outbox = spooling(receiver, Spool.MOST_BYTES);
            outbox.add("bad");
            outbox.add("worse");
            outbox.start();
            assertEquals(List.of("dropped 2"), receiver.await(all -> !all.isEmpty()));
            outbox.close(Receiver.PATIENCE_MS);
            assertEquals(List.of(), onDisk());
        }
    }

    private static String content(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
