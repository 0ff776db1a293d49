package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * When help and back-pressure begin and end (Leron, section 4.2), in workers that are told how full their queues are. Tasks 1
 * and 2 are of compute, which helps exclam1, whose tasks are 3 and 4; task 5 is exclam2's, which nobody helps.
 */
class ReliefTest {
    private static final Watermarks MARKS = new Watermarks(50, 10);
    private static final Map<Integer, String> COMPONENTS =
        Map.of(1, "compute", 2, "compute", 3, "exclam1", 4, "exclam1", 5, "exclam2");
    private static final long LOOK_NS = 5_000_000;

    private static int workers;

    private final Map<Integer, Double> fills = new HashMap<>();
    private final List<Worker> all = new ArrayList<>();
    private long nowNs;

    /** One worker, which keeps what it says until it is delivered. */
    private final class Worker {
        private final Relief relief;
        private final List<Signal> said = new ArrayList<>();

        Worker(boolean pausing, Integer... tasks) {
            relief = new Relief("worker-" + workers++, plan(pausing));
            List.of(tasks).forEach(task -> relief.watch(task, COMPONENTS.get(task)));
            relief.connect(tasks[0], said::add);
            all.add(this);
        }

        double ratio() {
            return relief.ratio("exclam1").value();
        }
    }

    private static ReliefPlan plan(boolean pausing) {
        return new ReliefPlan(Map.of("compute", MARKS, "exclam1", MARKS, "exclam2", MARKS), Map.of("exclam1", "compute"),
            Map.of("exclam1", 0.1), pausing);
    }

    private void look() {
        nowNs += LOOK_NS;
        all.forEach(worker -> worker.relief.look(nowNs, task -> fills.getOrDefault(task, 0.0)));
    }

    private void deliver() {
        for (Worker from : all) {
            List<Signal> said = List.copyOf(from.said);
            from.said.clear();
            said.forEach(signal -> all.forEach(to -> to.relief.hear(Signal.of(signal.values()), nowNs)));
        }
    }

    private void fill(int task, double pct) {
        fills.put(task, pct);
        look();
        deliver();
    }

    @Test
    void helpBeginsAtTheHighMarkAndEndsAtTheLowOneOfAllQueues() {
        Worker worker = new Worker(true, 1, 2, 3, 4);
        fill(3, 49);
        assertFalse(worker.relief.helps("exclam1"));
        fill(3, 50);
        assertTrue(worker.relief.helps("exclam1"));
        assertFalse(worker.relief.paused(), "nobody stops where there is help");
        assertEquals(0.1, worker.ratio(), 1e-12);
        fill(4, 80);
        assertEquals(0.19, worker.ratio(), 1e-12);
        fill(3, 10);
        assertTrue(worker.relief.helps("exclam1"), "task 4 is not at its low mark");
        fill(4, 11);
        fill(4, 10);
        assertFalse(worker.relief.helps("exclam1"));
        assertEquals(0.19, worker.ratio(), 1e-12, "what was learnt stays");
    }

    @Test
    void helpEndsWhenWhoHelpsIsBusyAndOrdinaryBackPressureHolds() {
        Worker worker = new Worker(true, 1, 2, 3);
        fill(3, 60);
        fill(1, 55);
        assertFalse(worker.relief.helps("exclam1"));
        assertTrue(worker.relief.paused());
        assertEquals(0.1 * 0.9, worker.ratio(), 1e-12);
        fill(1, 0);
        assertTrue(worker.relief.paused(), "until exclam1's queue is at its low mark");
        assertFalse(worker.relief.helps("exclam1"));
        fill(3, 10);
        assertFalse(worker.relief.paused());
        fill(3, 50);
        assertTrue(worker.relief.helps("exclam1"));
        assertEquals(0.09 + 0.91 * 0.1, worker.ratio(), 1e-12);
    }

    @Test
    void whoIsNotHelpedHasSpoutsPauseAndOnlyWhereItIsAsked() {
        Worker pausing = new Worker(true, 1, 5);
        Worker other = new Worker(false, 1, 5);
        fill(5, 50);
        assertTrue(pausing.relief.paused());
        assertFalse(other.relief.paused());
        assertEquals(0, pausing.ratio());
        fill(5, 11);
        assertTrue(pausing.relief.paused());
        fill(5, 10);
        assertFalse(pausing.relief.paused());
    }

    @Test
    void helpersInOtherWorkersHelpAndLearnTheSame() {
        Worker here = new Worker(true, 1, 3);
        Worker there = new Worker(true, 2);
        fill(3, 50);
        assertTrue(here.relief.helps("exclam1"));
        assertTrue(there.relief.helps("exclam1"));
        assertEquals(0.1, there.ratio(), 1e-12);
        fill(2, 50);
        assertFalse(here.relief.helps("exclam1"), "one that helps is busy, in another worker");
        assertEquals(0.09, here.ratio(), 1e-12);
        assertEquals(0.09, there.ratio(), 1e-12);
        deliver();
        look();
        deliver();
        assertFalse(there.relief.helps("exclam1"));
        assertTrue(here.relief.paused());
        assertTrue(there.relief.paused());
        fills.clear();
        look();
        deliver();
        assertFalse(here.relief.paused());
        assertFalse(there.relief.paused());
    }

    @Test
    void withoutAHelperInTheSameWorkerOrdinaryBackPressureHoldsAndHelpersElsewhereStop() {
        Worker helped = new Worker(true, 1, 3);
        Worker alone = new Worker(true, 4);
        Worker helper = new Worker(true, 2);
        fill(3, 50);
        assertTrue(helper.relief.helps("exclam1"));
        fill(4, 50);
        assertTrue(alone.relief.paused());
        for (Worker worker : all) {
            assertFalse(worker.relief.helps("exclam1"), "helpers are told to stop");
            assertTrue(worker.relief.paused());
            assertEquals(0.19, worker.ratio(), 1e-12, "both have asked");
        }
        fill(4, 10);
        assertTrue(helped.relief.helps("exclam1"));
        assertTrue(helper.relief.helps("exclam1"));
        assertFalse(helper.relief.paused());
    }

    @Test
    void whatAWorkerSaidThatIsNotHeardOfAnyMoreIsForgotten() {
        new Worker(true, 5);
        Worker other = new Worker(true, 1);
        fill(5, 50);
        assertTrue(other.relief.paused());
        for (int i = 0; i < 2000; i++) { // 10 s
            look();
            deliver();
        }
        assertTrue(other.relief.paused(), "it is said again and again");
        for (int i = 0; i < 2000; i++) {
            look();
            all.get(0).said.clear();
        }
        assertFalse(other.relief.paused());
    }

    /** Signals that are lost, repeated or late; when one last one of each has come, all agree. */
    @Test
    void allWorkersLearnTheSameWhateverBecomesOfSignals() {
        for (int trial = 0; trial < 200; trial++) {
            Random random = new Random(trial);
            all.clear();
            fills.clear();
            new Worker(true, 1, 3);
            new Worker(true, 2, 4);
            new Worker(true, 5);
            List<Signal> kept = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                fills.put(3 + random.nextInt(2), 100.0 * random.nextInt(2)); // asked for, never busy
                look();
                all.forEach(worker -> {
                    kept.addAll(worker.said);
                    worker.said.clear();
                });
                if (!kept.isEmpty() && random.nextBoolean()) {
                    Signal any = kept.get(random.nextInt(kept.size()));
                    all.get(random.nextInt(3)).relief.hear(any, nowNs);
                }
            }
            fills.clear();
            look();
            all.forEach(worker -> kept.addAll(worker.said));
            kept.forEach(signal -> all.forEach(worker -> worker.relief.hear(signal, nowNs)));
            long asked = all.stream().mapToLong(worker -> worker.relief.ratio("exclam1").requests()).max().orElseThrow();
            assertTrue(asked > 10);
            for (Worker worker : all) {
                assertEquals(asked, worker.relief.ratio("exclam1").requests());
                assertEquals(1 - Math.pow(0.9, asked), worker.ratio(), 1e-9);
                assertFalse(worker.relief.helps("exclam1"));
                assertFalse(worker.relief.paused());
            }
        }
    }

    @Test
    void timesAreReported() {
        Worker worker = new Worker(true, 1, 3, 5);
        look();
        worker.relief.drain(3);
        fill(3, 60);
        fill(3, 30);
        fill(3, 10);
        Map<String, Object> seen = worker.relief.drain(3);
        assertEquals(3 * LOOK_NS, seen.get("watched_ns"));
        assertEquals(2 * LOOK_NS, seen.get("helped_ns"));
        assertEquals(0L, seen.get("pressed_ns"));
        assertEquals(1L, seen.get("reached"));
        assertEquals(60.0, seen.get("fill_most_pct"));
        assertEquals(100.0 / 3, (Double) seen.get("fill_pct"), 1e-9);
        fill(5, 50);
        fill(5, 10);
        assertEquals(LOOK_NS, worker.relief.pausedNs());
        assertEquals(LOOK_NS, worker.relief.drain(5).get("pressed_ns"));
        assertEquals(0L, worker.relief.drain(5).get("watched_ns"));
    }

    /**
     * Leron's table 1 as fluids: two of compute at 113.76 tuples/ms each, exclam1 at 146.58, and a spout as fast as both of
     * compute. With Heron's mechanism spouts pause for 1 - 146.58 / 227.52 = 35.6 % of the time and 146.58 come out. With
     * help, and services that add, the most is 1.311 times as many, at r = 0.237; steps of 0.1 come to 0.271, where two of
     * compute make 2 / (1/113.76 + 0.271/146.58) = 188.0, which is 1.283 times as many, and nobody is under pressure.
     */
    @Test
    void leronsTableGivesItsFluidLimits() {
        Fluid heron = new Fluid(new Worker(true, 3), false);
        heron.run();
        assertEquals(1 - 146.58 / 227.52, heron.pausedShare(), 0.005);
        assertEquals(146.58, heron.rate(), 0.5);
        Fluid leron = new Fluid(new Worker(true, 1, 3), true);
        leron.run();
        assertEquals(0.271, leron.worker.ratio(), 1e-12);
        assertEquals(0, leron.pausedShare());
        assertEquals(2 / (1 / 113.76 + 0.271 / 146.58), leron.rate(), 0.5);
        assertTrue(leron.rate() > 1.28 * heron.rate());
    }

    /** exclam1's queue, into which compute's tuples flow that are not helped; a queue has room for 10,000 tuples. */
    private final class Fluid {
        private static final double COMPUTE_MS = 1 / 113.76;
        private static final double EXCLAM_MS = 1 / 146.58;
        private static final double STEP_MS = 0.05;
        private static final double ROOM = 10_000;

        private final Worker worker;
        private final boolean helped;
        private double queued;
        private double out;
        private double paused;
        private double passedMs;

        Fluid(Worker worker, boolean helped) {
            this.worker = worker;
            this.helped = helped;
        }

        void run() {
            for (int i = 0; i < 200_000; i++) { // 10 s
                if (i == 100_000) { // the first half is the start
                    out = 0;
                    paused = 0;
                    passedMs = 0;
                }
                step();
            }
        }

        private void step() {
            double share = !helped ? 0 : worker.relief.helps("exclam1") ? 1 : worker.ratio();
            double made = worker.relief.paused() ? 0 : 2 * STEP_MS / (COMPUTE_MS + share * EXCLAM_MS);
            double served = Math.min(queued + (1 - share) * made, STEP_MS / EXCLAM_MS);
            queued += (1 - share) * made - served;
            out += served + share * made;
            paused += worker.relief.paused() ? STEP_MS : 0;
            passedMs += STEP_MS;
            nowNs += (long) (STEP_MS * 1e6);
            worker.relief.look(nowNs, task -> task == 3 ? 100 * queued / ROOM : 0);
        }

        double rate() {
            return out / passedMs;
        }

        double pausedShare() {
            return paused / passedMs;
        }
    }
}
