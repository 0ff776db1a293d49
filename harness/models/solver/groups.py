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
from harness.models.solver.rates import MEAN_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.structure import COUNT_WINDOW, SPOUT


def first_seats(f: Flat) -> IntArray:
    """Return where each class's seats begin: its tasks where these hold windows, else its executors."""
    of = f.klass["component"][:-1]
    tasks, executors = (np.diff(f.component[name])[of] for name in ("first_task", "first_executor"))
    seats = np.where(f.component["kind"][of] >= COUNT_WINDOW, tasks, executors)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(seats)])


def group_sizes(f: Flat, r: Rates, first_seat: IntArray) -> FloatArray:
    """Return the mean size of a group that comes to a seat."""
    sizes, ports = np.ones(first_seat[-1]), np.ones(f.output["first_port"][-1])
    _groups(f, r, first_seat, sizes, ports)
    return sizes


@inlined
def hit(p: float, tuples: float) -> float:
    """Return the probability that a target is among those of several tuples."""
    if p >= 1:
        return 1.0
    return min(-math.expm1(max(tuples, 1.0) * math.log1p(-p)), 1.0) if tuples >= 1 else tuples * p


@compiled
def _groups(f: Flat, r: Rates, first_seat: IntArray, sizes: FloatArray, ports: FloatArray) -> None:
    for c in range(f.component.size - 1):
        executors = f.component[c + 1].first_executor - f.component[c].first_executor
        made, weight = (
            np.zeros((f.component[c + 1].first_output - f.component[c].first_output, executors)),
            np.zeros(executors),
        )
        for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
            seats = first_seat[cls + 1] - first_seat[cls]
            if f.component[c].kind != SPOUT:
                _meet(f, r, cls, seats, ports, sizes[first_seat[cls] : first_seat[cls + 1]])
            if f.component[c].kind >= COUNT_WINDOW:
                continue
            for i in range(executors):
                rate = r.cell[TUPLES, f.klass[cls].first_cell + i]
                size = sizes[first_seat[cls] + i]
                weight[i] += rate / size
                for o in range(made.shape[0]):
                    made[o, i] += rate * _children(f, r, f.klass[cls].first_fan + o)
        for o in range(made.shape[0]):
            port = f.output[f.component[c].first_output + o].first_port
            for i in range(executors):
                if f.component[c].kind >= COUNT_WINDOW:
                    ports[port + i] = _children(f, r, f.klass[f.component[c].first_class].first_fan + o)
                elif weight[i] > 0:
                    ports[port + i] = max(made[o, i] / weight[i], 1.0)


@inlined
def _children(f: Flat, r: Rates, fan: int) -> float:
    """Return the mean number of tuples made, where some are."""
    none = f.fan[f.first_fan[fan]] if f.first_fan[fan + 1] > f.first_fan[fan] else 1.0
    return r.fan[MEAN_MADE, fan] / (1 - none) if none < 1 else 1.0


@inner
def _meet(f: Flat, r: Rates, cls: int, seats: int, ports: FloatArray, sizes: FloatArray) -> None:
    stream = f.klass[cls].stream
    a, c = f.stream[stream].source, f.stream[stream].target
    by_task = f.component[c].kind >= COUNT_WINDOW
    groups, tuples = np.zeros(seats), np.zeros(seats)
    for i in range(f.component[a + 1].first_executor - f.component[a].first_executor):
        port = f.output[f.stream[stream].output].first_port + i
        size = ports[port]
        for j in range(seats):
            one = f.stream[stream]
            p = f.share[one.first_share + i * one.share_step + j] if not by_task else 0.0
            if by_task:
                p = f.route[one.first_route + i * one.route_step + j]
            if p > 0 and r.port[TUPLES, port] > 0:
                groups[j] += r.port[TUPLES, port] / size * (1.0 if f.stream[stream].copies else hit(p, size))
                tuples[j] += r.port[TUPLES, port] * p
    for j in range(seats):
        if groups[j] > 0:
            sizes[j] = max(tuples[j] / groups[j], 1.0)
