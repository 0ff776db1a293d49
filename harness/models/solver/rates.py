"""Rates of tuples, propagated along the plan (no loads, no times)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.indices import (
    cell_at,
    classes_of,
    executor_count,
    fan_at,
    numbers_of,
    outputs_of,
    port_at,
    receivers_of,
    route_at,
    senders_of,
    share_at,
    task_count,
    tasks_of,
)
from harness.models.solver.records import Flat
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW

TUPLES, ROWS, ANCHORS = range(3)
"""Kinds of count. *Tuples*. *Rows*: messages and window members, each with a latency of its own, of which a
window's output carries those that no earlier window had. *Anchors*: messages whose trees a tuple belongs to,
each of which gets an ack of it; a window's output belongs to those of all its members."""
MEAN_MADE, SQUARE_MADE = range(2)


class Rates(NamedTuple):
    """Rates a ms.

    Attributes
    ----------
    cell : array (3, cells)
        Tuples, rows and anchors.
    task : array (3, tasks)
        The same, over all classes.
    port : array (3, ports)
        The same; each tuple goes to every subscriber.
    fan : array (2, fans)
        Moments of the tuples that one tuple, or one window, makes.
    acks : float
        Messages to all ackers.
    """

    cell: FloatArray
    task: FloatArray
    port: FloatArray
    fan: FloatArray
    acks: float


def rates(net: Flat) -> Rates:
    """Return the rates of a network.

    A time window that has got no tuple does not fire; tuples are taken to come at random for that.
    """
    cell, task = np.zeros((3, net.classes["first_cell"][-1])), np.zeros((3, net.tasks.size))
    port, fan = np.zeros((3, net.outputs["first_port"][-1])), np.zeros((2, net.first_fan.size - 1))
    return Rates(cell, task, port, fan, _rates(net, cell, task, port, fan))


@compiled
def _rates(net: Flat, cells: FloatArray, tasks: FloatArray, ports: FloatArray, fans: FloatArray) -> float:
    for fan in range(fans.shape[1]):
        for i in numbers_of(net, fan):
            made = i - net.first_fan[fan]
            fans[MEAN_MADE, fan] += made * net.fan[i]
            fans[SQUARE_MADE, fan] += made * made * net.fan[i]
    acks = 0.0
    for component in range(net.components.size - 1):
        one, executors = net.components[component], executor_count(net, component)
        if one.kind == SPOUT:
            first = net.classes[one.first_class].first_cell
            for task in tasks_of(net, component):
                cells[:, first + net.tasks[task].executor] += net.tasks[task].input_tpms
                tasks[:, task] += net.tasks[task].input_tpms
            acks += cells[TUPLES, first : first + executors].sum()
        else:
            for cls in classes_of(net, component):
                _arrive(net, cls, cells, tasks, ports)
                acks += cells[ANCHORS, net.classes[cls].first_cell : net.classes[cls + 1].first_cell].sum()
        for output in outputs_of(net, component):
            first = net.outputs[output].first_port
            if one.kind >= COUNT_WINDOW:
                mean = fans[MEAN_MADE, fan_at(net, one.first_class, output)]
                _fire(net, component, first, mean, tasks, ports)
                continue
            for cls in classes_of(net, component):
                mean = fans[MEAN_MADE, fan_at(net, cls, output)]
                for i in range(executors):
                    ports[:, first + i] += mean * cells[:, cell_at(net, cls, i)]
    return acks


@inner
def _arrive(net: Flat, cls: int, cells: FloatArray, tasks: FloatArray, ports: FloatArray) -> None:
    stream = net.classes[cls].stream
    target, senders = net.streams[stream].target, senders_of(net, stream)
    sent = np.zeros(3)
    for i in senders:
        sent += ports[:, port_at(net, stream, i)]
        if net.streams[stream].alike and i < senders.stop - 1:
            continue
        if sent[TUPLES] > 0:
            for kind in range(3):
                for j in range(task_count(net, target)):
                    task = net.components[target].first_task + j
                    tasks[kind, task] += sent[kind] * route_at(net, stream, i, j)
                for j in receivers_of(net, stream):
                    cells[kind, cell_at(net, cls, j)] += sent[kind] * share_at(net, stream, i, j)
        sent[:] = 0.0


@inner
def _fire(
    net: Flat, component: int, first_port: int, mean: float, tasks: FloatArray, ports: FloatArray
) -> None:
    one = net.components[component]
    for task in tasks_of(net, component):
        rate = tasks[TUPLES, task]
        if rate > 0:
            fires = rate / one.slide
            if one.kind == TIME_WINDOW:
                fires = -math.expm1(-rate * one.length) / one.slide
            port = first_port + net.tasks[task].executor
            ports[TUPLES, port] += mean * fires
            ports[ROWS, port] += mean * tasks[ROWS, task]
            ports[ANCHORS, port] += mean * tasks[ANCHORS, task] * one.length / one.slide
