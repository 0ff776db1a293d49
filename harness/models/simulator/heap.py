"""The event heap: earliest first, and in the order in which they were made where times are equal."""

from __future__ import annotations

from harness.models.simulator.compiled import inlined, inner
from harness.models.simulator.kinds import (
    ALIVE,
    CORE,
    EVENT_NUMBER,
    EVENTS,
    FULL,
    Counters,
    Floats,
    World,
)

SUBJECTS = 2**32
"""An event's code is its kind times this, and its subject."""


@inlined
def before(times: Floats, numbers: Counters, place: int, other: int) -> bool:
    """Return True if the event at place ``place`` comes before the one at ``other``."""
    return bool(
        times[place] < times[other] or (times[place] == times[other] and numbers[place] < numbers[other])
    )


@inlined
def move(times: Floats, numbers: Counters, codes: Counters, origin: int, place: int) -> None:
    """Copy the event at place ``origin`` to ``place``."""
    times[place] = times[origin]
    numbers[place] = numbers[origin]
    codes[place] = codes[origin]


@inner
def insert(
    times: Floats, numbers: Counters, codes: Counters, counters: Counters, time: float, code: int
) -> None:
    """Add an event to the heap; of equal times it is the last."""
    at = counters[EVENTS]
    if at >= times.size:
        counters[FULL] = 1
        return
    counters[EVENTS] = at + 1
    while at > 0:
        above = (at - 1) // 2
        if time >= times[above]:
            break
        move(times, numbers, codes, above, at)
        at = above
    times[at] = time
    numbers[at] = counters[EVENT_NUMBER]
    codes[at] = code
    counters[EVENT_NUMBER] += 1


@inner
def remove(times: Floats, numbers: Counters, codes: Counters, size: int) -> None:
    """Remove the first event, so that ``size`` are left: the last one finds its place from the top."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(times, numbers, child + 1, child):
            child += 1
        if not before(times, numbers, child, size):
            break
        move(times, numbers, codes, child, at)
        at = child
    move(times, numbers, codes, size, at)


@inlined
def push(world: World, time: float, kind: int, subject: int) -> None:
    """Make an event. Cores and other work only go on as long as something else does."""
    code = kind * SUBJECTS + subject
    if kind < CORE:
        world.counters[ALIVE] += 1
    insert(world.event_times, world.event_numbers, world.event_codes, world.counters, time, code)


@inlined
def pop(world: World) -> tuple[float, int, int]:
    """Take the first event: time, kind and subject. There has to be one."""
    time, code = world.event_times[0], world.event_codes[0]
    world.counters[EVENTS] -= 1
    remove(world.event_times, world.event_numbers, world.event_codes, world.counters[EVENTS])
    kind = code // SUBJECTS
    if kind < CORE:
        world.counters[ALIVE] -= 1
    return time, kind, code % SUBJECTS
