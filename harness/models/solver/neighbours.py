"""Latencies of a solved network after one executor's move, without solving the network again.

A seat s is an executor's queue, or a window's task. It has three characteristic functions: a_s of the rows
that come there, T_s of their stay (wait, service, a window's wait), and b_s of the way on to a sink. A sink's
rows are sum a_s T_s b_s over the seats of any one component on the way, whatever is beyond. So

- the rows that the moved executor's seats send to a sink are known exactly from a, b of all others, wherever
  that executor is;
- a change of T_s changes the sum by a_s dT_s b_s, of first order also where many change at once.

The moved executor's targets wait otherwise, too, as another hop blurs their arrivals; each change is taken by
itself. Neglected are products of changes, and the effect of slower executors on the variability of others'
arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.network import Network
from harness.models.solver.around import Around, look_around
from harness.models.solver.forward_spectra import spectra
from harness.models.solver.groups import first_seats
from harness.models.solver.one_move import Move, OnGrid, Slowed, add_move
from harness.models.solver.service import service
from harness.models.solver.solve import Latency, Solution, latencies, solve
from harness.models.solver.spectrum import ComplexArray
from harness.models.solver.stages import Stages
from harness.models.solver.variability import SCALES_MS

_SLOWER = 1e-3
"""Relative change of contention from which derivatives are taken."""
_ALIKE = 1e-6
"""Relative change of contention up to which executors of one component and host are taken alike."""
_LEAST = 2e-4
"""Change of another executor's wait that is looked at, over the least mean latency of a sink."""
_NEAR = 3e-3
"""Frequency that changes of means are told from, times the span."""


@dataclass(frozen=True)
class Neighbours:
    """The latencies of plans that differ from a solved one by one executor's place.

    Attributes
    ----------
    solution : Solution
        Without batches, and steady.
    names : tuple of str
        Sinks that rows come to.
    span : float
        Of the grid, ms.
    least_ms : float
        Changes of other executors' waits that are looked at.
    means : array (latencies)
        What the solution's mean latencies, ms, whole and by sink, are more than the second grid says.
    grids : tuple of Around
        For percentiles, and for means.
    total : tuple of array (sinks, frequencies)
        What comes to sinks, by grid.
    others : tuple of array (networks, sinks, frequencies)
        By how much other networks differ from that.
    """

    solution: Solution
    names: tuple[str, ...]
    span: float
    least_ms: float
    means: FloatArray
    grids: tuple[Around, Around]
    total: tuple[ComplexArray, ComplexArray]
    others: tuple[ComplexArray, ComplexArray]

    @property
    def point_ms(self) -> float:
        """Time that percentiles are told apart by."""
        return self.span / self.solution.frequencies

    def loads(self, slow: FloatArray) -> FloatArray:
        """Return the load of each executor and acker where contention slows them so much."""
        own = self.solution
        return own.loads + own.contention.cores * (slow - own.service.slow)

    def latencies(
        self, executor: int, worker: int, slow: FloatArray, shares: FloatArray
    ) -> dict[str, Latency]:
        """Return the ground-truth latency, whole (key empty) and by sink, with an executor in another worker.

        Parameters
        ----------
        executor, worker : int
            Position of the executor and number of the worker.
        slow : array (executors and ackers)
            What contention slows them by then.
        shares : array (networks)
            How much of each of the ``others`` there is in the change.
        """
        own, net = self.solution, self.solution.flat
        slower = np.log(slow[: net.first_acker] / own.service.slow[: net.first_acker])
        slower[executor : executor + 1] = 0.0  # the moved one's own part is not of first order
        group = self.grids[0].group
        common = np.bincount(group, weights=slower) / np.maximum(np.bincount(group), 1)
        slower -= common[group]
        slower[np.abs(slower) < _ALIKE] = 0.0
        times = own.service
        times = times._replace(
            slow=slow, cell=times.cell.copy(), hold=times.hold.copy(), load=times.load.copy()
        )
        stages = Stages(net, own.rates, times, own.flow._replace(law=own.flow.law.copy()))
        index = own.flow.arrivals[executor : executor + 1].copy()
        cf, near = (
            total + _sum_of(shares, more) for total, more in zip(self.total, self.others, strict=True)
        )
        grids = OnGrid(self.grids[0], cf), OnGrid(self.grids[1], near)
        add_move(stages, Move(executor, worker), Slowed(common, slower), index, grids, self.least_ms)
        cf, near = _with_whole(cf), _with_whole(near)
        means = self.means + _slopes(near) / self.grids[1].step
        return latencies(self.names, cf / cf[:, :1].real, self.span, means)


def neighbours(solution: Solution, networks: Sequence[Network]) -> Neighbours:
    """Return what is linear around a solution.

    Parameters
    ----------
    solution : Solution
        Without batches.
    networks : sequence of Network
        Of the same plan, each with a small change of what is not of one executor.

    Raises
    ------
    Saturated
        When something is overloaded.
    ModelDeclined
        When no row comes to a sink.
    """
    at, span = solution.ends
    ends = [c for c, _ in at.values()]
    net, size = solution.flat, solution.frequencies
    sink = np.full(net.components.size - 1, -1)
    sink[ends] = np.arange(len(at))
    slow = service(net, solution.rates, solution.service.slow * (1 + _SLOWER))
    laws = solution.flow._replace(law=solution.flow.law.copy())
    slower = Stages(net, solution.rates, slow, laws)
    changed = [solve(n, size) for n in networks]
    everywhere = np.ones(net.first_acker)
    grids, totals, others = [], [], []
    for number, length in ((size, span), (2, span * np.pi / _NEAR)):
        around = _nothing(solution, np.pi / length, sink, number)
        total = np.zeros((len(at), number), dtype=np.complex128)
        look_around(solution.stages, slower, float(np.log1p(_SLOWER)), everywhere, around, total)
        cf = [spectra(s.stages, everywhere, number, length)[ends] for s in changed]
        grids.append(around)
        totals.append(total)
        others.append(np.array(cf).reshape(len(cf), *total.shape) - total)
    means = np.array([found.mean_ms for found in solution.ground_truth().values()])
    least_ms = _LEAST * float(means.min())
    means -= _slopes(_with_whole(totals[1])) / grids[1].step
    return Neighbours(
        solution=solution,
        names=tuple(at),
        span=span,
        least_ms=least_ms,
        means=means,
        grids=(grids[0], grids[1]),
        total=(totals[0], totals[1]),
        others=(others[0], others[1]),
    )


def _sum_of(shares: FloatArray, more: ComplexArray) -> ComplexArray:
    """Return so much of each of several; as a product of matrices it would take longer."""
    found = np.zeros(more.shape[1:], dtype=np.complex128)
    for share, one in zip(shares.tolist(), more, strict=True):
        found += share * one
    return found


def _with_whole(rows: ComplexArray) -> ComplexArray:
    """Put the sum over sinks before what comes to each."""
    return np.vstack([rows.sum(axis=0), rows])


def _slopes(near: ComplexArray) -> FloatArray:
    """Return means, times the step, of what is known at frequencies next to 0."""
    return np.asarray(near[:, 1].imag / near[:, 0].real)


def _nothing(solution: Solution, step: float, sink: IntArray, size: int) -> Around:
    net, seats = solution.flat, first_seats(solution.flat)
    group = (
        np.repeat(np.arange(sink.size), np.diff(net.components["first_executor"])) * net.hosts.size
        + net.executors["host"][: net.first_acker]
    )
    sinks, streams, workers = int(sink.max()) + 1, net.streams.size - 1, net.kind_between.shape[0]

    def zeros(*shape: int) -> ComplexArray:
        return np.zeros((*shape, size), dtype=np.complex128)

    return Around(
        step=float(step),
        first_seat=seats,
        sink=sink,
        fade=np.zeros((net.first_hop.size - 1, SCALES_MS.size)),
        hops=zeros(net.first_hop.size - 1),
        ports=zeros(net.outputs["first_port"][-1]),
        seats=zeros(sinks, seats[-1]),
        whole=zeros(sinks, net.first_acker),
        slope=zeros(sinks, net.first_acker),
        group=group,
        together=zeros(sinks, int(group.max()) + 1),
        come=zeros(streams, workers),
        go=zeros(sinks, streams, workers),
    )
