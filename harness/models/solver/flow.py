"""Variability of arrivals everywhere, and the law of waiting that follows at every executor.

A component's executors share one flow out, so their parts are not independent. When a regular flow is dealt
out at random, each executor's part looks random, and all parts together are as regular as before. The
executors' covariances are in ``joint``: the index of the component's whole flow, less the mean of its
executors' own indices.

The covariances are carried on from component to component beside these indices. They fade at times shorter
than those by which tuples of different executors are delayed apart, as an index does by a hop. They come back
in where the flows meet again.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import bare, compiled, inner
from harness.models.solver.entering import enter
from harness.models.solver.indices import (
    ackers_of,
    cell_at,
    cells_of,
    classes_of,
    executors_of,
    fan_at,
    outputs_of,
    tasks_of,
)
from harness.models.solver.meeting import hop_blurs, meet, rejoin
from harness.models.solver.rates import ANCHORS, MEAN_MADE, SQUARE_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.stages import Flow, Stages
from harness.models.solver.structure import BOLT, COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import SCALES_MS, departures, drawn, rounding
from harness.models.solver.waiting import MEAN, NUMBERS, SECOND, SLEEP, waiting_law


def flow(net: Flat, rates: Rates, service: ServiceMoments, loop: SpoutLoop) -> Flow:
    """Return variability and waiting laws."""
    scales = SCALES_MS.size
    arrivals, ports = np.ones((net.first_acker, scales)), np.ones((net.outputs["first_port"][-1], scales))
    law = np.zeros((net.executors.size, NUMBERS))
    found = Flow(arrivals, ports, law)
    _flow(Stages(net, rates, service, found), loop)
    return found


@compiled
def _flow(stages: Stages, loop: SpoutLoop) -> None:
    net, found = stages.net, stages.flow
    blur = hop_blurs(net)
    fade = np.zeros((blur.size, SCALES_MS.size))
    for kind in range(blur.size):
        fade[kind] = SCALES_MS / (SCALES_MS + blur[kind])
    leaving = np.zeros(SCALES_MS.size)
    joint = np.zeros((net.components.size - 1, SCALES_MS.size))
    for component in range(net.components.size - 1):
        if net.components[component].kind == SPOUT:
            enter(stages, loop, component, joint[component])
        else:
            meet(stages, component, fade)
            rejoin(stages, component, blur, joint)
        for executor in executors_of(net, component):
            if net.components[component].kind == SPOUT:
                leaving[:] = found.arrivals[executor]
            else:
                _wait(stages, executor, leaving)
            if net.components[component].kind >= COUNT_WINDOW:
                _fire(stages, component, executor, leaving)
            else:
                _emit(stages, component, executor, leaving)
        _pass_on(stages, component, joint[component])
    _acks(stages)


@bare
def _wait(stages: Stages, executor: int, leaving: FloatArray) -> None:
    """Fill in the waiting law of an executor of bolts, and the index of what leaves it."""
    service, index = stages.service, stages.flow.arrivals[executor]
    hold, rate = service.hold[executor], service.rate[executor]
    idle_ms = stages.net.executors[executor].idle_ms
    waiting_law(service.load[executor], hold, index, idle_ms, stages.flow.law[executor])
    scv = max(hold[1] / hold[0] ** 2 - 1, 0.0) if hold[0] > 0 else 0.0
    departures(index, min(service.load[executor], 1.0), hold[0], scv, idle_ms, rate, leaving)


@bare
def _pass_on(stages: Stages, component: int, joint: FloatArray) -> None:
    """Let what a component's flows have in common fade by the times that tuples stay; windows end it."""
    net, service, law = stages.net, stages.service, stages.flow.law
    if net.components[component].kind >= COUNT_WINDOW:
        joint[:] = 0.0
    if net.components[component].kind != BOLT:
        return
    total = spread = 0.0
    for executor in executors_of(net, component):
        variance = law[executor, SECOND] - law[executor, MEAN] ** 2 + law[executor, SLEEP] ** 2 / 12
        variance += service.hold[executor, 1] - service.hold[executor, 0] ** 2
        total += service.rate[executor]
        spread += service.rate[executor] * math.sqrt(max(variance, 0.0))
    if total > 0:
        for k in range(SCALES_MS.size):
            joint[k] *= SCALES_MS[k] / (SCALES_MS[k] + spread / total)


@bare
def _emit(stages: Stages, component: int, executor: int, leaving: FloatArray) -> None:
    """Fill in a bolt's or spout's outputs: each tuple that leaves makes some at once."""
    net, rates = stages.net, stages.rates
    place = executor - net.components[component].first_executor
    for output in outputs_of(net, component):
        mean = second = total = 0.0
        for cls in classes_of(net, component):
            fan, rate = fan_at(net, cls, output), rates.cell[TUPLES, cell_at(net, cls, place)]
            total += rate
            mean += rate * rates.fan[MEAN_MADE, fan]
            second += rate * rates.fan[SQUARE_MADE, fan]
        if mean > 0:
            mean, second = mean / total, second / total
            into = stages.flow.ports[net.outputs[output].first_port + place]
            for k in range(SCALES_MS.size):
                into[k] = mean * leaving[k] + second / mean - mean


@bare
def _fire(stages: Stages, component: int, executor: int, leaving: FloatArray) -> None:
    """Fill in the outputs of an executor's windows, each task's its own."""
    net, rates = stages.net, stages.rates
    place = executor - net.components[component].first_executor
    by_time, slide = net.components[component].kind == TIME_WINDOW, net.components[component].slide
    for output in outputs_of(net, component):
        fan = fan_at(net, net.components[component].first_class, output)
        port = net.outputs[output].first_port + place
        mean, emitted = rates.fan[MEAN_MADE, fan], rates.port[TUPLES, port]
        if not (mean > 0 and emitted > 0):
            continue
        extra = rates.fan[SQUARE_MADE, fan] / mean - mean
        into = stages.flow.ports[port]
        into[:] = 0.0
        for task in tasks_of(net, component):
            rate = rates.task[TUPLES, task]
            if net.tasks[task].executor != place or not rate > 0:
                continue
            share = rate / stages.service.rate[executor]
            fires = rate / slide
            if by_time:
                fires = -np.expm1(-rate * net.components[component].length) / slide
            weight = mean * fires / emitted
            for k in range(SCALES_MS.size):
                time_ms = SCALES_MS[k]
                if by_time:
                    index = drawn(rounding(time_ms / slide), fires * slide)
                else:
                    index = drawn(leaving[k], share) / slide + rounding(time_ms * fires)
                    index = min(index, max(1.0, leaving[k]))
                into[k] += weight * (mean * index + extra)


@inner
def _acks(stages: Stages) -> None:
    """Acks come to the ackers in bursts: one for each message that a tuple, or a window's end, acks."""
    net, service, law = stages.net, stages.service, stages.flow.law
    ackers = law.shape[0] - net.first_acker
    if ackers == 0:
        return
    index = np.ones(SCALES_MS.size)
    burst = _acks_together(net, stages.rates)
    for acker in ackers_of(net):
        index[:] = 1 + (burst / stages.rates.acks / ackers if stages.rates.acks > 0 else 0.0)
        idle_ms = net.executors[acker].idle_ms
        waiting_law(service.load[acker], service.hold[acker], index, idle_ms, law[acker])


@bare
def _acks_together(net: Flat, rates: Rates) -> float:
    """Return by how many others each ack comes with, times the rate of acks."""
    burst = 0.0
    for cls in range(net.classes.size - 1):
        component = net.classes[cls].component
        kind, slide = net.components[component].kind, net.components[component].slide
        if kind == SPOUT:
            continue
        for cell in cells_of(net, cls):
            if rates.cell[TUPLES, cell] > 0:
                together = rates.cell[ANCHORS, cell] / rates.cell[TUPLES, cell]
                if kind == COUNT_WINDOW:
                    together *= min(slide, 100.0)
                burst += rates.cell[ANCHORS, cell] * max(together - 1, 0.0)
        if kind == TIME_WINDOW:
            classes = len(classes_of(net, component))
            for task in tasks_of(net, component):
                burst += rates.task[TUPLES, task] * rates.task[TUPLES, task] * slide / classes
    return burst
