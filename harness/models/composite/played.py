"""Plans whose tuples travel in batches of the rewriting layer: rates and loads solved, latencies played.

How long a tuple waits for its batch depends on how the batch before filled, and its rows come to the next
queue together. The solver has no law for either, so the simulator plays the same network, from a fixed seed.
What batches have no part in is the solver's: rates, services, contention, loads, capacity.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.simulated import NOT_ACKED_ALONE, VISITS, play_long_enough
from harness.models.contract.layout import BoolArray, FloatArray, IntArray
from harness.models.network import Network
from harness.models.simulator.loads import loads
from harness.models.simulator.simulation import SimulatedRun
from harness.models.solver.solve import LEVELS, Latency, Solution, solve

FEWER_VISITS = 60_000
"""Services that are simulated where fewer frequencies would do: of replicates, which are compared."""


@dataclass(frozen=True)
class PlayedSolution(Solution):
    """Answers for a network with batches of the rewriting layer."""

    reason: ClassVar[str] = "simulated from a fixed seed: tuples travel in batches"

    @cached_property
    def run(self) -> SimulatedRun:
        """The network, played without acks.

        Raises
        ------
        Saturated
            When something is overloaded.
        """
        self.require_steady()
        expected = loads(replace(self.network, acks=False))
        return play_long_enough(expected, VISITS if self.size is None else FEWER_VISITS)

    def ground_truth(self, through: FloatArray | None = None) -> dict[str, Latency]:
        """Return the ground-truth latency of all rows (key empty) and by sink; as ``Solution.ground_truth``.

        Raises
        ------
        Saturated, ModelDeclined
            As there.
        """
        run, mine = self.run, self._rows_through(through)
        latency_ms, sink = run.all_latencies.ground_truth_ms[mine], run.all_latencies.sink[mine]
        if not latency_ms.size:
            raise ModelDeclined("no row came to a sink that way in the simulated time")
        order = self.network.layout.order
        found = {"": _latency(latency_ms)}
        return found | {order[c]: _latency(latency_ms[sink == c]) for c in np.unique(sink)}

    def complete_mean_ms(self) -> dict[str, float]:
        """Decline: a batch is acked as a whole.

        Raises
        ------
        ModelDeclined
            Always.
        """
        raise ModelDeclined(NOT_ACKED_ALONE)

    def ack(self) -> dict[str, Latency]:
        """Decline: a batch is acked as a whole.

        Raises
        ------
        ModelDeclined
            Always.
        """
        raise ModelDeclined(NOT_ACKED_ALONE)

    def stage_means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return means over the rows of components, in ms; as ``Solution.stage_means``."""
        run, layout = self.run, self.network.layout
        steps, first = self._steps()
        last = np.zeros(steps.size, dtype=np.bool_)
        last[first[1:] - 1] = True
        here = np.flatnonzero(~last)  # each hop: from one of these to the one behind it
        visits = run.visits
        component = run.world.tasks["component"][visits["task"][steps]]
        emitted, received = visits["emitted"][steps], visits["received"][steps]
        waits: dict[str, float] = {}
        holds: dict[str, float] = {}
        for number, name in enumerate(layout.order):
            into = here[component[here + 1] == number]
            if into.size:
                waits[name] = float((received[into + 1] - emitted[into]).mean())
            out = np.flatnonzero(component == number)
            if name in self.network.windows and out.size:
                holds[name] = float((emitted[out] - received[out]).mean())
        return waits, holds

    def _steps(self) -> tuple[IntArray, IntArray]:
        """Return the visits of the interval's rows, one row behind the other, and where each begins."""
        run, mine = self.run, self._rows_through(None)
        steps, first = run.paths.visits, run.paths.first
        size = np.diff(first)
        here = steps[np.repeat(mine, size)].astype(np.int64)
        return here, np.concatenate([[0], np.cumsum(size[mine])])

    def _rows_through(self, through: FloatArray | None) -> BoolArray:
        """Return which rows belong to the interval and pass only executors with a share."""
        run = self.run
        mine = run.in_interval[run.all_latencies.message]
        if through is None or not mine.any():
            return np.asarray(mine)
        steps, first = run.paths.visits, run.paths.first
        passed = through[run.world.tasks["executor"][run.visits["task"][steps]]] > 0
        return np.asarray(mine & np.logical_and.reduceat(passed, first[:-1]))


def answered(network: Network, size: int | None = None) -> Solution:
    """Solve a network; play the part that is not solved.

    Parameters
    ----------
    network : Network
    size : int, optional
        Frequencies of ``solve``; where latencies are played, they are played for a shorter time with any.

    Raises
    ------
    ModelDeclined
        When the network is not in order.
    """
    if not network.row_batches:
        return solve(network, size)
    alone = solve(replace(network, row_batches={}), size)
    known = {f.name: getattr(alone, f.name) for f in fields(alone)}
    return PlayedSolution(**{**known, "network": network})


def _latency(values_ms: FloatArray) -> Latency:
    return Latency(float(values_ms.mean()), np.quantile(values_ms, list(LEVELS.values())))
