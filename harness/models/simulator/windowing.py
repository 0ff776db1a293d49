"""Windows of a task, as Storm's ``WindowManager`` keeps them (storm-client 2.8.3).

A count window looks at its tuples when the ``slide``-th since the last firing has come, and beside that, to
keep short, at every 100th arrival since it looked last. A look expires the oldest until ``length`` are
left. A time window looks at its own clock's ticks, ``slide`` apart, expires what came ``length`` ago and
fires unless that leaves nothing. A tuple is acked when it expires. A time window's looks are made by a
thread of the task's own, so its firing costs the executor nothing.
"""

from __future__ import annotations

import math

from harness.models.simulator.compiled import inlined
from harness.models.simulator.kinds import ANCHORS, FIRINGS, FULL, NONE, Emitter, World
from harness.models.simulator.sending import ack, emit

SCAN_AFTER = 100
"""``EXPIRE_EVENTS_THRESHOLD`` of ``WindowManager``."""


@inlined
def anchor(world: World, root: int, firing: int) -> None:
    """Count a message among those that a firing comes from, once."""
    if world.roots[root]["stamp"] == firing:
        return
    world.roots[root]["stamp"] = firing
    at = world.counters[ANCHORS]
    if at >= world.anchors.size:
        world.counters[FULL] = 1
        return
    world.anchors[at] = root
    world.counters[ANCHORS] = at + 1


@inlined
def fire(world: World, task: int, time: float) -> int:
    """Make a window of all members that have come by now; return its firing, or ``NONE``: no room."""
    firing = world.counters[FIRINGS]
    if firing >= world.firings.size:
        world.counters[FULL] = 1
        return NONE
    world.counters[FIRINGS] = firing + 1
    owner, made = world.tasks[task], world.firings[firing]
    member, fresh = owner["fresh"], 0
    made["first"] = member
    while member != NONE and world.visits[member]["served"] <= time:
        world.visits[member]["emitted"] = time
        fresh += 1
        member = world.visits[member]["link"]
    owner["fresh"] = member
    end = member
    made["time"] = time
    made["task"] = task
    made["fresh"] = fresh
    made["anchors"] = world.counters[ANCHORS]
    if world.ackers[1] > 0:
        member = owner["head"]
        while member != end:
            root = world.visits[member]["root"]
            first, last = 0, 1
            if root < 0:
                first, last = world.firings[~root]["anchors"], world.firings[~root]["end"]
            for i in range(first, last):
                anchor(world, int(root if root >= 0 else world.anchors[i]), firing)
            member = world.visits[member]["link"]
    made["end"] = world.counters[ANCHORS]
    return int(firing)


@inlined
def expire(world: World, draws: int, task: int, time: float) -> None:
    """Let a window's oldest tuple go, and ack it."""
    owner = world.tasks[task]
    member = owner["head"]
    owner["head"] = world.visits[member]["link"]
    owner["held"] -= 1
    if owner["head"] == NONE:
        owner["tail"] = NONE
    world.visits[member]["expired"] = time
    if world.ackers[1] > 0:
        ack(world, Emitter(int(owner["executor"]), draws), int(member), time)


@inlined
def append(world: World, task: int, member: int) -> None:
    """Add the newest tuple."""
    owner = world.tasks[task]
    if owner["tail"] == NONE:
        owner["head"] = member
    else:
        world.visits[owner["tail"]]["link"] = member
    owner["tail"] = member
    world.visits[member]["link"] = NONE
    owner["held"] += 1
    if owner["fresh"] == NONE:
        owner["fresh"] = member


@inlined
def join_count_window(world: World, task: int, member: int, time: float) -> int:
    """Add a tuple to a count window; return the firing that it brings about, or ``NONE``."""
    append(world, task, member)
    owner = world.tasks[task]
    component = world.components[owner["component"]]
    owner["since_firing"] += 1
    owner["since_scan"] += 1
    fires = owner["since_firing"] >= component["slide"]
    if not fires and owner["since_scan"] < SCAN_AFTER:
        return NONE
    while owner["held"] > component["length"]:
        expire(world, int(owner["executor"]), task, time)
    owner["since_scan"] = 0
    if not fires:
        return NONE
    owner["since_firing"] = 0
    owner["since_scan"] = 1  # the arrival that brings about a firing is counted after it
    return fire(world, task, time)


@inlined
def tick_time(world: World, task: int) -> float:
    """Return the time of the tick that a time window waits for."""
    owner = world.tasks[task]
    return float(owner["phase"] + owner["tick"] * world.components[owner["component"]]["slide"])


@inlined
def join_time_window(world: World, task: int, member: int, time: float) -> bool:
    """Add a tuple to a time window; return whether it was empty, so that it now waits for its next tick."""
    append(world, task, member)
    owner = world.tasks[task]
    if owner["armed"] == 1:
        return False
    slide = world.components[owner["component"]]["slide"]
    owner["armed"] = 1
    owner["tick"] = math.ceil((time - owner["phase"]) / slide)
    return True


@inlined
def tick(world: World, task: int, time: float) -> bool:
    """Let a time window do what is due, in a thread of its own; return whether it waits for another tick."""
    owner = world.tasks[task]
    draws = world.executors.size + task
    component = world.components[owner["component"]]
    while owner["head"] != NONE and time - world.visits[owner["head"]]["served"] >= component["length"]:
        expire(world, draws, task, time)
    if owner["head"] == NONE:
        owner["armed"] = 0
        return False
    firing = fire(world, task, time)
    if firing != NONE:
        fan, fans = int(component["fan"]), int(component["fans"])
        emit(world, Emitter(int(owner["executor"]), draws), fan, fans, ~firing, ~firing, time)
    owner["tick"] += 1
    return True
