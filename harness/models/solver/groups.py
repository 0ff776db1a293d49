"""Groups: numbers of tuples of one message that come to an executor together.

Siblings that a multiplier makes, and that the same executor gets, wait and are served one behind the other.
Siblings that the same task's window gets leave the window together. So a tree's ack is a maximum over such
groups, not over single tuples. A group of m whose tuples each make k is followed by m k tuples. A target that
each of those takes with probability p gets a group of m k p / (1 - (1 - p)^(m k)), if any.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.indices import (
    cell_at,
    classes_of,
    executor_count,
    outputs_of,
    port_at,
    route_at,
    senders_of,
    share_at,
)
from harness.models.solver.rates import MEAN_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.structure import COUNT_WINDOW, SPOUT


def first_seats(net: Flat) -> IntArray:
    """Return where each class's seats begin: its tasks where these hold windows, else its executors."""
    of = net.classes["component"][:-1]
    tasks, executors = (np.diff(net.components[name])[of] for name in ("first_task", "first_executor"))
    seats = np.where(net.components["kind"][of] >= COUNT_WINDOW, tasks, executors)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(seats)])


def group_sizes(net: Flat, rates: Rates, first_seat: IntArray) -> FloatArray:
    """Return the mean size of a group that comes to a seat."""
    sizes, ports = np.ones(first_seat[-1]), np.ones(net.outputs["first_port"][-1])
    _groups(net, rates, first_seat, sizes, ports)
    return sizes


@inlined
def hit(probability: float, tuples: float) -> float:
    """Return the probability that a target is among those of several tuples, each with a probability."""
    if probability >= 1:
        return 1.0
    if tuples < 1:
        return tuples * probability
    return min(-math.expm1(max(tuples, 1.0) * math.log1p(-probability)), 1.0)


@compiled
def _groups(net: Flat, rates: Rates, first_seat: IntArray, sizes: FloatArray, ports: FloatArray) -> None:
    for component in range(net.components.size - 1):
        one, executors = net.components[component], executor_count(net, component)
        made = np.zeros((len(outputs_of(net, component)), executors))
        weight = np.zeros(executors)
        for cls in classes_of(net, component):
            if one.kind != SPOUT:
                _meet(net, rates, cls, ports, sizes[first_seat[cls] : first_seat[cls + 1]])
            if one.kind >= COUNT_WINDOW:
                continue
            for i in range(executors):
                rate = rates.cell[TUPLES, cell_at(net, cls, i)]
                weight[i] += rate / sizes[first_seat[cls] + i]
                for j in range(made.shape[0]):
                    made[j, i] += rate * _children(net, rates, net.classes[cls].first_fan + j)
        for j in range(made.shape[0]):
            first = net.outputs[one.first_output + j].first_port
            for i in range(executors):
                if one.kind >= COUNT_WINDOW:
                    fan = net.classes[one.first_class].first_fan + j
                    ports[first + i] = _children(net, rates, fan)
                elif weight[i] > 0:
                    ports[first + i] = max(made[j, i] / weight[i], 1.0)


@inlined
def _children(net: Flat, rates: Rates, fan: int) -> float:
    """Return the mean number of tuples made, where some are."""
    none = net.fan[net.first_fan[fan]] if net.first_fan[fan + 1] > net.first_fan[fan] else 1.0
    return rates.fan[MEAN_MADE, fan] / (1 - none) if none < 1 else 1.0


@inner
def _meet(net: Flat, rates: Rates, cls: int, ports: FloatArray, sizes: FloatArray) -> None:
    stream = net.classes[cls].stream
    by_task = net.components[net.streams[stream].target].kind >= COUNT_WINDOW
    copies = net.streams[stream].copies
    groups, tuples = np.zeros(sizes.size), np.zeros(sizes.size)
    for i in senders_of(net, stream):
        port = port_at(net, stream, i)
        rate, size = rates.port[TUPLES, port], ports[port]
        for j in range(sizes.size):
            probability = route_at(net, stream, i, j) if by_task else share_at(net, stream, i, j)
            if probability > 0 and rate > 0:
                groups[j] += rate / size * (1.0 if copies else hit(probability, size))
                tuples[j] += rate * probability
    for j in range(sizes.size):
        if groups[j] > 0:
            sizes[j] = max(tuples[j] / groups[j], 1.0)
