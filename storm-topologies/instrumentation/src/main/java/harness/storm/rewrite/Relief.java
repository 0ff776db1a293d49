package harness.storm.rewrite;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntToDoubleFunction;
import org.apache.storm.task.TopologyContext;

/**
 * One worker's part in relieving full queues, as the stream managers of Heron and Leron have it (Leron, section 4.2): who is
 * helped with every tuple (Leron back-pressure), and whether spouts pause (Heron's).
 *
 * <p>A task whose queue reaches its high mark asks for help. Help begins if a task of its helper in this worker is not at its
 * own mark; then all of the helper's tasks help, in other workers, too. It ends when all of the component's queues here have
 * come to their low mark, or when a task that helps reaches its high one. Where nobody can help, ordinary back-pressure
 * holds until the queues have come to their low mark, and helpers elsewhere stop.
 */
final class Relief {
    /** What is done about a component's queues in a worker. */
    enum State {
        /** Nothing: none has reached its mark. */
        EASY,
        /** Its helpers serve all of what they make for it. */
        HELPED,
        /** Ordinary back-pressure. */
        PRESSED
    }

    /** What another worker has said of a component. */
    private static final class Heard {
        private long number;
        private long reached;
        private long atNs;
        private State state = State.EASY;
    }

    private static final Map<List<Object>, Relief> OF_THIS_PROCESS = new ConcurrentHashMap<>();
    private static final long LOOK_EVERY_MS = 5;
    private static final long REPEAT_AFTER_NS = 1_000_000_000L;
    /** What a worker said that is not heard of any more is not so any more. */
    private static final long FORGET_AFTER_NS = 5_000_000_000L;

    private final String worker;
    private final ReliefPlan plan;
    private final boolean looksByItself;
    private final String origin = UUID.randomUUID().toString(); // a worker that is started again is another one
    private final Map<Integer, Pressure> tasks = new TreeMap<>();
    private final Map<String, State> states = new TreeMap<>();
    private final Map<String, Long> reached = new TreeMap<>();
    private final Map<List<String>, Heard> heard = new HashMap<>();
    private final Map<String, Signal> said = new TreeMap<>();
    private final Map<Integer, Consumer<Signal>> senders = new TreeMap<>();
    private final Set<Integer> members = new HashSet<>();
    private long numbers;
    private long saidNs;
    private long lookedNs;
    private boolean looked;
    private long watchedNs;
    private long pausedNs;
    private ScheduledFuture<?> looking;
    private volatile Set<String> helped = Set.of();
    private volatile boolean paused;

    /** One that looks when it is told to; {@code worker} names it, for its ratios. */
    Relief(String worker, ReliefPlan plan) {
        this(worker, plan, false);
    }

    private Relief(String worker, ReliefPlan plan, boolean looksByItself) {
        this.worker = worker;
        this.plan = plan;
        this.looksByItself = looksByItself;
    }

    /** The one of a task's worker. */
    static Relief of(TopologyContext context, ReliefPlan plan) {
        return of(context.getStormId() + ":" + context.getThisWorkerPort(), plan);
    }

    static Relief of(String worker, ReliefPlan plan) {
        return OF_THIS_PROCESS.computeIfAbsent(List.of(worker, plan), key -> new Relief(worker, plan, true));
    }

    /** The share of tuples that a helper serves where it does not serve all. */
    Ratio ratio(String of) {
        return Ratio.of(worker, plan.helpers().get(of), of, plan.deltas().get(of));
    }

    /** Whether a component is helped with every tuple. */
    boolean helps(String component) {
        return helped.contains(component);
    }

    /** Whether spouts pause. */
    boolean paused() {
        return paused;
    }

    /** From now on a task's queue is watched. */
    synchronized void watch(int task, String component) {
        tasks.put(task, new Pressure(component, plan.marks().get(component)));
        states.putIfAbsent(component, State.EASY);
        reached.putIfAbsent(component, 0L);
        join(task);
    }

    /** A task takes part; queues are looked at for as long as any does. */
    synchronized void join(int task) {
        members.add(task);
        if (looksByItself && looking == null) {
            looking = Timer.THREAD.scheduleWithFixedDelay(() -> look(System.nanoTime(), QueueFills::pct),
                LOOK_EVERY_MS, LOOK_EVERY_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** From now on signals can go by a task. */
    synchronized void connect(int task, Consumer<Signal> sender) {
        senders.put(task, sender);
    }

    /** A task ends. */
    synchronized void leave(int task) {
        tasks.remove(task);
        senders.remove(task);
        members.remove(task);
        if (members.isEmpty() && looking != null) {
            looking.cancel(false);
            looking = null;
            OF_THIS_PROCESS.remove(List.of(worker, plan), this);
        }
    }

    /** Looks at the queues, acts, and tells other workers. */
    void look(long nowNs, IntToDoubleFunction fills) {
        List<Signal> news;
        Consumer<Signal> sender;
        synchronized (this) {
            pass(nowNs);
            Map<String, Long> now = new TreeMap<>();
            tasks.forEach((task, pressure) -> {
                double pct = fills.applyAsDouble(task);
                if (!Double.isNaN(pct) && pressure.reaches(pct)) {
                    now.merge(pressure.component(), 1L, Long::sum);
                }
            });
            now.forEach((component, times) -> {
                reached.merge(component, times, Long::sum);
                happened(component, times);
            });
            states.replaceAll(this::next);
            heard.values().stream().filter(other -> nowNs - other.atNs > FORGET_AFTER_NS)
                .forEach(other -> other.state = State.EASY);
            decide();
            news = news(nowNs);
            sender = senders.isEmpty() ? null : senders.values().iterator().next();
        }
        if (sender != null) {
            news.forEach(sender); // without the lock: whoever sends has one of its own
        }
    }

    /** Takes note of what another worker says. */
    synchronized void hear(Signal signal, long nowNs) {
        if (signal.origin().equals(origin)) {
            return;
        }
        Heard other = heard.computeIfAbsent(List.of(signal.origin(), signal.component()), key -> new Heard());
        if (signal.number() <= other.number) {
            return;
        }
        happened(signal.component(), signal.reached() - other.reached);
        other.number = signal.number();
        other.reached = signal.reached();
        other.state = signal.state();
        other.atNs = nowNs;
        decide();
    }

    /** What was seen of a task since the last report: fields of {@code pressure}. */
    synchronized Map<String, Object> drain(int task) {
        return tasks.get(task).drain();
    }

    /** For how long it was seen to, in ns. */
    synchronized long watchedNs() {
        return watchedNs;
    }

    /** For how long of that spouts paused, in ns. */
    synchronized long pausedNs() {
        return pausedNs;
    }

    private void pass(long nowNs) {
        long ns = looked ? nowNs - lookedNs : 0;
        watchedNs += ns;
        pausedNs += paused ? ns : 0;
        tasks.values().forEach(pressure -> pressure.passed(ns, state(pressure.component())));
        lookedNs = nowNs;
        looked = true;
    }

    /** What is so of a component, in this worker and in all others. */
    private State state(String component) {
        State most = states.getOrDefault(component, State.EASY);
        for (Map.Entry<List<String>, Heard> other : heard.entrySet()) {
            State theirs = other.getValue().state;
            if (other.getKey().get(1).equals(component) && theirs.compareTo(most) > 0) {
                most = theirs;
            }
        }
        return most;
    }

    /** A component's queues have reached their high mark, here or elsewhere: the three events of equation 1. */
    private void happened(String component, long times) {
        for (long i = 0; i < times; i++) {
            if (plan.helpers().containsKey(component)) {
                ratio(component).helpIsAskedFor();
            }
            for (String of : plan.helpedBy(component)) {
                ratio(of).helperIsBusy();
                states.computeIfPresent(of, (id, state) -> state == State.HELPED ? State.PRESSED : state);
            }
        }
    }

    private State next(String component, State state) {
        boolean over = tasks.values().stream().anyMatch(task -> task.over() && task.component().equals(component));
        if (!over || state != State.EASY) {
            return over ? state : State.EASY;
        }
        String helper = plan.helpers().get(component);
        boolean free = tasks.values().stream().anyMatch(task -> !task.over() && task.component().equals(helper));
        return free ? State.HELPED : State.PRESSED;
    }

    private void decide() {
        Set<String> all = new HashSet<>(states.keySet());
        heard.keySet().forEach(key -> all.add(key.get(1)));
        Set<String> now = new HashSet<>();
        boolean pressed = false;
        for (String component : all) {
            State state = state(component);
            pressed |= state == State.PRESSED;
            if (state == State.HELPED) {
                now.add(component);
            }
        }
        if (!now.equals(helped)) {
            helped = Set.copyOf(now);
        }
        paused = plan.pausing() && pressed;
    }

    private List<Signal> news(long nowNs) {
        List<Signal> news = new ArrayList<>();
        boolean again = nowNs - saidNs >= REPEAT_AFTER_NS;
        states.forEach((component, state) -> {
            Signal before = said.get(component);
            long times = reached.get(component);
            boolean same = before == null ? state == State.EASY && times == 0
                : before.state() == state && before.reached() == times;
            if (!same || again && state != State.EASY) {
                news.add(new Signal(origin, ++numbers, component, state, times));
            }
        });
        news.forEach(signal -> said.put(signal.component(), signal));
        if (again) {
            saidNs = nowNs;
        }
        return news;
    }
}
