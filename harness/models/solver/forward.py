"""From the spouts to the sinks: moments of the time since a row's message was emitted.

At every executor the rows that come (messages, later window members) are a mixture over where they came
from, each with the time it has taken so far. Mixtures and sums carry over edges by products of matrices, so
no path is ever listed. Means are exact given the stages' delays.
"""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.indices import (
    cell_at,
    classes_of,
    executor_count,
    fan_at,
    hop_between,
    outputs_of,
    port_at,
    receiver_at,
    receivers_of,
    route_at,
    sender_at,
    senders_of,
    share_at,
    task_count,
    tasks_of,
)
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES
from harness.models.solver.stages import Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import at_scale, dealt
from harness.models.solver.waiting import MEAN, SECOND, SLEEP


def moments(stages: Stages, through: FloatArray) -> FloatArray:
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
    found, ports = np.zeros((stages.net.first_acker, 3)), np.zeros((stages.net.outputs["first_port"][-1], 3))
    _moments(stages, through, ports, np.zeros((stages.net.tasks.size, 3)), found)
    return found


@compiled
def _moments(
    stages: Stages, through: FloatArray, ports: FloatArray, tasks: FloatArray, found: FloatArray
) -> None:
    net, rates = stages.net, stages.rates
    for component in range(net.components.size - 1):
        kind, first = net.components[component].kind, net.components[component].first_executor
        arrived = np.zeros((executor_count(net, component), 3))
        for cls in classes_of(net, component):
            arrived[:] = 0.0
            if kind == SPOUT:
                for i in range(arrived.shape[0]):
                    arrived[i, 0] = rates.cell[ROWS, cell_at(net, cls, i)] * through[first + i]
            elif kind >= COUNT_WINDOW:
                _come_to_tasks(stages, cls, through, ports, tasks)
            else:
                _come(stages, net.classes[cls].stream, through, ports, arrived)
            for i in range(arrived.shape[0]):
                if kind != SPOUT:
                    _serve(stages, first + i, cell_at(net, cls, i), arrived[i])
                found[first + i] += arrived[i]
                if kind < COUNT_WINDOW:
                    for output in outputs_of(net, component):
                        made = rates.fan[MEAN_MADE, fan_at(net, cls, output)]
                        ports[net.outputs[output].first_port + i] += made * arrived[i]
        if kind >= COUNT_WINDOW:
            _fire(stages, component, tasks, ports, found)


@inlined
def _then(now: FloatArray, first: float, second: float) -> None:
    """Add an independent time to weighted moments."""
    now[2] += 2 * now[1] * first + now[0] * second
    now[1] += now[0] * first


@inlined
def _hop(stages: Stages, stream: int, sender: int, receiver: int, now: FloatArray) -> None:
    """Add the hop from a sender to a receiver of a stream."""
    net = stages.net
    here, there = sender_at(net, stream, sender), receiver_at(net, stream, receiver)
    hop = stages.service.hop[hop_between(net, here, there)]
    _then(now, hop[0], hop[1])


@inner
def _come(stages: Stages, stream: int, through: FloatArray, ports: FloatArray, arrived: FloatArray) -> None:
    net = stages.net
    if net.streams[stream].alike:
        _come_alike(stages, stream, through, ports, arrived)
        return
    now = np.zeros(3)
    for i in senders_of(net, stream):
        source = ports[port_at(net, stream, i)]
        if source[0] > 0:
            for j in receivers_of(net, stream):
                probability = share_at(net, stream, i, j) * through[receiver_at(net, stream, j)]
                if probability > 0:
                    now[:] = source * probability
                    _hop(stages, stream, i, j, now)
                    arrived[j] += now


@inner
def _come_alike(
    stages: Stages, stream: int, through: FloatArray, ports: FloatArray, arrived: FloatArray
) -> None:
    """Add what comes from sources that route alike: their tuples are put together by worker first."""
    net = stages.net
    workers = net.kind_between.shape[0]
    sent, come, now = np.zeros((workers, 3)), np.zeros((workers, 3)), np.zeros(3)
    for i in senders_of(net, stream):
        sent[net.executors[sender_at(net, stream, i)].worker] += ports[port_at(net, stream, i)]
    for here in range(workers):
        for there in range(workers):
            now[:] = sent[here]
            hop = stages.service.hop[net.kind_between[here, there]]
            _then(now, hop[0], hop[1])
            come[there] += now
    for j in receivers_of(net, stream):
        receiver = receiver_at(net, stream, j)
        probability = share_at(net, stream, 0, j) * through[receiver]
        arrived[j] += probability * come[net.executors[receiver].worker]


@inner
def _come_to_tasks(
    stages: Stages, cls: int, through: FloatArray, ports: FloatArray, tasks: FloatArray
) -> None:
    """Add the members that join windows, served."""
    net, stream = stages.net, stages.net.classes[cls].stream
    target, now = net.streams[stream].target, np.zeros(3)
    first = net.components[target].first_task
    for i in senders_of(net, stream):
        source = ports[port_at(net, stream, i)]
        if source[0] > 0:
            for j in range(task_count(net, target)):
                place = net.tasks[first + j].executor
                receiver = receiver_at(net, stream, place)
                probability = route_at(net, stream, i, j) * through[receiver]
                if probability > 0:
                    now[:] = source * probability
                    _hop(stages, stream, i, place, now)
                    _serve(stages, receiver, cell_at(net, cls, place), now)
                    tasks[first + j] += now


@inlined
def _serve(stages: Stages, executor: int, cell: int, now: FloatArray) -> None:
    law, service = stages.flow.law[executor], stages.service.cell[cell]
    _then(now, law[MEAN], law[SECOND])
    _then(now, law[SLEEP] / 2, law[SLEEP] ** 2 / 3)
    _then(now, service[0], service[1])


@inner
def _fire(stages: Stages, component: int, tasks: FloatArray, ports: FloatArray, found: FloatArray) -> None:
    """Let the members wait for their windows' first output."""
    net, rates = stages.net, stages.rates
    one = net.components[component]
    for task in tasks_of(net, component):
        if tasks[task, 0] > 0 and rates.task[TUPLES, task] > 0:
            if one.kind == TIME_WINDOW:
                _then(tasks[task], one.slide / 2, one.slide * one.slide / 3)
            else:
                gap, index = 1 / rates.task[TUPLES, task], window_index(stages, component, task)
                many = (one.slide - 1) / 2
                square = many * (2 * one.slide - 1) / 3
                _then(tasks[task], many * gap, (square + index * many) * gap * gap)
            place = net.tasks[task].executor
            found[one.first_executor + place] += tasks[task]
            for output in outputs_of(net, component):
                made = rates.fan[MEAN_MADE, fan_at(net, one.first_class, output)]
                ports[net.outputs[output].first_port + place] += made * tasks[task]


@inlined
def mean_output(stages: Stages, component: int, task: int) -> float:
    """Return the mean wait of a task's members for their first output."""
    one = stages.net.components[component]
    if one.kind == TIME_WINDOW:
        return float(one.slide / 2)
    return float((one.slide - 1) / 2 / stages.rates.task[TUPLES, task])


@inner
def window_index(stages: Stages, component: int, task: int) -> float:
    """Return the index of dispersion of a task's arrivals at the scale of its window.

    Of its executor's arrivals it gets its share, drawn by chance or dealt to it and others in turn
    (``variability.dealt``), stream by stream.
    """
    one = stages.net.components[component]
    executor = one.first_executor + stages.net.tasks[task].executor
    rate = stages.rates.task[TUPLES, task]
    time_ms, share = one.slide / rate, rate / stages.service.rate[executor]
    index = share * at_scale(stages.flow.arrivals[executor], time_ms)
    if share < 1:
        index += (1 - share) * _between_tasks(stages, component, task, time_ms)
    return float(max(index, 1e-4))


@inner
def _between_tasks(stages: Stages, component: int, task: int, time_ms: float) -> float:
    """Return the index that a vanishing share of a task's arrivals would have: 1 where tasks are drawn."""
    net = stages.net
    number = task - net.components[component].first_task
    total = found = 0.0
    for cls in classes_of(net, component):
        stream = net.classes[cls].stream
        for i in senders_of(net, stream):
            rate = stages.rates.port[TUPLES, port_at(net, stream, i)] * route_at(net, stream, i, number)
            total += rate
            found += rate * (dealt(0.0, 0.0, rate * time_ms) if net.streams[stream].in_turn else 1.0)
    return float(found / total) if total > 0 else 1.0
