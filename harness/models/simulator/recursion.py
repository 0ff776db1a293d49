"""The engine for networks in which nobody waits for a core: Lindley's recursion, component by component.

Without shared cores an executor's work depends on what came to its queue and on nothing that happens
later or elsewhere. So components are gone through downstream, spouts first and ackers last; each
executor's arrivals are sorted by time and served in one pass: the next service begins at the end of the
one before, or at the executor's first look after the arrival.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.simulator.compiled import compiled, compiled_bare, inlined
from harness.models.simulator.kinds import (
    ACKER,
    BATCH,
    FULL,
    INF,
    MESSAGES,
    NONE,
    SPOUT,
    TIME_WINDOW,
    VISITS,
    Counters,
    Floats,
    Indices,
    World,
)
from harness.models.simulator.sending import batched, flush, look, next_flush, take_flushes
from harness.models.simulator.serving import begin, conclude, demand, seek, serve, work
from harness.models.simulator.windowing import tick, tick_time

NEARLY_SORTED = 1 / 16
"""Up to this share of descents, merging what is sorted already is quicker than sorting anew."""


def play(world: World) -> None:
    """Play a world to its end, or until one of its arrays is full."""
    made = np.zeros((world.components.size, 2), dtype=np.int64)  # the visits that each component's work made
    fed = _fed(world)
    for c, component in enumerate(world.components):
        mine = range(component["first_executor"], component["first_executor"] + component["executors"])
        made[c, 0] = world.counters[VISITS]
        if component["kind"] == SPOUT:
            for executor in mine:
                run_spout(world, int(executor))
        else:
            items, times, first = (
                messages_for(world, component["first_executor"], component["executors"])
                if component["kind"] == ACKER
                else visits_for(world, c, made[fed[c]])
            )
            for number, executor in enumerate(mine):
                if world.counters[FULL]:
                    return
                part = slice(first[number], first[number + 1])
                run_executor(world, int(executor), _in_order(world, executor, items[part], times[part]))
        made[c, 1] = world.counters[VISITS]


def _fed(world: World) -> list[list[int]]:
    """Return, for each component, the components that send to it."""
    found: list[set[int]] = [set() for _ in world.components]
    for c, component in enumerate(world.components):
        fans = list(range(component["fan"], component["fan"] + component["fans"]))
        for i in {int(s["input"]) for s in world.streams if s["target"] == c}:
            fans += range(world.inputs[i]["fan"], world.inputs[i]["fan"] + world.inputs[i]["fans"])
        for fan in fans:
            made = world.fans[fan]
            for stream in world.streams[made["stream"] : made["stream"] + made["streams"]]:
                found[stream["target"]].add(c)
    return [sorted(f) for f in found]


def _in_order(world: World, executor: int, items: Indices, times: Floats) -> Indices:
    """Return what comes to an executor's queue in the order in which it does."""
    order = in_time(times)
    if world.batch[BATCH] <= 1:
        return items[order]
    items, times = items[order], times[order]
    fill_far_batches(world, world.executors[executor]["kind"] == ACKER, items, times)
    return items[np.argsort(times, kind="stable")]


def in_time(times: Floats) -> Counters:
    """Return the order of times; equal ones, and those that never come, stay as they are."""
    descents = np.count_nonzero(times[1:] < times[:-1])
    if descents == 0:
        return np.arange(times.size)
    if descents < NEARLY_SORTED * times.size:
        return np.argsort(times, kind="stable")
    order = np.argsort(times)
    keep_order_of_equals(times, order)
    return order


@compiled
def keep_order_of_equals(times: Floats, order: Counters) -> None:
    """Put equal times, which a quick sort leaves in any order, back into the order of sending."""
    n = order.size
    start = 0
    while start < n:
        end = start + 1
        while end < n and times[order[end]] == times[order[start]]:
            end += 1
        if end - start > 1:
            order[start:end] = np.sort(order[start:end])
        start = end


@compiled_bare
def fill_far_batches(world: World, acks: bool, items: Indices, times: Floats) -> None:
    """Let what comes from other workers, in this order, wait for the last of its batch."""
    size = int(world.batch[BATCH])
    count, first = 0, 0
    for at in range(items.size):
        if times[at] == INF:
            break
        far = world.messages[items[at]]["far"] if acks else world.visits[items[at]]["far"]
        if far == 0:
            continue
        if count == 0:
            first = at
        count += 1
        if count == size:
            count = 0
            hold_back(world, acks, items, times, first, at, times[at])
    if count > 0:
        hold_back(world, acks, items, times, first, items.size - 1, INF)


@inlined
def hold_back(
    world: World, acks: bool, items: Indices, times: Floats, first: int, last: int, until: float
) -> None:
    """Let what comes from other workers among these wait until a time."""
    for at in range(first, last + 1):
        if acks:
            if world.messages[items[at]]["far"] == 1:
                times[at] = until
                world.messages[items[at]]["queued"] = until
        elif world.visits[items[at]]["far"] == 1:
            times[at] = until
            world.visits[items[at]]["queued"] = until


@compiled
def visits_for(world: World, component: int, made: Counters) -> tuple[Indices, Floats, Counters]:
    """Return the visits at a component's executors, each executor's together, as they were sent.

    Parameters
    ----------
    made : array (sources, 2)
        Where among the visits those are that the component's sources have made.

    Returns
    -------
    items, times : array
        Visits, and when they come to their queues.
    first : array (executors + 1)
        Where each executor's begin.
    """
    target = world.components[component]
    executors = np.full(world.tasks.size, NONE, np.int64)
    for task in range(target["first_task"], target["first_task"] + target["tasks"]):
        executors[task] = world.tasks[task]["executor"] - target["first_executor"]
    first = np.zeros(target["executors"] + 1, np.int64)
    for source in range(made.shape[0]):
        for item in range(made[source, 0], made[source, 1]):
            executor = executors[world.visits[item]["task"]]
            if executor != NONE:
                first[executor + 1] += 1
    first = np.cumsum(first)
    items, times = np.empty(first[-1], np.int32), np.empty(first[-1], np.float64)
    at = first.copy()
    for source in range(made.shape[0]):
        for item in range(made[source, 0], made[source, 1]):
            executor = executors[world.visits[item]["task"]]
            if executor != NONE:
                items[at[executor]] = item
                times[at[executor]] = world.visits[item]["queued"]
                at[executor] += 1
    return items, times, first


@compiled
def messages_for(world: World, first_acker: int, ackers: int) -> tuple[Indices, Floats, Counters]:
    """Return the messages to ackers in the same way."""
    many = world.counters[MESSAGES]
    first = np.zeros(ackers + 1, np.int64)
    for item in range(many):
        first[world.messages[item]["acker"] - first_acker + 1] += 1
    first = np.cumsum(first)
    items, times = np.empty(many, np.int32), np.empty(many, np.float64)
    at = first.copy()
    for item in range(many):
        acker = world.messages[item]["acker"] - first_acker
        items[at[acker]] = item
        times[at[acker]] = world.messages[item]["queued"]
        at[acker] += 1
    return items, times, first


@compiled_bare
def run_spout(world: World, executor: int) -> None:
    """Let a spout executor emit all of its messages."""
    e = world.executors[executor]
    while True:
        time = seek(world, executor)
        if time == INF:
            break
        item = int(e["item"])
        cpu, length = demand(world, executor, item)
        e["free"] = time + length
        work(world, executor, time, e["free"], cpu)
        serve(world, executor, item, e["free"])


@compiled_bare
def run_executor(world: World, executor: int, items: Indices) -> None:
    """Serve an executor's whole queue, in this order; what never comes is at its end."""
    e = world.executors[executor]
    for at in range(items.size):
        item = int(items[at])
        queued = world.messages[item]["queued"] if e["kind"] == ACKER else world.visits[item]["queued"]
        if queued == INF:
            break
        if batched(world):
            wait_for(world, executor, queued)
        received = look(e["free"], queued, e["idle"])
        cpu, length = demand(world, executor, item)
        begin(world, executor, item, received, cpu)
        served = received + length
        if e["kind"] == TIME_WINDOW:
            tick_until(world, executor, served)
        free = served + serve(world, executor, item, served)
        conclude(world, executor, item, free)
        work(world, executor, received, free, cpu)
        e["free"] = free
    while world.counters[FULL] == 0:
        ticks = next_tick(world, executor) if e["kind"] == TIME_WINDOW else INF
        if batched(world) and e["parcels"] > 0:
            due = look(e["free"], next_flush(world, executor), e["idle"])
            if due < INF and due <= ticks:
                flush(world, executor, due)
                e["free"] = due
                take_flushes(world, executor, due)
                continue
        if ticks == INF:
            break
        skip_flushes(world, executor, ticks)
        tick_until(world, executor, ticks)


@inlined
def skip_flushes(world: World, executor: int, time: float) -> None:
    """Let an idle executor have taken, at its last look before a time, the flushes that had come by then."""
    e = world.executors[executor]
    last = time
    if e["idle"] > 0.0 and time > e["free"]:
        last = e["free"] + math.floor((time - e["free"]) / e["idle"]) * e["idle"]
    take_flushes(world, executor, last)


@inlined
def wait_for(world: World, executor: int, queued: float) -> None:
    """Let an executor take the flushes that come to its queue before an item does."""
    e = world.executors[executor]
    while e["parcels"] > 0 or e["kind"] == TIME_WINDOW:
        due = next_flush(world, executor)
        if due > queued:
            return
        time = look(e["free"], due, e["idle"])
        if e["kind"] == TIME_WINDOW:
            tick_until(world, executor, time)
        if e["parcels"] > 0:
            flush(world, executor, time)
        e["free"] = time
        take_flushes(world, executor, max(due, min(time, queued)))
    take_flushes(world, executor, queued)


@inlined
def next_tick(world: World, executor: int) -> float:
    """Return when the first of an executor's time windows will do something."""
    e = world.executors[executor]
    first = INF
    for task in range(e["first_task"], e["first_task"] + e["tasks"]):
        if world.tasks[task]["armed"] == 1:
            first = min(first, tick_time(world, task))
    return first


@compiled_bare
def tick_until(world: World, executor: int, time: float) -> None:
    """Let an executor's time windows do what is due until a time, each in its own thread."""
    e = world.executors[executor]
    while world.counters[FULL] == 0:
        due, first = time, NONE
        for task in range(e["first_task"], e["first_task"] + e["tasks"]):
            if world.tasks[task]["armed"] == 1 and tick_time(world, task) <= due:
                due, first = tick_time(world, task), task
        if first == NONE:
            return
        tick(world, first, due)
