"""Parts that the stages of a tree's ack share: routing of tuples, an ack's way, and the times so far.

A *seat* is a place where a group of siblings stays together: an executor, or a task where it holds windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.cdf import to_cdf
from harness.models.solver.compiled import compiled, inlined
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray, Grid, add_hop
from harness.models.solver.stages import Stages


class Way(NamedTuple):
    """The way of an ack from each worker to an acker, all ackers alike.

    Attributes
    ----------
    of : array (executors)
        Numbers of ways.
    cf : array (ways, frequencies)
    cdf : array (ways, points)
    mean_ms : array (ways)
    """

    of: IntArray
    cf: ComplexArray
    cdf: FloatArray
    mean_ms: FloatArray


class Back(NamedTuple):
    """Times known so far on the way back from the acks.

    Attributes
    ----------
    stages : Stages
    grid, span
    first_seat, sizes : array (classes + 1), array (seats)
        Seats by class, and the mean size of a group there (``groups``).
    way : Way
    hops : array (kinds, frequencies)
    rest : array (seats, frequencies)
        From a group's arrival at the seat's queue until its last ack comes to the acker.
    rest_mean : array (seats)
    """

    stages: Stages
    grid: Grid
    span: float
    first_seat: IntArray
    sizes: FloatArray
    way: Way
    hops: ComplexArray
    rest: ComplexArray
    rest_mean: FloatArray


def back(stages: Stages, grid: Grid, span: float, first_seat: IntArray, sizes: FloatArray) -> Back:
    """Return what is known at first: hops and the ways of acks."""
    net = stages.net
    hops = np.zeros((net.first_hop.size - 1, grid.size), dtype=np.complex128)
    _hop_spectra(net, np.pi / span, hops)
    workers = net.executors["worker"]
    kinds = net.kind_between[:, workers[net.first_acker :]]
    share = np.stack([(kinds == kind).mean(axis=1) for kind in range(hops.shape[0])], axis=1)
    cf, mean_ms = share @ hops, share @ stages.service.hop[:, 0]
    cdf = np.zeros((len(cf), grid.points.size))
    _distributions(cf, grid, cdf)
    seats = int(first_seat[-1])
    rest = np.zeros((seats, grid.size), dtype=np.complex128)
    way = Way(workers[: net.first_acker], cf, cdf, mean_ms)
    return Back(stages, grid, span, first_seat, sizes, way, hops, rest, np.zeros(seats))


@compiled
def _distributions(cf: ComplexArray, grid: Grid, found: FloatArray) -> None:
    for way in range(found.shape[0]):
        found[way] = to_cdf(cf[way], grid)


@compiled
def _hop_spectra(net: Flat, step: float, found: ComplexArray) -> None:
    for kind in range(found.shape[0]):
        add_hop(net, kind, step, found[kind])


@inlined
def lone(net: Flat, fan: int, size: float) -> bool:
    """Return True if a group makes no more than one tuple on an output."""
    return net.first_fan[fan + 1] - net.first_fan[fan] <= 2 and size < 1.02
