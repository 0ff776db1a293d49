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
from harness.models.simulator.indices import later_threads_of
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
        own = world.executors[subject]
        return (subject if own["asleep"] > 0 and own["wake"] == time else NONE), NEXT
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
    draws = world.executors.size + world.tasks.size + host
    return -OTHER_MS * math.log1p(-uniform(world.draws, draws))


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
    own = world.executors[executor]
    link(world, executor, item, NONE)
    first = last = item
    if far == 1 and world.batch[BATCH] > 1.0:
        first, last = far_batch(world, executor, item, time)
        if first == NONE:
            return
    own["queued"] += 1
    if own["tail"] == NONE:
        own["head"] = first
    else:
        link(world, executor, int(own["tail"]), first)
    own["tail"] = last
    if own["asleep"] == 1:
        own["asleep"] = 2
        wake = look(own["free"], time, own["idle"])
        if own["wake"] != wake:
            own["wake"] = wake
            push(world, wake, WAKE, executor)


@inlined
def far_batch(world: World, executor: int, item: int, time: float) -> tuple[int, int]:
    """Add an item to the batch of what comes from other workers; if that was full, return its ends.

    Until the next one comes, a batch is not in the queue.
    """
    own = world.executors[executor]
    first = last = NONE
    if own["far"] >= world.batch[BATCH]:
        first, last = int(own["far_head"]), int(own["far_tail"])
        own["far_head"] = NONE
        own["far_tail"] = NONE
        own["far"] = 0
        waiting = first
        while waiting != NONE:
            if own["kind"] <= TIME_WINDOW:
                world.visits[waiting]["queued"] = time
            else:
                world.messages[waiting]["queued"] = time
            waiting = following(world, executor, waiting)
    if own["kind"] <= TIME_WINDOW:
        world.visits[item]["queued"] = INF
    else:
        world.messages[item]["queued"] = INF
    if own["far_tail"] == NONE:
        own["far_head"] = item
    else:
        link(world, executor, int(own["far_tail"]), item)
    own["far_tail"] = item
    own["far"] += 1
    return first, last


@inlined
def take(world: World, executor: int) -> int:
    """Take the first item of a queue."""
    own = world.executors[executor]
    item = own["head"]
    own["queued"] -= 1
    own["head"] = following(world, executor, item)
    if own["head"] == NONE:
        own["tail"] = NONE
    return int(item)


@inlined
def take_flushes_before(world: World, executor: int, time: float) -> None:
    """Let an executor that looks at its queue take the flushes that are before its first item."""
    own = world.executors[executor]
    until = time
    if own["head"] != NONE:
        if own["kind"] <= TIME_WINDOW:
            until = world.visits[own["head"]]["queued"]
        else:
            until = world.messages[own["head"]]["queued"]
    if own["parcels"] > 0 and next_flush(world, executor) <= until:
        flush(world, executor, time)
    take_flushes(world, executor, until)


@inlined
def expect_flush(world: World, executor: int, time: float) -> None:
    """Let a sleeping executor look when the next flush is there, if something waits for it."""
    own = world.executors[executor]
    if own["asleep"] != 1 or own["parcels"] == 0:
        return
    last = time
    if own["idle"] > 0.0 and time > own["free"]:
        last = own["free"] + math.floor((time - own["free"]) / own["idle"]) * own["idle"]
    take_flushes(world, executor, last)
    wake = look(own["free"], next_flush(world, executor), own["idle"])
    if wake < INF and own["wake"] != wake:
        own["wake"] = wake
        push(world, wake, WAKE, executor)


@inlined
def pick(world: World, executor: int, time: float) -> bool:
    """Let an executor find what to do next; return whether there is something now."""
    own = world.executors[executor]
    own["free"] = time
    if own["kind"] == SPOUT:
        if world.relief[LOOKS] + world.relief[MOST_PENDING] > 0:
            if stands_still(world, executor, time):
                return False
            goes_on(world, executor, time)
        found = seek(world, executor)
        if time < found < INF:
            own["then"] = BEGIN
            push(world, found, DONE, executor)
        return bool(found <= time)
    if batched(world):
        take_flushes_before(world, executor, time)
    if own["signal"] != NONE:
        hear_signals(world, executor, time)
    if own["head"] != NONE:
        own["item"] = take(world, executor)
        return True
    own["asleep"] = 1
    own["wake"] = NAN
    if batched(world):
        expect_flush(world, executor, time)
    return False


@inlined
def go_on(world: World, executor: int, time: float, then: int) -> None:
    """Let an executor go on until it has to wait: for a core, an end of waiting, or something to do."""
    own = world.executors[executor]
    own["asleep"] = 0
    while True:
        if then == NEXT:
            if not pick(world, executor, time):
                return
            then = BEGIN
        item = int(own["item"])
        if then == BEGIN:
            cpu, length = demand(world, executor, item)
            begin(world, executor, item, time, cpu)
            own["free"], own["cpu_now"], own["wait"] = time, cpu, length
            if own["shared"] == 1 and cpu > 0.0:
                start_thread(world, int(own["host"]), executor, cpu, time)
                return
            then = AFTER_CPU
        if then == AFTER_CPU:
            if own["wait"] > 0.0:
                own["then"] = SERVED
                push(world, time + own["wait"], DONE, executor)
                return
            then = SERVED
        if then == SERVED:
            hold = serve(world, executor, item, time)
            if hold > 0.0:
                own["then"] = HELD
                push(world, time + hold, DONE, executor)
                return
        work(world, executor, own["free"], time, own["cpu_now"])
        if own["help"] != NONE:
            own["item"] = next_help(world, executor, item)
            then = BEGIN
            continue
        conclude(world, executor, whole(world, executor, item), time)
        then = NEXT


@inlined
def speed(world: World, host: int) -> float:
    """Return the share of a core that each thread in need of one has."""
    machine = world.hosts[host]
    if machine["used_up"] == 1:
        return 0.0
    return float(min(1.0, machine["cores"] / machine["threads"]))


@inlined
def advance(world: World, host: int, time: float) -> None:
    """Bring a host's progress up to a time."""
    machine = world.hosts[host]
    if machine["threads"] > 0:
        more = (time - machine["updated"]) * speed(world, host)
        machine["progress"] += more
        if machine["quota"] < INF:
            machine["left"] -= more * machine["own"]
    else:
        machine["progress"] = 0.0
    machine["updated"] = time


@inlined
def first_done(world: World, host: int) -> int:
    """Return the thread that will be done first."""
    best = world.hosts[host]["first"]
    for at in later_threads_of(world, host):
        if world.threads[at]["end"] < world.threads[best]["end"]:
            best = at
    return int(best)


@inlined
def schedule(world: World, host: int, time: float) -> None:
    """Expect the end of the thread that will be done first; what was expected before is void."""
    machine = world.hosts[host]
    if machine["used_up"] == 2:
        machine["used_up"] = 0
    if machine["threads"] == 0 or machine["used_up"] == 1:
        machine["due"] = NAN
        return
    left = max(0.0, world.threads[first_done(world, host)]["end"] - machine["progress"])
    if machine["quota"] < INF and machine["own"] > 0 and machine["left"] < left * machine["own"]:
        left = max(0.0, machine["left"] / machine["own"])
        machine["used_up"] = 2
    machine["due"] = time + left / speed(world, host)
    push(world, machine["due"], CORE, host)


@inlined
def begin_period(world: World, host: int, time: float) -> None:
    """Let a host have its quota of CPU time again."""
    machine = world.hosts[host]
    advance(world, host, time)
    machine["left"] = machine["quota"]
    machine["used_up"] = 0
    schedule(world, host, time)
    push(world, time + PERIOD_MS, NEW_PERIOD, host)


@inlined
def start_thread(world: World, host: int, executor: int, cpu: float, time: float) -> None:
    """Let an executor compute, or other work."""
    machine = world.hosts[host]
    at = machine["first"] + machine["threads"]
    if at >= machine["end"]:
        world.counters[FULL] = 1
        return
    advance(world, host, time)
    world.threads[at]["end"] = machine["progress"] + cpu
    world.threads[at]["executor"] = executor
    machine["threads"] += 1
    if executor != NONE:
        machine["own"] += 1
        world.counters[ALIVE] += 1
    schedule(world, host, time)


@inlined
def finish_thread(world: World, host: int, time: float) -> int:
    """Return the executor that has had its CPU time; ``NONE`` for other work, or when the event is void."""
    machine = world.hosts[host]
    if machine["due"] != time:
        return NONE
    advance(world, host, time)
    if machine["used_up"] == 2:
        machine["used_up"] = 1
        machine["due"] = NAN
        return NONE
    at, last = first_done(world, host), machine["first"] + machine["threads"] - 1
    executor = world.threads[at]["executor"]
    machine["progress"] = world.threads[at]["end"]  # what the sum above is but for rounding
    world.threads[at]["end"] = world.threads[last]["end"]
    world.threads[at]["executor"] = world.threads[last]["executor"]
    machine["threads"] -= 1
    if executor != NONE:
        machine["own"] -= 1
        world.counters[ALIVE] -= 1
    schedule(world, host, time)
    return int(executor)
