"""A time that trees seldom take longer than, by which the grid of frequencies is chosen."""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.forward import window_index
from harness.models.solver.indices import (
    chance,
    classes_of,
    executor_count,
    seat_count,
    streams_of,
    tasks_of,
)
from harness.models.solver.rates import TUPLES
from harness.models.solver.stages import Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.waiting import MEAN, SECOND, SLEEP

_RARE = 1e-3
_DEVIATIONS = 6.0


def reach(stages: Stages, first_seat: IntArray, sizes: FloatArray) -> float:
    """Return the mean of the longest way that is not rare, and six of its deviations."""
    return float(_reach(stages, first_seat, sizes, np.zeros((int(first_seat[-1]), 2))))


@compiled
def _reach(stages: Stages, first_seat: IntArray, sizes: FloatArray, way: FloatArray) -> float:
    net = stages.net
    found = 0.0
    for component in range(net.components.size - 2, -1, -1):
        one = net.components[component]
        for i in range(executor_count(net, component)):
            executor = one.first_executor + i
            mean, variance = _onward(stages, first_seat, component, i, way)
            if one.kind == SPOUT:
                found = max(found, mean + _DEVIATIONS * math.sqrt(variance))
                continue
            law, hold = stages.flow.law[executor], stages.service.hold[executor]
            mean += law[MEAN] + law[SLEEP] / 2 + hold[0]
            variance += law[SECOND] - law[MEAN] ** 2 + law[SLEEP] ** 2 / 12 + hold[1] - hold[0] ** 2
            for cls in classes_of(net, component):
                if one.kind < COUNT_WINDOW:
                    seat = first_seat[cls] + i
                    way[seat, 0] = mean + (sizes[seat] - 1) / 2 * hold[0]
                    way[seat, 1] = variance
                    continue
                for task in tasks_of(net, component):
                    if net.tasks[task].executor == i and stages.rates.task[TUPLES, task] > 0:
                        seat = first_seat[cls] + task - one.first_task
                        _window(stages, component, task, mean, variance, way[seat])
    return found


@inner
def _onward(
    stages: Stages, first_seat: IntArray, component: int, place: int, way: FloatArray
) -> tuple[float, float]:
    """Return mean and variance of the longest way on from an executor, or of an ack's hop."""
    net = stages.net
    longest = 0
    for kind in range(1, stages.service.hop.shape[0]):
        if stages.service.hop[kind, 0] > stages.service.hop[longest, 0]:
            longest = kind
    hop_mean = stages.service.hop[longest, 0]
    hop_variance = max(stages.service.hop[longest, 1] - hop_mean**2, 0.0)
    best, mean = 0.0, hop_mean + stages.service.send[component, 0]
    variance = hop_variance + stages.service.send[component, 1]
    for i in streams_of(net, component):
        stream = net.subscribers[i]
        cls = net.streams[stream].klass
        for j in range(seat_count(first_seat, cls)):
            seat = first_seat[cls] + j
            if chance(net, stream, place, j) > _RARE:
                length = way[seat, 0] + 5 * math.sqrt(way[seat, 1])
                if length > best:
                    best = length
                    mean, variance = hop_mean + way[seat, 0], hop_variance + way[seat, 1]
    return mean, variance


@inner
def _window(
    stages: Stages, component: int, task: int, mean: float, variance: float, found: FloatArray
) -> None:
    one = stages.net.components[component]
    unit, index = 1.0, 0.0
    if one.kind == COUNT_WINDOW:
        unit, index = 1 / stages.rates.task[TUPLES, task], window_index(stages, component, task)
    most = one.length + one.slide / 2
    found[0] = max(most * unit, mean) + mean
    found[1] = (one.slide**2 / 12 + index * most) * unit * unit + variance
