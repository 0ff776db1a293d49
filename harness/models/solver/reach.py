"""A time that trees seldom take longer than, by which the grid of frequencies is chosen."""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.batching import FIRST
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.forward import Stages, window_index
from harness.models.solver.holding import hold_mean
from harness.models.solver.rates import TUPLES
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.trees import chance
from harness.models.solver.waiting import MEAN, SECOND, SLEEP

_RARE = 1e-3
_DEVIATIONS = 6.0


def reach(g: Stages, first_seat: IntArray, sizes: FloatArray) -> float:
    """Return the mean of the longest way that is not rare, and six of its deviations."""
    return float(_reach(g, first_seat, sizes, np.zeros((int(first_seat[-1]), 2))))


@compiled
def _reach(g: Stages, first_seat: IntArray, sizes: FloatArray, way: FloatArray) -> float:
    f = g.f
    found = 0.0
    for c in range(f.component.size - 2, -1, -1):
        one, after = f.component[c], f.component[c + 1]
        for i in range(after.first_executor - one.first_executor):
            e = one.first_executor + i
            mean, variance = _onward(g, first_seat, c, i, way)
            if one.kind == SPOUT:
                found = max(found, mean + _DEVIATIONS * math.sqrt(variance))
                continue
            law, hold = g.w.law[e], g.s.hold[e]
            mean += law[MEAN] + law[SLEEP] / 2 + hold[0]
            variance += law[SECOND] - law[MEAN] ** 2 + law[SLEEP] ** 2 / 12 + hold[1] - hold[0] ** 2
            for cls in range(one.first_class, after.first_class):
                if one.kind < COUNT_WINDOW:
                    seat = first_seat[cls] + i
                    way[seat, 0] = mean + (sizes[seat] - 1) / 2 * hold[0]
                    way[seat, 1] = variance
                    continue
                for t in range(one.first_task, after.first_task):
                    if f.task[t].executor == i and g.r.task[TUPLES, t] > 0:
                        _window(g, c, t, mean, variance, way[first_seat[cls] + t - one.first_task])
    return found


@inner
def _onward(g: Stages, first_seat: IntArray, c: int, i: int, way: FloatArray) -> tuple[float, float]:
    """Return mean and variance of the longest way on from an executor, or of an ack's hop."""
    f = g.f
    one, after = f.component[c], f.component[c + 1]
    longest = 0
    for kind in range(1, g.s.hop.shape[0]):
        if g.s.hop[kind, 0] > g.s.hop[longest, 0]:
            longest = kind
    hop_mean = g.s.hop[longest, 0]
    hop_variance = max(g.s.hop[longest, 1] - hop_mean**2, 0.0)
    h, e = g.w.holds, one.first_executor + i
    held = h.out[e, FIRST] if h.out.shape[0] else 0.0
    held += h.ack[e, FIRST] if h.ack.shape[0] else 0.0
    best, mean = 0.0, hop_mean + held + g.s.send[c, 0]
    variance = hop_variance + held * held + g.s.send[c, 1]
    for k in range(
        f.output[one.first_output].first_subscriber, f.output[after.first_output].first_subscriber
    ):
        stream = f.subscribers[k]
        klass = f.stream[stream].klass
        for j in range(first_seat[klass + 1] - first_seat[klass]):
            seat = first_seat[klass] + j
            if chance(f, stream, i, j) > _RARE:
                held = _held(g, stream, e, j)
                length = held + way[seat, 0] + 5 * math.sqrt(way[seat, 1] + held * held / 2)
                if length > best:
                    best = length
                    mean, variance = hop_mean + held + way[seat, 0], hop_variance + way[seat, 1]
                    variance += held * held / 2
    return mean, variance


@inlined
def _held(g: Stages, stream: int, e: int, j: int) -> float:
    """Return the mean wait for batches from an executor to the target's seat j."""
    f = g.f
    s = f.stream[stream]
    to = f.component[s.target].first_executor
    if f.component[s.target].kind >= COUNT_WINDOW:
        j = f.task[f.component[s.target].first_task + j].executor
    targets = f.component[s.target + 1].first_executor - to
    at = s.first_link + (e - f.component[s.source].first_executor) * targets + j
    return hold_mean(f, g.w.holds, e, to + j, at)


@inner
def _window(g: Stages, c: int, t: int, mean: float, variance: float, found: FloatArray) -> None:
    one = g.f.component[c]
    unit, index = 1.0, 0.0
    if one.kind == COUNT_WINDOW:
        unit, index = 1 / g.r.task[TUPLES, t], window_index(g, c, t)
    most = one.length + one.slide / 2
    found[0] = max(most * unit, mean) + mean
    found[1] = (one.slide**2 / 12 + index * most) * unit * unit + variance
