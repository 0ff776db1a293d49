"""Changes by one executor's move, from the linear parts around a solved network (``neighbours``)."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.around import Around, arrive, fill_wait, holder, is_used, onward, stay_at
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.flow import join
from harness.models.solver.forward import Stages
from harness.models.solver.holding import round_size
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import TUPLES
from harness.models.solver.service import fill_service
from harness.models.solver.spectrum import ComplexArray, times_wait
from harness.models.solver.structure import SPOUT
from harness.models.solver.variability import SCALES_MS
from harness.models.solver.waiting import NUMBERS

_TINY = 1e-9
"""Size of a transform that is taken as 0."""


@compiled
def add_move(
    g: Stages, e: int, worker: int, common: FloatArray, slower: FloatArray, index: FloatArray,
    fine: Around, near: Around, fine_total: ComplexArray, near_total: ComplexArray, least_ms: float,
) -> None:  # fmt: skip
    """Add to both grids' totals what an executor's move to a worker changes.

    Parameters
    ----------
    g : Stages
        With what slows executors after the move; the executor's service and waiting law are filled in.
    common, slower : array (groups), array (executors)
        Changes of the logarithm of contention: of each group, and what executors' own have beyond that.
    index : array (1, scales)
        Of what comes to it, as it was; is made that after the move. Empty for ackers, which no row passes.
    least_ms : float
        Changes of others' waits that are looked at.
    """
    f, c = g.f, 0
    for a, total in ((fine, fine_total), (near, near_total)):
        for q in range(total.shape[0]):
            for group in range(common.size):
                add_scaled(common[group], a.together[q, group], total[q])
            for other in range(slower.size):
                if slower[other] != 0:
                    add_scaled(slower[other], a.slope[q, other], total[q])
    if e >= f.first_acker:
        return
    while f.component[c + 1].first_executor <= e:
        c += 1
    fill_service(f, g.r, g.s.slow, e, e + 1, g.s.cell, g.s.hold, g.s.rate, g.s.send, g.s.hop)
    g.s.load[e] = g.s.rate[e] * g.s.hold[e, 0]
    if f.component[c].kind != SPOUT:
        _blur(g, c, e, worker, fine.fade, index[0])
        fill_wait(f, g.s, e, index[0], g.w.law[e])
    for a, total in ((fine, fine_total), (near, near_total)):
        for q in range(total.shape[0]):
            total[q] -= a.whole[q, e]
        _pass(g, a, c, e, worker, total)
    for k in range(
        f.output[f.component[c].first_output].first_subscriber,
        f.output[f.component[c + 1].first_output].first_subscriber,
    ):
        _others_wait(g, f.subscribers[k], e, worker, least_ms, fine, near, fine_total, near_total)


@inner
def _pass(g: Stages, a: Around, c: int, e: int, worker: int, total: ComplexArray) -> None:
    """Add what passes an executor that is in a worker to the totals."""
    one, size = g.f.component[c], total.shape[1]
    here, stay = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    on = np.zeros((g.f.component[c + 1].first_class - one.first_class, size), dtype=np.complex128)
    for q in range(total.shape[0]):
        onward(g, a, q, c, e, worker, on)
        for cls in range(one.first_class, g.f.component[c + 1].first_class):
            for j in range(a.first_seat[cls + 1] - a.first_seat[cls]):
                if holder(g.f, c, j) == e and is_used(g, cls, j):
                    arrive(g, a, cls, j, worker, here)
                    stay_at(g, a, cls, e, j, stay)
                    total[q] += here * stay * on[cls - one.first_class]


@inner
def _blur(g: Stages, c: int, e: int, worker: int, fade: FloatArray, index: FloatArray) -> None:
    """Let the index of what comes to an executor be that in another worker."""
    f = g.f
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        stream = f.klass[cls].stream
        s, first = f.stream[stream], f.component[f.stream[stream].source].first_executor
        for i in range(f.component[s.source + 1].first_executor - first):
            there = f.executor[first + i].worker
            before, now = f.kind_between[there, f.executor[e].worker], f.kind_between[there, worker]
            if before != now:
                j = e - f.component[c].first_executor
                _rejoin(g, stream, i, j, round_size(f, stream, i), fade[before], fade[now], index)


@inner
def _rejoin(g: Stages, stream: int, i: int, j: int, dealt_to: int, before: FloatArray, now: FloatArray,
            index: FloatArray) -> None:  # fmt: skip
    """Let what one executor sends another come with another hop."""
    s = g.f.stream[stream]
    port = g.f.output[s.output].first_port + i
    rate, p = g.r.port[TUPLES, port], g.f.share[s.first_share + i * s.share_step + j]
    whole = g.s.rate[g.f.component[s.target].first_executor + j]
    if p > 0 and rate > 0 and whole > 0:
        weight, ports = rate * p / whole, g.w.ports[port]
        join(ports, rate, p, dealt_to, weight, now, 0.0, 1, 0.0, index)
        join(ports, rate, p, dealt_to, -weight, before, 0.0, 1, 0.0, index)


@inner
def _others_wait(g: Stages, stream: int, e: int, worker: int, least_ms: float, fine: Around, near: Around,
                 fine_total: ComplexArray, near_total: ComplexArray) -> None:  # fmt: skip
    """Add how those wait that get a stream from an executor that is in a worker, where it is something."""
    f, s = g.f, g.f.stream[stream]
    i, to = e - f.component[s.source].first_executor, f.component[s.target].first_executor
    rate = g.r.port[TUPLES, f.output[s.output].first_port + i]
    dealt_to, index, law = round_size(f, stream, i), np.zeros(SCALES_MS.size), np.zeros(NUMBERS)
    for j in range(f.component[s.target + 1].first_executor - to):
        there = f.executor[to + j].worker
        before, now = f.kind_between[f.executor[e].worker, there], f.kind_between[worker, there]
        hold, free = g.s.hold[to + j, 0], 1 - g.s.load[to + j]
        p = f.share[s.first_share + i * s.share_step + j]
        if before == now or rate * p * hold < 2 * least_ms * g.s.rate[to + j] * free * free:
            continue
        index[:] = g.w.arrivals[to + j]
        _rejoin(g, stream, i, j, dealt_to, fine.fade[before], fine.fade[now], index)
        most = 0.0
        for k in range(index.size):
            most = max(most, abs(index[k] - g.w.arrivals[to + j, k]))
        if most * hold < 2 * least_ms * free * free:
            continue
        fill_wait(f, g.s, to + j, index, law)
        for a, total in ((fine, fine_total), (near, near_total)):
            _wait_instead(a, g.w.law[to + j], law, to + j, total)


@inner
def _wait_instead(a: Around, was: FloatArray, law: FloatArray, e: int, total: ComplexArray) -> None:
    """Let an executor's waiting law be another; a sleep, whose transform may be 0, is the same in both."""
    before = np.ones(total.shape[1], dtype=np.complex128)
    after = np.ones(total.shape[1], dtype=np.complex128)
    times_wait(was, a.step, before)
    times_wait(law, a.step, after)
    for q in range(total.shape[0]):
        for k in range(before.size):
            if abs(before[k]) > _TINY:
                total[q, k] += a.whole[q, e, k] * (after[k] / before[k] - 1)
