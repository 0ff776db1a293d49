"""Work of an executor on the items that it has taken from its queue."""

from __future__ import annotations

import math

from harness.models.simulator.compiled import inlined
from harness.models.simulator.draws import draw
from harness.models.simulator.heap import push
from harness.models.simulator.indices import tasks_of
from harness.models.simulator.kinds import (
    BOLT,
    COUNT_WINDOW,
    FULL,
    INF,
    NONE,
    SPOUT,
    TICK,
    TIME_WINDOW,
    Emitter,
    World,
)
from harness.models.simulator.sending import (
    ack,
    dispatch,
    emit,
    flush,
    new_visit,
    next_flush,
    take_flushes,
    tell_acker,
)
from harness.models.simulator.windowing import join_count_window, join_time_window, tick_time

ENDLESS = 2**62
"""Number of rounds after the last message."""


@inlined
def work(world: World, executor: int, since: float, until: float, cpu: float) -> None:
    """Count busy time, and CPU time by its start, as far as they lie in the span that is counted."""
    own = world.executors[executor]
    own["busy"] += max(0.0, min(until, world.span[1]) - max(since, world.span[0]))
    if world.span[0] <= since < world.span[1]:
        own["cpu"] += cpu


@inlined
def demand(world: World, executor: int, item: int) -> tuple[float, float]:
    """Draw what an item costs: CPU time, and the time from start to end.

    Where cores are played, the second is only what comes after the CPU time.
    """
    own = world.executors[executor]
    kind = NONE
    if own["kind"] == SPOUT:
        kind = world.components[own["component"]]["input"]
        if kind == NONE:
            return 0.0, 0.0
    elif own["kind"] <= TIME_WINDOW:
        kind = world.visits[item]["input"]
    if kind == NONE:
        cpu, wait = draw(world.tables, world.cells, world.ackers[2], world.draws, executor), 0.0
    else:
        service = world.inputs[kind]
        cpu = draw(world.tables, world.cells, service["cpu"], world.draws, executor)
        wait = draw(world.tables, world.cells, service["wait"], world.draws, executor)
    if own["shared"] == 1 and cpu > 0.0:
        return cpu, wait
    return cpu, cpu * own["stretch"] + wait


@inlined
def begin(world: World, executor: int, item: int, time: float, cpu: float) -> None:
    """Note the start of an item's service."""
    kind = world.executors[executor]["kind"]
    if kind == SPOUT:
        return
    if kind <= TIME_WINDOW:
        world.visits[item]["received"] = time
        world.visits[item]["cpu"] = cpu
    else:
        world.messages[item]["received"] = time


@inlined
def enter(world: World, root: int, time: float) -> int:
    """Let a message enter the topology; return its visit at the spout, or ``NONE``: no room."""
    message = world.roots[root]
    item = new_visit(world, int(message["task"]), NONE, NONE, root, 1)
    if item == NONE:
        return NONE
    message["entered"] = time
    message["visit"] = item
    visit = world.visits[item]
    visit["queued"] = message["due"]
    visit["received"] = time
    visit["served"] = time
    visit["emitted"] = time
    visit["cpu"] = 0.0
    return item


@inlined
def handle_ack(world: World, executor: int, item: int, time: float) -> None:
    """Let an acker take note; the message that completes a tree is answered by one to the spout."""
    world.messages[item]["served"] = time
    number = int(world.messages[item]["root"])
    root = world.roots[number]
    if root["handled"] == 0:
        root["first"] = time
    root["handled"] += 1
    if root["handled"] == root["sent"] and root["open"] == 0:
        root["last"] = time
        dispatch(world, Emitter(executor, executor), int(world.tasks[root["task"]]["executor"]), number, time)


@inlined
def serve(world: World, executor: int, item: int, time: float) -> float:
    """Pass on an item at the end of its service; return how long its sink's client then holds it, in ms."""
    own = world.executors[executor]
    kind, component = own["kind"], world.components[own["component"]]
    if kind > TIME_WINDOW:
        handle_ack(world, executor, item, time)
        return 0.0
    fan, fans, parent, root = int(component["fan"]), int(component["fans"]), item, item
    if kind == SPOUT:
        parent = enter(world, item, time)
        if parent == NONE:
            return 0.0
    else:
        visit = world.visits[item]
        visit["served"] = time
        root = int(visit["root"])
        task = int(visit["task"])
        if kind == BOLT:
            visit["emitted"] = time
            made = world.inputs[visit["input"]]
            fan, fans = int(made["fan"]), int(made["fans"])
        else:
            parent = NONE
            if kind == COUNT_WINDOW:
                firing = join_count_window(world, task, item, time)
                fans = fans if firing != NONE else 0
                parent = root = ~firing
            else:
                fans = 0
                if join_time_window(world, task, item, time):
                    push(world, tick_time(world, task), TICK, task)
    emit(world, Emitter(executor, executor), fan, fans, parent, root, time)
    if kind == SPOUT and world.ackers[1] > 0:
        own["under_way"] += 1
        tell_acker(world, Emitter(executor, executor), item, time)
    if component["sink"] == 0:
        return 0.0
    return draw(world.tables, world.cells, component["send"], world.draws, executor)


@inlined
def conclude(world: World, executor: int, item: int, time: float) -> None:
    """Ack a tuple that no window holds, when its executor is done with it."""
    if world.executors[executor]["kind"] == BOLT and world.ackers[1] > 0:
        ack(world, Emitter(executor, executor), item, time)


@inlined
def note_rounds(world: World, executor: int, start: float, period: float, count: int, until: float) -> None:
    """Note rounds of a spout executor that begin until a time.

    The first of them that finds a flush in the queue sends off what waits for one.
    """
    own = world.executors[executor]
    at = world.round_first[executor] + own["rounds"]
    if at >= world.rounds.size:
        world.counters[FULL] = 1
        return
    own["rounds"] += 1
    world.rounds[at]["start"] = start
    world.rounds[at]["period"] = period
    world.rounds[at]["count"] = count
    if own["parcels"] > 0:
        due = next_flush(world, executor)
        time = max(due, start)
        if due > start and period > 0.0 and due < INF:
            time = start + math.ceil((due - start) / period) * period
        if time <= until and time < INF:
            flush(world, executor, time)
            take_flushes(world, executor, time)
    take_flushes(world, executor, start)


@inlined
def seek(world: World, executor: int) -> float:
    """Go on with a spout executor's rounds until a task has a message; return when, and its ``item``.

    Rounds in which nothing can be found are not gone through but counted. Infinite when all is emitted.
    """
    own = world.executors[executor]
    poll = world.components[own["component"]]["poll"]
    empty_round = poll * own["tasks"] + own["idle"]
    time = own["free"]
    while True:
        if own["look"] == own["tasks"]:
            own["look"] = 0
            if own["emitted"] == 0:
                time += own["idle"]
        if own["look"] == 0:
            own["emitted"] = 0
            due = INF
            for task in tasks_of(world, executor):
                owner = world.tasks[task]
                if owner["next"] < owner["end"]:
                    due = min(due, world.roots[owner["next"]]["due"])
            if due > time:
                if empty_round <= 0.0:
                    note_rounds(world, executor, time, 0.0, 0, due)
                    time = due
                else:
                    skipped = ENDLESS if due == INF else int((due - time) / empty_round)
                    if skipped > 0:
                        last = time + (skipped - 1) * empty_round
                        note_rounds(world, executor, time, empty_round, skipped, last)
                        time += skipped * empty_round
                if due == INF:
                    return INF
            note_rounds(world, executor, time, 0.0, 1, time)
        owner = world.tasks[own["first_task"] + own["look"]]
        own["look"] += 1
        if owner["next"] < owner["end"] and world.roots[owner["next"]]["due"] <= time:
            own["item"] = owner["next"]
            owner["next"] += 1
            own["emitted"] = 1
            own["free"] = time
            return float(time)
        time += poll
