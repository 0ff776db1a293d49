"""Readings of this machine while a step is measured: its two clocks, and the use of its CPU time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import psutil

from harness.machine import machine_lock

CLOCK_READINGS = 5
SHARES_LEAST_S = 1.0
"""Shares of less time are of too few ticks: ``/proc/stat`` counts hundredths of a second."""


class CpuTimes(NamedTuple):
    """CPU seconds of all cores since the machine's start, as ``/proc/stat`` has them."""

    busy_s: float
    idle_s: float
    steal_s: float

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.busy_s + self.idle_s + self.steal_s


class CpuShares(NamedTuple):
    """Shares of the machine's CPU time between two readings."""

    busy_pct: float
    steal_pct: float


def shares(before: CpuTimes, after: CpuTimes) -> CpuShares:
    """Return how much of the CPU time was used, and how much its host gave to others.

    Examples
    --------
    >>> shares(CpuTimes(10.0, 80.0, 1.0), CpuTimes(40.0, 90.0, 11.0))
    CpuShares(busy_pct=60.0, steal_pct=20.0)
    """
    total_s = after.total_s - before.total_s
    if total_s <= 0:
        return CpuShares(0.0, 0.0)
    busy, steal = ((a - b) / total_s for a, b in ((after[0], before[0]), (after[2], before[2])))
    return CpuShares(round(100 * busy, 1), round(100 * steal, 1))


class RecentShares:
    """Shares of the machine's CPU time over the last few seconds, read at moments that come anyway.

    Parameters
    ----------
    read : callable
        Returns the machine's CPU times until now.
    seconds : float
        What shares are of; longer where no reading was taken for longer.

    Examples
    --------
    >>> times = iter([CpuTimes(0.0, 0.0, 0.0), CpuTimes(3.0, 7.0, 0.0), CpuTimes(3.0, 16.0, 1.0)])
    >>> recent = RecentShares(lambda: next(times), 5.0)
    >>> [recent.at(0.0), recent.at(5.0), recent.at(10.0)]
    [None, CpuShares(busy_pct=30.0, steal_pct=0.0), CpuShares(busy_pct=0.0, steal_pct=10.0)]
    """

    def __init__(self, read: Callable[[], CpuTimes], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._kept: deque[tuple[float, CpuTimes]] = deque()

    def at(self, now_s: float) -> CpuShares | None:
        """Take a reading, and return the shares until it; None where too little time is known.

        Parameters
        ----------
        now_s : float
            By a clock that is never set.
        """
        self._kept.append((now_s, self._read()))
        while len(self._kept) > 2 and self._kept[1][0] <= now_s - self._seconds:
            self._kept.popleft()
        (since_s, before), (_, after) = self._kept[0], self._kept[-1]
        return shares(before, after) if now_s - since_s >= SHARES_LEAST_S else None


class ThisMachine:
    """The machine that this process runs on (``harness.experiments.contracts.MachineReadings``)."""

    def clock_offset_ns(self) -> int:
        """Return how far the time of day is ahead of the monotonic clock, in ns.

        Several readings are taken, and the one that took least time is returned. A process may be kept from
        its core during a reading, and a busy machine is no reason to take a clock for one that moved.
        """
        readings = []
        for _ in range(CLOCK_READINGS):
            before_ns, epoch_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            readings.append((after_ns - before_ns, epoch_ns - (before_ns + after_ns) // 2))
        return min(readings)[1]

    def cpu_times(self) -> CpuTimes:
        """Return where the CPU time went until now."""
        now = psutil.cpu_times()
        steal_s = getattr(now, "steal", 0.0)  # Linux only
        idle_s = now.idle + getattr(now, "iowait", 0.0)
        # the time of virtual machines that run here is in user and nice already
        guests_s = getattr(now, "guest", 0.0) + getattr(now, "guest_nice", 0.0)
        return CpuTimes(sum(now) - guests_s - idle_s - steal_s, idle_s, steal_s)

    def came_up(self, start_ns: int, end_ns: int) -> list[int]:
        """Return the processes that brought clusters up here in a span of the monotonic clock."""
        return machine_lock.came_up(start_ns, end_ns)
