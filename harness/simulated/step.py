"""One step of a simulated run: the messages sent until now, and what the simulator made of them.

The simulation goes ahead of the virtual clock: it is played until some time later than now, and what is told
of it ends now. When the clock passes that time, or when the load stops, it is played again with more
messages or fewer; all that happened before the first message added or left out stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from harness.experiments.schedule import NS_PER_S, Schedule
from harness.models.layout import FloatArray, IntArray
from harness.models.network import Network
from harness.models.simulator.messages import Messages
from harness.models.simulator.simulation import SimulatedRun, simulate_messages
from harness.simulated.networks import FETCH_MS

FIRST_HORIZON_S = 60.0
"""How far ahead of its start a step is played at first."""
PARTITIONS = 16


@dataclass(frozen=True)
class Played:
    """A simulation of a step, and the messages that it is of.

    Attributes
    ----------
    offsets_ns : array of int64
        When each message is sent, after the step's start.
    run : SimulatedRun
        Its messages name these by ``given``.
    """

    offsets_ns: IntArray
    run: SimulatedRun

    def ns(self, times_ms: FloatArray) -> IntArray:
        """Return times of the simulation as nanoseconds after the step's start; they have to be numbers."""
        return np.rint(times_ms * 1e6).astype(np.int64)


class SimulatedStep:
    """A topology under load on a plan.

    Parameters
    ----------
    network : Network
    schedule : Schedule
        When messages are sent, after the start.
    first : int
        The schedule's first message of this step.
    start_ns : int
        When it starts, by the virtual clock.
    seed : int
    """

    def __init__(self, network: Network, schedule: Schedule, first: int, start_ns: int, seed: int) -> None:
        self.network = network
        self.start_ns = start_ns
        self._schedule = schedule
        self._first = first
        self._seed = seed
        self._stopped_ns: int | None = None
        self._horizon_ns = round(FIRST_HORIZON_S * NS_PER_S)
        self._played: Played | None = None

    def stop(self, now_ns: int) -> None:
        """Send nothing any more."""
        if self._stopped_ns is None:
            self._stopped_ns = now_ns - self.start_ns
            self._played = None

    def at(self, now_ns: int) -> Played:
        """Return a simulation that is true until now."""
        elapsed = now_ns - self.start_ns
        if self._stopped_ns is None and elapsed >= self._horizon_ns:
            self._horizon_ns = 2 * elapsed
            self._played = None
        if self._played is None:
            until = self._horizon_ns if self._stopped_ns is None else self._stopped_ns
            self._played = self._play(until)
        return self._played

    def _play(self, until_ns: int) -> Played:
        offsets = sent_until(self._schedule, self._first, until_ns)
        spouts = [self.network.layout.tasks[s] for s in self.network.input_tps]
        tasks = spouts[0]
        number = self._first + np.arange(offsets.size)
        # task i of n reads the partitions i, i + n, ...
        task = tasks[number % PARTITIONS % tasks.size]
        due_ms = offsets / 1e6 + FETCH_MS
        run = simulate_messages(
            self.network, Messages(due_ms, task), (0.0, until_ns / 1e6 + 1), self._seed, horizon_free=True
        )
        return Played(offsets, run)


def sent_until(schedule: Schedule, first: int, until_ns: int) -> IntArray:
    """Return the offsets of the messages from ``first`` on that are due before a time after the first's start.

    A schedule that goes on from an earlier step is moved so that it begins now.
    """
    base = 0
    if first:
        head = next(iter(schedule.chunks(first - 1)), np.zeros(1, dtype=np.int64))
        base = int(head[0])
    parts: list[IntArray] = []
    for chunk in schedule.chunks(first):
        parts.append(chunk[chunk - base < until_ns] - base)
        if chunk.size == 0 or chunk[-1] - base >= until_ns:
            break
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


__all__ = ["Callable", "Played", "SimulatedStep", "islice", "sent_until"]
