"""What Storm's windows do with tuples, told again from the sources of 2.8.3 in plain Python, as an oracle.

``WindowManager`` with ``CountTriggerPolicy`` and ``CountEvictionPolicy``, or ``TimeTriggerPolicy`` and
``TimeEvictionPolicy`` on a clock without milliseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.plans import Window

THRESHOLD = 100


@dataclass
class Outcome:
    """When each tuple was in a window for the first time, and when it expired; None while it has not."""

    windows: list[tuple[float, list[int]]] = field(default_factory=list)
    first: dict[int, float] = field(default_factory=dict)
    expired: dict[int, float] = field(default_factory=dict)

    def fire(self, time: float, members: Sequence[int]) -> None:
        self.windows.append((time, list(members)))
        for member in members:
            self.first.setdefault(member, time)


def count_windows(window: Window, times: Sequence[float]) -> Outcome:
    """Tuples 0, 1, 2 ... come at these times."""
    found, queue = Outcome(), deque[int]()
    eviction_count = trigger_count = since_expiry = 0
    for tuple_, time in enumerate(times):
        queue.append(tuple_)
        eviction_count += 1
        trigger_count += 1
        fires = trigger_count >= window.slide
        if fires:
            trigger_count = since_expiry = 0
        since_expiry += 1
        if fires or since_expiry >= THRESHOLD:
            while eviction_count > window.length:
                eviction_count -= 1
                found.expired[queue.popleft()] = time
        if fires:
            found.fire(time, queue)
        elif since_expiry >= THRESHOLD:
            since_expiry = 0
    return found


def time_windows(window: Window, times: Sequence[float], phase: float, until: float) -> Outcome:
    """The same; the clock ticks at ``phase`` and then every slide."""
    found, queue = Outcome(), deque[int]()
    waiting = deque(enumerate(times))
    for tick in range(math.ceil((until - phase) / window.slide)):
        now = phase + tick * window.slide
        while waiting and waiting[0][1] <= now:
            queue.append(waiting.popleft()[0])
        while queue and now - times[queue[0]] >= window.length:
            found.expired[queue.popleft()] = now
        if queue:
            found.fire(now, queue)
    return found
