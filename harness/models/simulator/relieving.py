"""Relief of full queues: Leron's help (sections 4.2 and 4.3) and the pauses of spouts, as Heron has them.

What each worker does is what ``Relief.java`` does there: it looks at its own queues, decides, and tells the
others. A task whose queue reaches its high mark asks for help. Help begins if a task of the helper in this
worker is not at its own mark. It ends when all of the component's queues here have come to their low mark, or
when a task that helps reaches its high one. Then, and where nobody can help, ordinary back-pressure holds.

A signal to another worker takes a hop and waits behind what is in the queue before it. It takes no place
there, and no time of who sends or gets it. Only tuples of the topology fill queues, and these have no end.
"""

from __future__ import annotations

import math

from harness.models.simulator.compiled import apart, inlined
from harness.models.simulator.draws import draw
from harness.models.simulator.heap import push
from harness.models.simulator.indices import executors_of
from harness.models.simulator.kinds import (
    ACK_ARRIVES,
    ALIVE,
    BEGIN,
    EASY,
    FULL,
    HELPED,
    LIMITED,
    LOOK,
    MOST_PENDING,
    NAN,
    NEWS_USED,
    NONE,
    PAUSE,
    PAUSED,
    PAUSES,
    PRESSED,
    RATIO,
    REACHED,
    REQUESTS,
    SIGNAL_ARRIVES,
    SIGNALS,
    SPOUT,
    STATE,
    WAKE,
    World,
)
from harness.models.simulator.sending import look
from harness.models.simulator.serving import note_rounds

LOOK_MS = 5.0
"""Between two looks of a worker at its queues."""
REPEAT_MS = 1000.0
FORGET_MS = 5000.0
"""A worker says again what holds for long; one that is not heard of any more counts for nothing."""


@apart
def note(world: World, time: float, kind: int, worker: int, subject: int, value: float) -> None:
    """Note a change."""
    at = world.counters[NEWS_USED]
    if at >= world.news.size:
        world.counters[FULL] = 1
        return
    world.counters[NEWS_USED] = at + 1
    new = world.news[at]
    new["time"] = time
    new["kind"] = kind
    new["worker"] = worker
    new["subject"] = subject
    new["value"] = value


@inlined
def care_of(world: World, worker: int, watched: int) -> int:
    """Return where a worker's part in a component is."""
    return worker * world.watched.size + watched


@apart
def happened(world: World, worker: int, watched: int, times: int, time: float) -> None:
    """Let a worker learn that a component's queues came to their high mark: the events of equation 1."""
    own = world.cares[care_of(world, worker, watched)]
    for _ in range(times):
        if world.watched[watched]["helper"] != NONE:
            own["ratio"] += (1.0 - own["ratio"]) * world.watched[watched]["delta"]  # eq. 1, help is asked for
            own["requests"] += 1
            note(world, time, RATIO, worker, watched, own["ratio"])
            note(world, time, REQUESTS, worker, watched, float(own["requests"]))
        for other in range(world.watched.size):
            if world.watched[other]["helper"] == watched:
                care = world.cares[care_of(world, worker, other)]
                care["ratio"] -= care["ratio"] * world.watched[other]["delta"]  # eq. 1, the helper is busy
                note(world, time, RATIO, worker, other, care["ratio"])
                if care["state"] == HELPED:
                    care["state"] = PRESSED


@apart
def fill(world: World, worker: int, watched: int, time: float) -> int:
    """Look at a worker's queues of a component; return how many tasks' have just come to their high mark."""
    of = world.watched[watched]
    times = 0
    for executor in executors_of(world, of["component"]):
        own = world.executors[executor]
        if own["worker"] != worker:
            continue
        before = own["over"] == 1
        over = own["queued"] > of["low"] if before else own["queued"] >= of["high"]
        own["over"] = 1 if over else 0
        if over and not before:
            times += own["tasks"]
            note(world, time, REACHED, worker, executor, 1.0)
    return int(times)


@apart
def any_queue(world: World, worker: int, watched: int, over: int) -> bool:
    """Return whether a queue of a component in a worker is over its mark, or (0) is not."""
    for executor in executors_of(world, world.watched[watched]["component"]):
        own = world.executors[executor]
        if own["worker"] == worker and own["over"] == over:
            return True
    return False


@apart
def next_state(world: World, worker: int, watched: int) -> int:
    """Return how a worker deals with its queues of a component from now on (section 4.2)."""
    state = world.cares[care_of(world, worker, watched)]["state"]
    if not any_queue(world, worker, watched, 1):
        return EASY
    if state != EASY:
        return int(state)
    helper = world.watched[watched]["helper"]
    return HELPED if helper != NONE and any_queue(world, worker, helper, 0) else PRESSED


@apart
def decide(world: World, worker: int, time: float) -> None:
    """Let a worker act by its own queues and those of others, as far as it has heard."""
    workers, pressed = world.workers.size, False
    for watched in range(world.watched.size):
        care = world.cares[care_of(world, worker, watched)]
        most = care["state"]
        for other in range(workers):
            most = max(most, world.heard[care_of(world, worker, watched) * workers + other]["state"])
        pressed = pressed or most == PRESSED
        if care["in_force"] != most:
            care["in_force"] = most
            note(world, time, STATE, worker, watched, float(most))
    paused = 1 if pressed and world.relief[PAUSES] == 1 else 0
    if world.workers[worker]["paused"] != paused:
        world.workers[worker]["paused"] = paused
        note(world, time, PAUSE, worker, worker, float(paused))
        if paused == 0:
            for executor in range(world.executors.size):
                own = world.executors[executor]
                if (
                    own["worker"] == worker
                    and own["kind"] == SPOUT
                    and own["asleep"] == 1
                    and own["then"] == PAUSED
                ):
                    world.counters[ALIVE] -= 1
                    wake_spout(world, executor, time)


@apart
def look_at_queues(world: World, worker: int, time: float) -> None:
    """Let a worker look at its queues, act, and tell other workers."""
    workers = world.workers.size
    for watched in range(world.watched.size):
        care = world.cares[care_of(world, worker, watched)]
        if care["here"] == 1:
            times = fill(world, worker, watched, time)
            care["reached"] += times
            care["times"] = times
    for watched in range(world.watched.size):
        care = world.cares[care_of(world, worker, watched)]
        happened(world, worker, watched, int(care["times"]), time)
        care["times"] = 0
    for watched in range(world.watched.size):
        care = world.cares[care_of(world, worker, watched)]
        if care["here"] == 1:
            care["state"] = next_state(world, worker, watched)
        for other in range(workers):
            heard = world.heard[care_of(world, worker, watched) * workers + other]
            if time - heard["at"] > FORGET_MS:
                heard["state"] = EASY
    decide(world, worker, time)
    if world.workers[worker]["speaker"] != NONE:
        tell(world, worker, time)
    push(world, time + LOOK_MS, LOOK, worker)


@apart
def tell(world: World, worker: int, time: float) -> None:
    """Let a worker tell watched executors elsewhere the news, and now and then what still holds."""
    own = world.workers[worker]
    again = time - own["said"] >= REPEAT_MS
    for watched in range(world.watched.size):
        care = world.cares[care_of(world, worker, watched)]
        new = care["said"] != care["state"] or care["said_reached"] != care["reached"]
        if care["here"] == 0 or not (new or (again and care["state"] != EASY)):
            continue
        care["said"] = care["state"]
        care["said_reached"] = care["reached"]
        own["number"] += 1
        for to in range(world.watched.size):
            for target in executors_of(world, world.watched[to]["component"]):
                if world.executors[target]["worker"] != worker:
                    send_signal(world, worker, watched, target, time)
    if again:
        own["said"] = time


@apart
def send_signal(world: World, worker: int, watched: int, target: int, time: float) -> None:
    """Send a signal to an executor; it takes a hop."""
    at = world.counters[SIGNALS]
    if at >= world.signals.size:
        world.counters[FULL] = 1
        return
    world.counters[SIGNALS] = at + 1
    signal, care = world.signals[at], world.cares[care_of(world, worker, watched)]
    signal["number"] = world.workers[worker]["number"]
    signal["reached"] = care["reached"]
    signal["origin"] = worker
    signal["watched"] = watched
    signal["state"] = care["state"]
    signal["target"] = target
    signal["after"] = NONE
    signal["link"] = NONE
    hops = world.hops[worker, world.executors[target]["worker"]]
    hop = draw(world.tables, world.cells, hops, world.draws, int(world.workers[worker]["speaker"]))
    push(world, time + hop, SIGNAL_ARRIVES, at)


@apart
def hear(world: World, number: int, time: float) -> None:
    """Let a worker take note of what another one said, unless it has heard something newer."""
    signal = world.signals[number]
    worker = int(world.executors[signal["target"]]["worker"])
    at = care_of(world, worker, int(signal["watched"])) * world.workers.size + signal["origin"]
    heard = world.heard[at]
    if signal["number"] <= heard["number"]:
        return
    happened(world, worker, int(signal["watched"]), int(signal["reached"] - heard["reached"]), time)
    heard["number"] = signal["number"]
    heard["reached"] = signal["reached"]
    heard["state"] = signal["state"]
    heard["at"] = time
    decide(world, worker, time)


@apart
def signal_arrives(world: World, number: int, time: float) -> None:
    """Put a signal into its executor's queue; an idle executor hears it at once."""
    signal = world.signals[number]
    own = world.executors[signal["target"]]
    if own["asleep"] == 1:
        hear(world, number, time)
        return
    signal["after"] = own["tail"]
    if own["signal"] == NONE:
        own["signal"] = number
    else:
        world.signals[own["signal_end"]]["link"] = number
    own["signal_end"] = number


@apart
def hear_signals(world: World, executor: int, time: float) -> None:
    """Let an executor hear the signals that are before the next tuple in its queue."""
    own = world.executors[executor]
    while own["signal"] != NONE:
        signal = world.signals[own["signal"]]
        after = signal["after"]
        if after != NONE and not world.visits[after]["received"] <= time:
            return
        hear(world, int(own["signal"]), time)
        own["signal"] = signal["link"]


@apart
def wake_spout(world: World, executor: int, time: float) -> None:
    """Let a spout executor that stands still look again, when its sleep is over."""
    own = world.executors[executor]
    own["asleep"] = 2
    own["wake"] = look(own["parked"], time, own["idle"])
    push(world, own["wake"], WAKE, executor)


@apart
def acked(world: World, root: int, time: float) -> None:
    """Let an ack come to a spout: a message less is pending."""
    executor = int(world.tasks[world.roots[root]["task"]]["executor"])
    own = world.executors[executor]
    own["under_way"] -= 1
    if own["asleep"] == 1 and own["then"] == LIMITED:
        wake_spout(world, executor, time)


@apart
def stands_still(world: World, executor: int, time: float) -> bool:
    """Return whether a spout executor has to stand still, and let it: it sleeps, looks, and emits nothing.

    Storm asks for the limit of pending messages once a round.
    """
    own = world.executors[executor]
    paused = world.workers[own["worker"]]["paused"] == 1
    most = world.relief[MOST_PENDING] * own["tasks"]
    begins = own["look"] == 0 or own["look"] == own["tasks"]
    if not paused and not (begins and most > 0 and own["under_way"] >= most):
        return False
    if math.isnan(own["parked"]):
        own["parked"] = time
    own["look"] = 0
    own["emitted"] = 0
    own["asleep"] = 1
    own["wake"] = NAN
    own["then"] = PAUSED if paused else LIMITED
    if paused:
        world.counters[ALIVE] += 1
    return True


@apart
def goes_on(world: World, executor: int, time: float) -> None:
    """Note the rounds in which a spout executor stood still, if it did."""
    own = world.executors[executor]
    if math.isnan(own["parked"]):
        return
    empty = round((time - own["parked"]) / own["idle"]) if own["idle"] > 0.0 else 0
    note_rounds(world, executor, own["parked"], own["idle"], empty, time)
    own["parked"] = NAN


@apart
def gives_back(world: World, executor: int) -> bool:
    """Return whether a spout executor leaves the message that it was about to emit: it has to pause."""
    own = world.executors[executor]
    if own["then"] != BEGIN or world.workers[own["worker"]]["paused"] == 0:
        return False
    world.tasks[world.roots[own["item"]]["task"]]["next"] -= 1
    return True


@apart
def relieve(world: World, kind: int, subject: int, time: float) -> None:
    """Let an event of relief happen."""
    if kind == ACK_ARRIVES:
        acked(world, subject, time)
    elif kind == LOOK:
        look_at_queues(world, subject, time)
    else:
        signal_arrives(world, subject, time)
