"""Changes by one executor's move, from the linear parts around a solved network (``neighbours``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.around import Around, arrive, fill_wait, holder, is_used, onward, stay_at
from harness.models.solver.compiled import bare, compiled, inner
from harness.models.solver.indices import (
    classes_of,
    port_at,
    receiver_at,
    receivers_of,
    seat_count,
    sender_at,
    senders_of,
    share_at,
    streams_of,
)
from harness.models.solver.meeting import SplitFlow, join, round_size
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import TUPLES
from harness.models.solver.service import fill_service
from harness.models.solver.spectrum import ComplexArray, times_wait
from harness.models.solver.stages import Stages
from harness.models.solver.structure import SPOUT
from harness.models.solver.variability import SCALES_MS
from harness.models.solver.waiting import NUMBERS

_TINY = 1e-9
"""Size of a transform that is taken as 0."""


class Move(NamedTuple):
    """One executor, and the worker that it is moved to."""

    executor: int
    worker: int


class Slowed(NamedTuple):
    """Changes of the logarithm of contention.

    Attributes
    ----------
    common : array (groups)
        Of each group.
    beyond : array (executors)
        What executors' own have beyond that.
    """

    common: FloatArray
    beyond: FloatArray


class OnGrid(NamedTuple):
    """Linear parts on one grid of frequencies, and all that comes to the sinks after the move.

    Attributes
    ----------
    around : Around
    total : array (sinks, frequencies)
        Filled in.
    """

    around: Around
    total: ComplexArray


class StreamEnds(NamedTuple):
    """A connection: sender and receiver of a stream, and tasks that the sender deals to in turn."""

    sender: int
    receiver: int
    round_size: int


class Fades(NamedTuple):
    """Shares of an index's distance from 1 that hops leave: the hop of before, and that of now."""

    before: FloatArray
    now: FloatArray


Grids = tuple[OnGrid, OnGrid]
"""For percentiles, and for means."""


@compiled
def add_move(
    stages: Stages, move: Move, slowed: Slowed, index: FloatArray, grids: Grids, least_ms: float
) -> None:
    """Add to both grids' totals what an executor's move to a worker changes.

    Parameters
    ----------
    stages : Stages
        With what slows executors after the move; the executor's service and waiting law are filled in.
    index : array (1, scales)
        Of what comes to it, as it was; is made that after the move. Empty for ackers, which no row passes.
    least_ms : float
        Changes of others' waits that are looked at.
    """
    net, executor, component = stages.net, move.executor, 0
    for grid in grids:
        _slow_down(grid, slowed)
    if executor >= net.first_acker:
        return
    while net.components[component + 1].first_executor <= executor:
        component += 1
    fill_service(net, stages.rates, executor, executor + 1, stages.service)
    if net.components[component].kind != SPOUT:
        _blur(stages, component, move, grids[0].around.fade, index[0])
        fill_wait(stages, executor, index[0], stages.flow.law[executor])
    for grid in grids:
        for sink in range(grid.total.shape[0]):
            grid.total[sink] -= grid.around.whole[sink, executor]
        _pass(stages, grid, component, move)
    for i in streams_of(net, component):
        _others_wait(stages, net.subscribers[i], move, least_ms, grids)


@inner
def _slow_down(grid: OnGrid, slowed: Slowed) -> None:
    """Add what slower executors change."""
    for sink in range(grid.total.shape[0]):
        for group in range(slowed.common.size):
            add_scaled(slowed.common[group], grid.around.together[sink, group], grid.total[sink])
        for other in range(slowed.beyond.size):
            if slowed.beyond[other] != 0:
                add_scaled(slowed.beyond[other], grid.around.slope[sink, other], grid.total[sink])


@inner
def _pass(stages: Stages, grid: OnGrid, component: int, move: Move) -> None:
    """Add what passes the executor, where it is now, to the totals."""
    net, around, size = stages.net, grid.around, grid.total.shape[1]
    classes = classes_of(net, component)
    here, stay = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    on = np.zeros((len(classes), size), dtype=np.complex128)
    for sink in range(grid.total.shape[0]):
        onward(stages, around, sink, component, move.executor, move.worker, on)
        for cls in classes:
            for seat in range(seat_count(around.first_seat, cls)):
                if holder(net, component, seat) == move.executor and is_used(stages, cls, seat):
                    arrive(stages, around, cls, seat, move.worker, here)
                    stay_at(stages, around, cls, move.executor, seat, stay)
                    grid.total[sink] += here * stay * on[cls - classes.start]


@bare
def _blur(stages: Stages, component: int, move: Move, fade: FloatArray, index: FloatArray) -> None:
    """Let the index of what comes to the executor be that in its new worker."""
    net = stages.net
    place, was = move.executor - net.components[component].first_executor, net.executors[move.executor].worker
    for cls in classes_of(net, component):
        stream = net.classes[cls].stream
        for i in senders_of(net, stream):
            there = net.executors[sender_at(net, stream, i)].worker
            before, now = net.kind_between[there, was], net.kind_between[there, move.worker]
            if before != now:
                ends = StreamEnds(i, place, round_size(net, stream, i))
                _rejoin(stages, stream, ends, Fades(fade[before], fade[now]), index)


@bare
def _rejoin(stages: Stages, stream: int, ends: StreamEnds, fades: Fades, index: FloatArray) -> None:
    """Let what a sender sends a receiver come with another hop."""
    net, port = stages.net, port_at(stages.net, stream, ends.sender)
    rate, share = stages.rates.port[TUPLES, port], share_at(net, stream, ends.sender, ends.receiver)
    whole = stages.service.rate[receiver_at(net, stream, ends.receiver)]
    if share > 0 and rate > 0 and whole > 0:
        weight, sent = rate * share / whole, stages.flow.ports[port]
        join(SplitFlow(rate, share, ends.round_size, weight), sent, fades.now, index)
        join(SplitFlow(rate, share, ends.round_size, -weight), sent, fades.before, index)


@inner
def _others_wait(stages: Stages, stream: int, move: Move, least_ms: float, grids: Grids) -> None:
    """Add how those wait that get a stream from the executor, where its new worker changes that."""
    net, service, fade = stages.net, stages.service, grids[0].around.fade
    place = move.executor - net.components[net.streams[stream].source].first_executor
    rate, was = stages.rates.port[TUPLES, port_at(net, stream, place)], net.executors[move.executor].worker
    index, law = np.zeros(SCALES_MS.size), np.zeros(NUMBERS)
    dealt_to = round_size(net, stream, place)
    for j in receivers_of(net, stream):
        receiver = receiver_at(net, stream, j)
        there, arrivals = net.executors[receiver].worker, stages.flow.arrivals[receiver]
        before, now = net.kind_between[was, there], net.kind_between[move.worker, there]
        hold, free = service.hold[receiver, 0], 1 - service.load[receiver]
        share = share_at(net, stream, place, j)
        if before == now or rate * share * hold < 2 * least_ms * service.rate[receiver] * free * free:
            continue
        index[:] = arrivals
        _rejoin(stages, stream, StreamEnds(place, j, dealt_to), Fades(fade[before], fade[now]), index)
        most = 0.0
        for k in range(index.size):
            most = max(most, abs(index[k] - arrivals[k]))
        if most * hold < 2 * least_ms * free * free:
            continue
        fill_wait(stages, receiver, index, law)
        for grid in grids:
            _wait_instead(grid, stages.flow.law[receiver], law, receiver)


@inner
def _wait_instead(grid: OnGrid, was: FloatArray, law: FloatArray, executor: int) -> None:
    """Let an executor's waiting law be another; a sleep, whose transform may be 0, is the same in both."""
    total = grid.total
    before = np.ones(total.shape[1], dtype=np.complex128)
    after = np.ones(total.shape[1], dtype=np.complex128)
    times_wait(was, grid.around.step, before)
    times_wait(law, grid.around.step, after)
    for sink in range(total.shape[0]):
        for k in range(before.size):
            if abs(before[k]) > _TINY:
                total[sink, k] += grid.around.whole[sink, executor, k] * (after[k] / before[k] - 1)
