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
from harness.models.solver.holding import hold_mean, near
from harness.models.solver.indices import link_at, place_of, receiver_at, sender_at
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray, Grid, add_hop
from harness.models.solver.stages import Stages


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
    batches = net.batch > 1 or net.transfer_batch > 1
    workers = net.executors["worker"]
    of = np.arange(net.first_acker) if batches else workers[: net.first_acker]
    kinds = net.kind_between[:, workers[net.first_acker :]]
    share = np.stack([(kinds == kind).mean(axis=1) for kind in range(hops.shape[0])], axis=1)
    cf, mean_ms = share @ hops, share @ stages.service.hop[:, 0]
    if batches:
        cf, mean_ms = cf[workers[: net.first_acker]], mean_ms[workers[: net.first_acker]]
        _held_ways(stages, np.pi / span, share[:, WITHIN][workers[: net.first_acker]], hops, cf, mean_ms)
    cdf = np.zeros((len(cf), grid.points.size))
    _distributions(cf, grid, cdf)
    seats = int(first_seat[-1])
    rest = np.zeros((seats, grid.size), dtype=np.complex128)
    way = Way(of, cf, cdf, mean_ms)
    return Back(stages, grid, span, first_seat, sizes, way, hops, rest, np.zeros(seats))


@compiled
def _distributions(cf: ComplexArray, grid: Grid, found: FloatArray) -> None:
    for way in range(found.shape[0]):
        found[way] = to_cdf(cf[way], grid)


@compiled
def _held_ways(stages: Stages, step: float, within: FloatArray, hops: ComplexArray, cf: ComplexArray,
               mean_ms: FloatArray) -> None:  # fmt: skip
    """Let acks wait for their batches at the sender; ``within``: share of ackers in each one's worker."""
    holds = stages.flow.holds
    part = np.zeros(cf.shape[1], dtype=np.complex128)
    for executor in range(within.size):
        part[:] = within[executor] * hops[WITHIN]
        cf[executor] -= part
        if holds.out.shape[0] and within[executor] < 1:
            times_hold(holds.out[executor], step, cf[executor])
            mean_ms[executor] += (1 - within[executor]) * holds.out[executor, FIRST]
        if holds.ack.shape[0]:
            times_hold(holds.ack[executor], step, part)
            mean_ms[executor] += within[executor] * holds.ack[executor, FIRST]
        cf[executor] += part


@compiled
def _hop_spectra(net: Flat, step: float, found: ComplexArray) -> None:
    for kind in range(found.shape[0]):
        add_hop(net, kind, step, found[kind])


@inner
def times_holds(back: Back, stream: int, sender: int, seat: int, found: ComplexArray) -> float:
    """Multiply by the waits for batches from a sender to one of the target's seats; return the mean."""
    net, holds, step = back.stages.net, back.stages.flow.holds, math.pi / back.span
    place = place_of(net, net.streams[stream].target, seat)
    here, there = sender_at(net, stream, sender), receiver_at(net, stream, place)
    link = link_at(net, stream, sender, place)
    if near(net, here, there):
        if holds.link.shape[0]:
            times_hold(holds.link[link], step, found)
    else:
        if holds.out.shape[0]:
            times_hold(holds.out[here], step, found)
        if holds.gather.shape[0]:
            times_hold(holds.gather[there], step, found)
    return hold_mean(net, holds, here, there, link)


@inlined
def lone(net: Flat, fan: int, size: float) -> bool:
    """Return True if a group makes no more than one tuple on an output."""
    return net.first_fan[fan + 1] - net.first_fan[fan] <= 2 and size < 1.02
