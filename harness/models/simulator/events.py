"""The engine: events in the order of their times.

The threads of a host that need a core share its cores alike: with more of them than cores, each gets
cores / threads of one (processor sharing). So how long a service takes depends on what other executors do
meanwhile, and what they do on it.

A host's ``progress`` is the CPU time that a thread would have had which ran all the time. A thread is done
when the progress has grown by its demand, however many others came and went. What the host runs beside the
executors is a stream of short demands that come at random.

A host with a CPU quota stands still from when its executors have had the quota's CPU time to the end of the
quota's period. Its other work, which is not the node's, is done in the meantime.
"""

from __future__ import annotations

import math

from harness.models.quotas import PERIOD_MS
from harness.models.simulator.compiled import compiled_bare, inlined
from harness.models.simulator.draws import uniform
from harness.models.simulator.heap import pop, push
from harness.models.simulator.helping import next_help, whole
from harness.models.simulator.kinds import (
    ACK_ARRIVES,
    AFTER_CPU,
    ALIVE,
    BATCH,
    BEGIN,
    BOX_DUE,
    CORE,
    DONE,
    EVENTS,
    FULL,
    HELD,
    INF,
    LOOK,
    LOOKS,
    MOST_PENDING,
    NAN,
    NEW_PERIOD,
    NEXT,
    NONE,
    OTHER_WORK,
    SERVED,
    SPOUT,
    TICK,
    TIME_WINDOW,
    VISIT_ARRIVES,
    WAKE,
    World,
)
from harness.models.simulator.relieving import (
    LOOK_MS,
    gives_back,
    goes_on,
    hear_signals,
    relieve,
    stands_still,
)
from harness.models.simulator.sending import batched, flush, leave, look, next_flush, take_flushes
from harness.models.simulator.serving import begin, conclude, demand, seek, serve, work
from harness.models.simulator.windowing import tick, tick_time

OTHER_MS = 0.1
"""Mean CPU time of a piece of other work: about a Kafka poll. How long executors wait for cores on the
average does not depend on it, only on how much there is (insensitivity of processor sharing)."""


@compiled_bare
def play(world: World) -> None:
    """Play a world to its end, or until one of its arrays is full."""
    for host in range(world.hosts.size):
        if world.hosts[host]["other"] > 0.0:
            push(world, exponential(world, host) / world.hosts[host]["other"], OTHER_WORK, host)
        if world.hosts[host]["quota"] < INF:
            push(world, PERIOD_MS * host / world.hosts.size, NEW_PERIOD, host)  # not all at once
    for executor in range(world.executors.size):
        if world.executors[executor]["kind"] == SPOUT:
            world.executors[executor]["asleep"] = 2
            world.executors[executor]["wake"] = world.executors[executor]["free"]
            push(world, world.executors[executor]["wake"], WAKE, executor)
    if world.relief[LOOKS] == 1:
        for worker in range(world.workers.size):
            push(world, LOOK_MS * worker / world.workers.size, LOOK, worker)  # not all at once
    while world.counters[ALIVE] > 0 and world.counters[FULL] == 0 and world.counters[EVENTS] > 0:
        time, kind, subject = pop(world)
        executor, then = happen(world, time, kind, subject)
        if executor != NONE:
            go_on(world, executor, time, then)


@inlined
def happen(world: World, time: float, kind: int, subject: int) -> tuple[int, int]:
    """Let an event happen; return the executor that can go on, or ``NONE``, and with what."""
    if kind == WAKE:
        e = world.executors[subject]
        return (subject if e["asleep"] > 0 and e["wake"] == time else NONE), NEXT
    if kind == DONE:
        return subject, then_what(world, subject)
    if kind == CORE:
        return finish_thread(world, subject, time), AFTER_CPU
    if kind == OTHER_WORK:
        demand_ms = exponential(world, subject)
        if world.hosts[subject]["used_up"] != 1:
            start_thread(world, subject, NONE, demand_ms, time)
        gap = exponential(world, subject) / world.hosts[subject]["other"]
        push(world, time + gap, OTHER_WORK, subject)
    elif kind == NEW_PERIOD:
        begin_period(world, subject, time)
    elif kind == BOX_DUE:
        box_due(world, subject, time)
    elif kind == TICK:
        if tick(world, subject, time):
            push(world, tick_time(world, subject), TICK, subject)
        if batched(world):
            expect_flush(world, int(world.tasks[subject]["executor"]), time)
    elif kind == ACK_ARRIVES or kind >= LOOK:
        relieve(world, kind, subject, time)
    else:
        arrive(world, kind, subject, time)
    return NONE, NEXT


@inlined
def then_what(world: World, executor: int) -> int:
    """Return what an executor goes on with; a spout that has to pause lets its message be."""
    if world.relief[LOOKS] == 1 and gives_back(world, executor):
        return NEXT
    return int(world.executors[executor]["then"])


@inlined
def box_due(world: World, box: int, time: float) -> None:
    """Let a batch of rows leave whose time is over, if it is still the same."""
    if world.boxes[box]["count"] > 0 and world.boxes[box]["due"] == time:
        leave(world, int(world.boxes[box]["sender"]), box, time)


@inlined
def exponential(world: World, host: int) -> float:
    """Draw for a host's other work."""
    stream = world.executors.size + world.tasks.size + host
    return -OTHER_MS * math.log1p(-uniform(world.draws, stream))


@inlined
def link(world: World, executor: int, item: int, after: int) -> None:
    """Let an item in an executor's queue be followed by another."""
    if world.executors[executor]["kind"] <= TIME_WINDOW:
        world.visits[item]["link"] = after
    else:
        world.messages[item]["link"] = after


@inlined
def following(world: World, executor: int, item: int) -> int:
    """Return the item behind another one."""
    if world.executors[executor]["kind"] <= TIME_WINDOW:
        return int(world.visits[item]["link"])
    return int(world.messages[item]["link"])


@inlined
def arrive(world: World, kind: int, item: int, time: float) -> None:
    """Put an item at the end of a queue; what comes from other workers goes into its batch instead.

    An idle executor finds it at its next look.
    """
    if kind == VISIT_ARRIVES:
        executor = int(world.tasks[world.visits[item]["task"]]["executor"])
        far = world.visits[item]["far"]
    else:
        executor = int(world.messages[item]["acker"])
        far = world.messages[item]["far"]
    e = world.executors[executor]
    link(world, executor, item, NONE)
    first = last = item
    if far == 1 and world.batch[BATCH] > 1.0:
        first, last = far_batch(world, executor, item, time)
        if first == NONE:
            return
    e["queued"] += 1
    if e["tail"] == NONE:
        e["head"] = first
    else:
        link(world, executor, int(e["tail"]), first)
    e["tail"] = last
    if e["asleep"] == 1:
        e["asleep"] = 2
        wake = look(e["free"], time, e["idle"])
        if e["wake"] != wake:
            e["wake"] = wake
            push(world, wake, WAKE, executor)


@inlined
def far_batch(world: World, executor: int, item: int, time: float) -> tuple[int, int]:
    """Add an item to the batch of what comes from other workers; if that was full, return its ends.

    Until the next one comes, a batch is not in the queue.
    """
    e = world.executors[executor]
    first = last = NONE
    if e["far"] >= world.batch[BATCH]:
        first, last = int(e["far_head"]), int(e["far_tail"])
        e["far_head"] = NONE
        e["far_tail"] = NONE
        e["far"] = 0
        waiting = first
        while waiting != NONE:
            if e["kind"] <= TIME_WINDOW:
                world.visits[waiting]["queued"] = time
            else:
                world.messages[waiting]["queued"] = time
            waiting = following(world, executor, waiting)
    if e["kind"] <= TIME_WINDOW:
        world.visits[item]["queued"] = INF
    else:
        world.messages[item]["queued"] = INF
    if e["far_tail"] == NONE:
        e["far_head"] = item
    else:
        link(world, executor, int(e["far_tail"]), item)
    e["far_tail"] = item
    e["far"] += 1
    return first, last


@inlined
def take(world: World, executor: int) -> int:
    """Take the first item of a queue."""
    e = world.executors[executor]
    item = e["head"]
    e["queued"] -= 1
    e["head"] = following(world, executor, item)
    if e["head"] == NONE:
        e["tail"] = NONE
    return int(item)


@inlined
def take_flushes_before(world: World, executor: int, time: float) -> None:
    """Let an executor that looks at its queue take the flushes that are before its first item."""
    e = world.executors[executor]
    until = time
    if e["head"] != NONE:
        if e["kind"] <= TIME_WINDOW:
            until = world.visits[e["head"]]["queued"]
        else:
            until = world.messages[e["head"]]["queued"]
    if e["parcels"] > 0 and next_flush(world, executor) <= until:
        flush(world, executor, time)
    take_flushes(world, executor, until)


@inlined
def expect_flush(world: World, executor: int, time: float) -> None:
    """Let a sleeping executor look when the next flush is there, if something waits for it."""
    e = world.executors[executor]
    if e["asleep"] != 1 or e["parcels"] == 0:
        return
    last = time
    if e["idle"] > 0.0 and time > e["free"]:
        last = e["free"] + math.floor((time - e["free"]) / e["idle"]) * e["idle"]
    take_flushes(world, executor, last)
    wake = look(e["free"], next_flush(world, executor), e["idle"])
    if wake < INF and e["wake"] != wake:
        e["wake"] = wake
        push(world, wake, WAKE, executor)


@inlined
def pick(world: World, executor: int, time: float) -> bool:
    """Let an executor find what to do next; return whether there is something now."""
    e = world.executors[executor]
    e["free"] = time
    if e["kind"] == SPOUT:
        if world.relief[LOOKS] + world.relief[MOST_PENDING] > 0:
            if stands_still(world, executor, time):
                return False
            goes_on(world, executor, time)
        found = seek(world, executor)
        if time < found < INF:
            e["then"] = BEGIN
            push(world, found, DONE, executor)
        return bool(found <= time)
    if batched(world):
        take_flushes_before(world, executor, time)
    if e["signal"] != NONE:
        hear_signals(world, executor, time)
    if e["head"] != NONE:
        e["item"] = take(world, executor)
        return True
    e["asleep"] = 1
    e["wake"] = NAN
    if batched(world):
        expect_flush(world, executor, time)
    return False


@inlined
def go_on(world: World, executor: int, time: float, then: int) -> None:
    """Let an executor go on until it has to wait: for a core, an end of waiting, or something to do."""
    e = world.executors[executor]
    e["asleep"] = 0
    while True:
        if then == NEXT:
            if not pick(world, executor, time):
                return
            then = BEGIN
        item = int(e["item"])
        if then == BEGIN:
            cpu, length = demand(world, executor, item)
            begin(world, executor, item, time, cpu)
            e["free"], e["cpu_now"], e["wait"] = time, cpu, length
            if e["shared"] == 1 and cpu > 0.0:
                start_thread(world, int(e["host"]), executor, cpu, time)
                return
            then = AFTER_CPU
        if then == AFTER_CPU:
            if e["wait"] > 0.0:
                e["then"] = SERVED
                push(world, time + e["wait"], DONE, executor)
                return
            then = SERVED
        if then == SERVED:
            hold = serve(world, executor, item, time)
            if hold > 0.0:
                e["then"] = HELD
                push(world, time + hold, DONE, executor)
                return
        work(world, executor, e["free"], time, e["cpu_now"])
        if e["help"] != NONE:
            e["item"] = next_help(world, executor, item)
            then = BEGIN
            continue
        conclude(world, executor, whole(world, executor, item), time)
        then = NEXT


@inlined
def speed(world: World, host: int) -> float:
    """Return the share of a core that each thread in need of one has."""
    h = world.hosts[host]
    if h["used_up"] == 1:
        return 0.0
    return float(min(1.0, h["cores"] / h["n"]))


@inlined
def advance(world: World, host: int, time: float) -> None:
    """Bring a host's progress up to a time."""
    h = world.hosts[host]
    if h["n"] > 0:
        more = (time - h["updated"]) * speed(world, host)
        h["progress"] += more
        if h["quota"] < INF:
            h["left"] -= more * h["own"]
    else:
        h["progress"] = 0.0
    h["updated"] = time


@inlined
def first_done(world: World, host: int) -> int:
    """Return the thread that will be done first."""
    h = world.hosts[host]
    best = h["first"]
    for at in range(h["first"] + 1, h["first"] + h["n"]):
        if world.threads[at]["end"] < world.threads[best]["end"]:
            best = at
    return int(best)


@inlined
def schedule(world: World, host: int, time: float) -> None:
    """Expect the end of the thread that will be done first; what was expected before is void."""
    h = world.hosts[host]
    if h["used_up"] == 2:
        h["used_up"] = 0
    if h["n"] == 0 or h["used_up"] == 1:
        h["due"] = NAN
        return
    left = max(0.0, world.threads[first_done(world, host)]["end"] - h["progress"])
    if h["quota"] < INF and h["own"] > 0 and h["left"] < left * h["own"]:
        left = max(0.0, h["left"] / h["own"])
        h["used_up"] = 2
    h["due"] = time + left / speed(world, host)
    push(world, h["due"], CORE, host)


@inlined
def begin_period(world: World, host: int, time: float) -> None:
    """Let a host have its quota of CPU time again."""
    h = world.hosts[host]
    advance(world, host, time)
    h["left"] = h["quota"]
    h["used_up"] = 0
    schedule(world, host, time)
    push(world, time + PERIOD_MS, NEW_PERIOD, host)


@inlined
def start_thread(world: World, host: int, executor: int, cpu: float, time: float) -> None:
    """Let an executor compute, or other work."""
    h = world.hosts[host]
    at = h["first"] + h["n"]
    if at >= h["end"]:
        world.counters[FULL] = 1
        return
    advance(world, host, time)
    world.threads[at]["end"] = h["progress"] + cpu
    world.threads[at]["executor"] = executor
    h["n"] += 1
    if executor != NONE:
        h["own"] += 1
        world.counters[ALIVE] += 1
    schedule(world, host, time)


@inlined
def finish_thread(world: World, host: int, time: float) -> int:
    """Return the executor that has had its CPU time; ``NONE`` for other work, or when the event is void."""
    h = world.hosts[host]
    if h["due"] != time:
        return NONE
    advance(world, host, time)
    if h["used_up"] == 2:
        h["used_up"] = 1
        h["due"] = NAN
        return NONE
    at, last = first_done(world, host), h["first"] + h["n"] - 1
    executor = world.threads[at]["executor"]
    h["progress"] = world.threads[at]["end"]  # what the sum above is but for rounding
    world.threads[at]["end"] = world.threads[last]["end"]
    world.threads[at]["executor"] = world.threads[last]["executor"]
    h["n"] -= 1
    if executor != NONE:
        h["own"] -= 1
        world.counters[ALIVE] -= 1
    schedule(world, host, time)
    return int(executor)
