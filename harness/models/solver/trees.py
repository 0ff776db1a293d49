"""Parts that the stages of a tree's ack share: routing of tuples, an ack's way, and the times so far.

A *seat* is a place where a group of siblings stays together: an executor, or a task where it holds windows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.network import WITHIN
from harness.models.solver.batching import FIRST, times_hold
from harness.models.solver.cdf import to_cdf
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.forward import Stages
from harness.models.solver.holding import hold_mean, near
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray, Grid, add_atoms
from harness.models.solver.structure import COUNT_WINDOW


class Way(NamedTuple):
    """The way of an ack from each worker to an acker, all ackers alike; with batches, from each executor.

    What is gathered for an acker from all other workers waits once for a whole tree, and is not in it.

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
    batches = f.batch > 1 or f.transfer_batch > 1
    workers = f.executor["worker"]
    of = np.arange(f.first_acker) if batches else workers[: f.first_acker]
    kinds = f.kind_between[:, workers[f.first_acker :]]
    share = np.stack([(kinds == kind).mean(axis=1) for kind in range(hops.shape[0])], axis=1)
    cf, mean_ms = share @ hops, share @ g.s.hop[:, 0]
    if batches:
        cf, mean_ms = cf[workers[: f.first_acker]], mean_ms[workers[: f.first_acker]]
        _held_ways(g, np.pi / span, share[:, WITHIN][workers[: f.first_acker]], hops, cf, mean_ms)
    cdf = np.zeros((len(cf), grid.points.size))
    _distributions(cf, grid, cdf)
    seats = int(first_seat[-1])
    rest = np.zeros((seats, grid.size), dtype=np.complex128)
    way = Way(of, cf, cdf, mean_ms)
    return Back(g, grid, span, first_seat, sizes, way, hops, rest, np.zeros(seats))


@compiled
def _distributions(cf: ComplexArray, grid: Grid, found: FloatArray) -> None:
    for way in range(found.shape[0]):
        found[way] = to_cdf(cf[way], grid)


@compiled
def _held_ways(g: Stages, step: float, within: FloatArray, hops: ComplexArray, cf: ComplexArray,
               mean_ms: FloatArray) -> None:  # fmt: skip
    """Let acks wait for their batches at the sender; ``within``: share of ackers in each one's worker."""
    h = g.w.holds
    part = np.zeros(cf.shape[1], dtype=np.complex128)
    for e in range(within.size):
        part[:] = within[e] * hops[WITHIN]
        cf[e] -= part
        if h.out.shape[0] and within[e] < 1:
            times_hold(h.out[e], step, cf[e])
            mean_ms[e] += (1 - within[e]) * h.out[e, FIRST]
        if h.ack.shape[0]:
            times_hold(h.ack[e], step, part)
            mean_ms[e] += within[e] * h.ack[e, FIRST]
        cf[e] += part


@compiled
def _hop_spectra(f: Flat, step: float, found: ComplexArray) -> None:
    for kind in range(found.shape[0]):
        add_atoms(f.atom, f.first_hop[kind], f.first_hop[kind + 1], 1.0, step, found[kind])


@inlined
def chance(f: Flat, stream: int, i: int, j: int) -> float:
    """Return the probability that a tuple of the source's executor i goes to the target's seat j."""
    s = f.stream[stream]
    if f.component[s.target].kind >= COUNT_WINDOW:
        return float(f.route[s.first_route + i * s.route_step + j])
    return float(f.share[s.first_share + i * s.share_step + j])


@inlined
def kind_of(f: Flat, stream: int, i: int, j: int) -> int:
    """Return the kind of hop from the source's executor i to the target's seat j."""
    s = f.stream[stream]
    source, target = f.component[s.source], f.component[s.target]
    at = f.task[target.first_task + j].executor if target.kind >= COUNT_WINDOW else j
    here, there = f.executor[source.first_executor + i], f.executor[target.first_executor + at]
    return int(f.kind_between[here.worker, there.worker])


@inner
def times_holds(b: Back, stream: int, i: int, j: int, found: ComplexArray) -> float:
    """Multiply by the waits for batches from a source's executor to a target's seat; return the mean."""
    f, h = b.g.f, b.g.w.holds
    s = f.stream[stream]
    first, to = f.component[s.source].first_executor, f.component[s.target].first_executor
    there = (
        f.task[f.component[s.target].first_task + j].executor
        if f.component[s.target].kind >= COUNT_WINDOW
        else j
    )
    at = s.first_link + i * (f.component[s.target + 1].first_executor - to) + there
    step = math.pi / b.span
    if near(f, first + i, to + there):
        if h.link.shape[0]:
            times_hold(h.link[at], step, found)
    else:
        if h.out.shape[0]:
            times_hold(h.out[first + i], step, found)
        if h.gather.shape[0]:
            times_hold(h.gather[to + there], step, found)
    return hold_mean(f, h, first + i, to + there, at)


@inlined
def lone(f: Flat, fan: int, size: float) -> bool:
    """Return True if a group makes no more than one tuple on an output."""
    return f.first_fan[fan + 1] - f.first_fan[fan] <= 2 and size < 1.02
