"""Rates of tuples, propagated along the plan (no loads, no times)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.records import Flat
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW

TUPLES, ROWS, ANCHORS = range(3)
"""What is counted. *Tuples*. *Rows*: messages and window members, each with a latency of its own, of which a
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


def rates(f: Flat) -> Rates:
    """Return the rates of a network.

    A time window that has got no tuple does not fire; tuples are taken to come at random for that.
    """
    cell, task = np.zeros((3, f.klass["first_cell"][-1])), np.zeros((3, f.task.size))
    port, fan = np.zeros((3, f.output["first_port"][-1])), np.zeros((2, f.first_fan.size - 1))
    return Rates(cell, task, port, fan, _rates(f, cell, task, port, fan))


@compiled
def _rates(f: Flat, cell: FloatArray, task: FloatArray, port: FloatArray, fan: FloatArray) -> float:
    for i in range(fan.shape[1]):
        for k in range(f.first_fan[i], f.first_fan[i + 1]):
            made = k - f.first_fan[i]
            fan[MEAN_MADE, i] += made * f.fan[k]
            fan[SQUARE_MADE, i] += made * made * f.fan[k]
    acks = 0.0
    for c in range(f.component.size - 1):
        one, after = f.component[c], f.component[c + 1]
        executors = after.first_executor - one.first_executor
        if one.kind == SPOUT:
            first = f.klass[one.first_class].first_cell
            for t in range(one.first_task, after.first_task):
                cell[:, first + f.task[t].executor] += f.task[t].input_tpms
                task[:, t] += f.task[t].input_tpms
            acks += cell[TUPLES, first : first + executors].sum()
        else:
            for k in range(one.first_class, after.first_class):
                _arrive(f, k, cell, task, port)
                acks += cell[ANCHORS, f.klass[k].first_cell : f.klass[k + 1].first_cell].sum()
        for o in range(one.first_output, after.first_output):
            to = f.output[o].first_port
            if one.kind >= COUNT_WINDOW:
                number = f.klass[one.first_class].first_fan + o - one.first_output
                _fire(f, c, to, fan[MEAN_MADE, number], task, port)
                continue
            for k in range(one.first_class, after.first_class):
                mean = fan[MEAN_MADE, f.klass[k].first_fan + o - one.first_output]
                for i in range(executors):
                    port[:, to + i] += mean * cell[:, f.klass[k].first_cell + i]
    return acks


@inner
def _arrive(f: Flat, k: int, cell: FloatArray, task: FloatArray, port: FloatArray) -> None:
    s = f.stream[f.klass[k].stream]
    source, target, after = f.component[s.source], f.component[s.target], f.component[s.target + 1]
    tasks = after.first_task - target.first_task
    targets = after.first_executor - target.first_executor
    sources = f.component[s.source + 1].first_executor - source.first_executor
    sent = np.zeros(3)
    for i in range(sources):
        sent += port[:, f.output[s.output].first_port + i]
        if s.alike and i < sources - 1:
            continue
        if sent[TUPLES] > 0:
            for kind in range(3):
                for t in range(tasks):
                    share = f.route[s.first_route + i * s.route_step + t]
                    task[kind, target.first_task + t] += sent[kind] * share
                for j in range(targets):
                    cell[kind, f.klass[k].first_cell + j] += (
                        sent[kind] * f.share[s.first_share + i * s.share_step + j]
                    )
        sent[:] = 0.0


@inner
def _fire(f: Flat, c: int, to: int, mean: float, task: FloatArray, port: FloatArray) -> None:
    one = f.component[c]
    for t in range(one.first_task, f.component[c + 1].first_task):
        rate = task[TUPLES, t]
        if rate > 0:
            fires = rate / one.slide
            if one.kind == TIME_WINDOW:
                fires = -math.expm1(-rate * one.length) / one.slide
            at = to + f.task[t].executor
            port[TUPLES, at] += mean * fires
            port[ROWS, at] += mean * task[ROWS, t]
            port[ANCHORS, at] += mean * task[ANCHORS, t] * one.length / one.slide
