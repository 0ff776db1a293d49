"""What the stages of a tree's ack share: where tuples go, an ack's way, and what is known so far.

A *seat* is a place where a group of siblings stays together: an executor, or a task where it holds windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.analytic.compiled import compiled, inlined, inner
from harness.models.analytic.forward import Stages
from harness.models.analytic.rates import TUPLES
from harness.models.analytic.records import Flat
from harness.models.analytic.spectrum import ComplexArray, Grid, add_atoms
from harness.models.analytic.structure import COUNT_WINDOW
from harness.models.layout import FloatArray, IntArray


class Way(NamedTuple):
    """The way of an ack from each worker to an acker, all ackers alike.

    Attributes
    ----------
    cf : array (workers, frequencies)
    cdf : array (workers, points)
    mean_ms : array (workers)
    """

    cf: ComplexArray
    cdf: FloatArray
    mean_ms: FloatArray


class Back(NamedTuple):
    """What is known on the way back from the acks.

    Attributes
    ----------
    g : Stages
    grid, span
    first_seat, sizes : array (classes + 1), array (seats)
        Seats by class, and the mean size of a group there (``groups``).
    way : Way
    hops : array (kinds, frequencies)
    rest : array (seats, frequencies)
        From a group's arrival at the seat's queue until its last ack comes to the acker.
    rest_mean : array (seats)
    """

    g: Stages
    grid: Grid
    span: float
    first_seat: IntArray
    sizes: FloatArray
    way: Way
    hops: ComplexArray
    rest: ComplexArray
    rest_mean: FloatArray


def back(g: Stages, grid: Grid, span: float, first_seat: IntArray, sizes: FloatArray) -> Back:
    """Return what is known at first: hops and the ways of acks."""
    f = g.f
    hops = np.zeros((f.first_hop.size - 1, grid.size), dtype=np.complex128)
    _hop_spectra(f, np.pi / span, hops)
    kinds = f.kind_between[:, f.executor["worker"][f.first_acker :]]
    share = np.stack([(kinds == kind).mean(axis=1) for kind in range(hops.shape[0])], axis=1)
    cf = share @ hops
    cdf = np.maximum.accumulate(np.clip(np.ascontiguousarray(cf.real) @ grid.to_cdf, 0, 1), axis=1)
    seats = int(first_seat[-1])
    rest = np.zeros((seats, grid.size), dtype=np.complex128)
    way = Way(cf, cdf, share @ g.s.hop[:, 0])
    return Back(g, grid, span, first_seat, sizes, way, hops, rest, np.zeros(seats))


@compiled
def _hop_spectra(f: Flat, step: float, found: ComplexArray) -> None:
    for kind in range(found.shape[0]):
        add_atoms(f.atom, f.first_hop[kind], f.first_hop[kind + 1], 1.0, step, found[kind])


@inlined
def chance(f: Flat, first_seat: IntArray, stream: int, i: int, j: int) -> float:
    """Return the probability that a tuple of the source's executor i goes to the target's seat j."""
    s = f.stream[stream]
    seats = first_seat[s.klass + 1] - first_seat[s.klass]
    if f.component[s.target].kind >= COUNT_WINDOW:
        return float(f.route[s.first_route + i * seats + j])
    return float(f.share[s.first_share + i * seats + j])


@inlined
def kind_of(f: Flat, stream: int, i: int, j: int) -> int:
    """Return the kind of hop from the source's executor i to the target's seat j."""
    s = f.stream[stream]
    source, target = f.component[s.source], f.component[s.target]
    at = f.task[target.first_task + j].executor if target.kind >= COUNT_WINDOW else j
    here, there = f.executor[source.first_executor + i], f.executor[target.first_executor + at]
    return int(f.kind_between[here.worker, there.worker])


@inner
def typical_rate(g: Stages, stream: int) -> float:
    """Return the mean rate of a stream's connections."""
    f = g.f
    s = f.stream[stream]
    total, used = 0.0, 0
    targets = f.component[s.target + 1].first_executor - f.component[s.target].first_executor
    for i in range(f.component[s.source + 1].first_executor - f.component[s.source].first_executor):
        for j in range(targets):
            rate = (
                g.r.port[TUPLES, f.output[s.output].first_port + i] * f.share[s.first_share + i * targets + j]
            )
            total += rate
            used += rate > 0
    return total / used if used else 0.0


@inlined
def lone(f: Flat, fan: int, size: float) -> bool:
    """Whether a group makes no more than one tuple on an output."""
    return f.first_fan[fan + 1] - f.first_fan[fan] <= 2 and size < 1.02
