"""Plans whose tuples travel in batches, Storm's or the rewriting layer's: loads solved, latencies played.

How long a tuple waits for its batch depends on how the batch before filled, and its rows come to the next
queue together. The solver has no law for either, so the simulator plays the same network, from a fixed seed.
What batches have no part in is the solver's: rates, services, contention, loads, capacity. Acks fill Storm's
batches, too, and are played with the tuples; a batch of the rewriting layer is acked as a whole, which no
model has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.simulated import (
    NOT_ACKED_ALONE,
    VISITS,
    by_spout,
    play_long_enough,
    same_node_ms,
    services_played,
)
from harness.models.contract.layout import BoolArray, FloatArray, IntArray
from harness.models.network import Network
from harness.models.simulator.loads import Loads, loads
from harness.models.simulator.simulation import SimulatedRun
from harness.models.solver.solve import Latency, Solution, solve
from harness.schemas import PERCENTILES

FEWER_VISITS = 60_000
"""Services that are simulated where fewer frequencies would do: of replicates, which are compared."""


@dataclass(frozen=True)
class PlayedSolution(Solution):
    """Answers for a network with batches."""

    reason: ClassVar[str] = "simulated from a fixed seed: tuples travel in batches"

    @cached_property
    def run(self) -> SimulatedRun:
        """The network, played; without acks where batches of the rewriting layer are.

        Raises
        ------
        Saturated
            When something is overloaded.
        """
        self.require_steady()
        return play_long_enough(self._expected, self._visits)

    @property
    def services(self) -> float:
        """Services that are played for a latency."""
        return services_played(self._expected, self._visits)

    @cached_property
    def _expected(self) -> Loads:
        acks = self.network.acks and not self.network.row_batches
        return loads(replace(self.network, acks=acks))

    @property
    def _visits(self) -> int:
        return VISITS if self.size is None else FEWER_VISITS

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
        """Return the mean complete latency; as ``Solution.complete_mean_ms``.

        Raises
        ------
        Saturated, ModelDeclined
            As there, and where batches of the rewriting layer are acked as a whole.
        """
        run = self._acked()
        return {name: float(v.mean()) for name, v in by_spout(run, run.complete_latency_ms).items()}

    def ack(self) -> dict[str, Latency]:
        """Return the time from emit to ack at the spout; as ``Solution.ack``.

        Raises
        ------
        Saturated, ModelDeclined
            As ``complete_mean_ms``.
        """
        run = self._acked()
        return {name: _latency(v) for name, v in by_spout(run, run.ack_latency_ms).items()}

    def same_node_mean_ms(self) -> float:
        """Return the mean over rows that begin and end on one worker node; as ``Solution`` does.

        Raises
        ------
        Saturated, ModelDeclined
            As there.
        """
        cut_ms = self.complete_mean_ms()[""]
        values_ms = same_node_ms(self.run)
        if not values_ms.size:
            raise ModelDeclined("no path begins and ends on one worker node")
        below_ms = values_ms[values_ms < cut_ms]
        if not below_ms.size:
            raise ModelDeclined(f"no path within one worker node is below the cut of {cut_ms:.3g} ms")
        return float(below_ms.mean())

    def _acked(self) -> SimulatedRun:
        if self.network.row_batches:
            raise ModelDeclined(NOT_ACKED_ALONE)
        self.require_acked()
        return self.run

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
    if not network.batched:
        return solve(network, size)
    alone = solve(replace(network, row_batches={}, batch=1, transfer_batch=1, flush_ms=0.0), size)
    known = {f.name: getattr(alone, f.name) for f in fields(alone)}
    return PlayedSolution(**{**known, "network": network})


def _latency(values_ms: FloatArray) -> Latency:
    return Latency(float(values_ms.mean()), np.quantile(values_ms, list(PERCENTILES.values())))
