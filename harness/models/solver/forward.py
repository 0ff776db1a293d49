"""From the spouts to the sinks: moments of the time since a row's message was emitted.

At every executor the rows that come (messages, later window members) are a mixture over where they came
from, each with the time it has taken so far. Mixtures and sums carry over edges by products of matrices, so
no path is ever listed. Means are exact given the stages' delays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.flow import Flow
from harness.models.solver.holding import batched, hold_mean, hold_second, whole_batches
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import at_scale, dealt
from harness.models.solver.waiting import MEAN, SECOND, SLEEP


class Stages(NamedTuple):
    """Results of earlier stages that the propagation of times needs."""

    f: Flat
    r: Rates
    s: ServiceMoments
    w: Flow


def moments(g: Stages, through: FloatArray) -> FloatArray:
    """Return rows a ms and the first two moments of their time, at each executor when they leave it.

    Parameters
    ----------
    through : array (executors)
        Share of the rows that is followed at each executor: 1 for all. With 0 for all spout executors but
        one, only what that one emits is followed.

    Returns
    -------
    array (executors, 3)
        Rate, rate times mean, rate times mean square; of a window's executor after the wait for the window.
    """
    found, ports = np.zeros((g.f.first_acker, 3)), np.zeros((g.f.output["first_port"][-1], 3))
    _moments(g, through, ports, np.zeros((g.f.task.size, 3)), found)
    return found


@compiled
def _moments(g: Stages, through: FloatArray, ports: FloatArray, tasks: FloatArray, found: FloatArray) -> None:
    f = g.f
    for c in range(f.component.size - 1):
        one, after = f.component[c], f.component[c + 1]
        executors = after.first_executor - one.first_executor
        arrived = np.zeros((executors, 3))
        for cls in range(one.first_class, after.first_class):
            arrived[:] = 0.0
            if one.kind == SPOUT:
                for i in range(executors):
                    arrived[i, 0] = (
                        g.r.cell[ROWS, f.klass[cls].first_cell + i] * through[one.first_executor + i]
                    )
            elif one.kind >= COUNT_WINDOW:
                _come_to_tasks(g, cls, through, ports, tasks)
            else:
                _come(g, cls, through, ports, arrived)
            for i in range(executors):
                if one.kind != SPOUT:
                    _serve(g, one.first_executor + i, f.klass[cls].first_cell + i, arrived[i])
                found[one.first_executor + i] += arrived[i]
                for o in range(one.first_output, after.first_output):
                    if one.kind < COUNT_WINDOW:
                        made = g.r.fan[MEAN_MADE, f.klass[cls].first_fan + o - one.first_output]
                        ports[f.output[o].first_port + i] += made * arrived[i]
        if one.kind >= COUNT_WINDOW:
            _fire(g, c, tasks, ports, found)


@inlined
def _then(now: FloatArray, first: float, second: float) -> None:
    """Add an independent time to weighted moments."""
    now[2] += 2 * now[1] * first + now[0] * second
    now[1] += now[0] * first


@inlined
def _hop(g: Stages, stream: int, i: int, j: int, now: FloatArray) -> None:
    """Add batch and hop from the source's executor i to the target's j."""
    f = g.f
    s = f.stream[stream]
    e, target = f.component[s.source].first_executor + i, f.component[s.target].first_executor
    hop = g.s.hop[f.kind_between[f.executor[e].worker, f.executor[target + j].worker]]
    _then(now, hop[0], hop[1])
    if batched(f):
        at = s.first_link + i * (f.component[s.target + 1].first_executor - target) + j
        h = g.w.holds
        _then(now, hold_mean(f, h, e, target + j, at), hold_second(f, h, e, target + j, at))


@inner
def _come(g: Stages, cls: int, through: FloatArray, ports: FloatArray, arrived: FloatArray) -> None:
    f = g.f
    stream = f.klass[cls].stream
    s = f.stream[stream]
    if s.alike and not batched(f):
        _come_alike(g, stream, through, ports, arrived)
        return
    now = np.zeros(3)
    targets = arrived.shape[0]
    for i in range(f.component[s.source + 1].first_executor - f.component[s.source].first_executor):
        source = ports[f.output[s.output].first_port + i]
        if source[0] > 0:
            for j in range(targets):
                p = (
                    f.share[s.first_share + i * s.share_step + j]
                    * through[f.component[s.target].first_executor + j]
                )
                if p > 0:
                    now[:] = source * p
                    _hop(g, stream, i, j, now)
                    arrived[j] += now


@inner
def _come_alike(g: Stages, stream: int, through: FloatArray, ports: FloatArray, arrived: FloatArray) -> None:
    """Add what comes from sources that route alike: their tuples are put together by worker first."""
    f = g.f
    s = f.stream[stream]
    source, to = f.component[s.source], f.component[s.target].first_executor
    workers = f.kind_between.shape[0]
    sent, come, now = np.zeros((workers, 3)), np.zeros((workers, 3)), np.zeros(3)
    for i in range(f.component[s.source + 1].first_executor - source.first_executor):
        sent[f.executor[source.first_executor + i].worker] += ports[f.output[s.output].first_port + i]
    for here in range(workers):
        for there in range(workers):
            now[:] = sent[here]
            hop = g.s.hop[f.kind_between[here, there]]
            _then(now, hop[0], hop[1])
            come[there] += now
    for j in range(arrived.shape[0]):
        p = f.share[s.first_share + j] * through[to + j]
        arrived[j] += p * come[f.executor[to + j].worker]


@inner
def _come_to_tasks(g: Stages, cls: int, through: FloatArray, ports: FloatArray, tasks: FloatArray) -> None:
    """Add the members that join windows, served."""
    f = g.f
    stream = f.klass[cls].stream
    s = f.stream[stream]
    target = f.component[s.target]
    seats = f.component[s.target + 1].first_task - target.first_task
    now = np.zeros(3)
    for i in range(f.component[s.source + 1].first_executor - f.component[s.source].first_executor):
        source = ports[f.output[s.output].first_port + i]
        if source[0] > 0:
            for t in range(seats):
                j = f.task[target.first_task + t].executor
                p = f.route[s.first_route + i * s.route_step + t] * through[target.first_executor + j]
                if p > 0:
                    now[:] = source * p
                    _hop(g, stream, i, j, now)
                    _serve(g, target.first_executor + j, f.klass[cls].first_cell + j, now)
                    tasks[target.first_task + t] += now


@inlined
def _serve(g: Stages, e: int, cell: int, now: FloatArray) -> None:
    law, service = g.w.law[e], g.s.cell[cell]
    _then(now, law[MEAN], law[SECOND])
    _then(now, law[SLEEP] / 2, law[SLEEP] ** 2 / 3)
    _then(now, service[0], service[1])


@inner
def _fire(g: Stages, c: int, tasks: FloatArray, ports: FloatArray, found: FloatArray) -> None:
    """Let the members wait for their windows' first output."""
    f = g.f
    one, after = f.component[c], f.component[c + 1]
    for t in range(one.first_task, after.first_task):
        if tasks[t, 0] > 0 and g.r.task[TUPLES, t] > 0:
            if one.kind == TIME_WINDOW:
                _then(tasks[t], one.slide / 2, one.slide * one.slide / 3)
            else:
                gap, index, step = 1 / g.r.task[TUPLES, t], window_index(g, c, t), window_step(g, c, t)
                many = (one.slide - step) / 2
                square = many * (2 * one.slide - step) / 3
                _then(tasks[t], many * gap, (square + index * many) * gap * gap)
            found[one.first_executor + f.task[t].executor] += tasks[t]
            for o in range(one.first_output, after.first_output):
                made = g.r.fan[MEAN_MADE, f.klass[one.first_class].first_fan + o - one.first_output]
                ports[f.output[o].first_port + f.task[t].executor] += made * tasks[t]


@inlined
def mean_output(g: Stages, c: int, t: int) -> float:
    """Return the mean wait of a task's members for their first output."""
    one = g.f.component[c]
    if one.kind == TIME_WINDOW:
        return float(one.slide / 2)
    return float((one.slide - window_step(g, c, t)) / 2 / g.r.task[TUPLES, t])


@inlined
def window_step(g: Stages, c: int, t: int) -> int:
    """Return the places of a slide that a member's place is a multiple of: 1 but where batches keep step.

    A task that gets nothing but batches from other workers gets them whole: places that have no common
    divisor with a batch's size but 1 are all alike.
    """
    one, h = g.f.component[c], g.w.holds
    e = one.first_executor + g.f.task[t].executor
    return math.gcd(int(one.slide), g.f.batch) if whole_batches(h, e, g.r.task[TUPLES, t]) else 1


@inner
def window_index(g: Stages, c: int, t: int) -> float:
    """Return the index of dispersion of a task's arrivals at the scale of its window.

    Of its executor's arrivals it gets its share, drawn by chance or dealt to it and others in turn
    (``variability.dealt``), stream by stream.
    """
    one = g.f.component[c]
    e = one.first_executor + g.f.task[t].executor
    rate = g.r.task[TUPLES, t]
    time, share = one.slide / rate, rate / g.s.rate[e]
    index = share * at_scale(g.w.arrivals[e], time)
    if share < 1:
        index += (1 - share) * _between_tasks(g, c, t, time)
    return float(max(index, 1e-4))


@inner
def _between_tasks(g: Stages, c: int, t: int, time: float) -> float:
    """Return the index that a vanishing share of a task's arrivals would have: 1 where tasks are drawn."""
    f = g.f
    total = found = 0.0
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        s = f.stream[f.klass[cls].stream]
        row = s.first_route + t - f.component[c].first_task
        for i in range(f.component[s.source + 1].first_executor - f.component[s.source].first_executor):
            rate = g.r.port[TUPLES, f.output[s.output].first_port + i] * f.route[row + i * s.route_step]
            total += rate
            found += rate * (dealt(0.0, 0.0, rate * time) if s.in_turn else 1.0)
    return float(found / total) if total > 0 else 1.0
