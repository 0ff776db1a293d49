"""From the acks to the spouts: time until a message's whole tree is acked.

The stage goes backwards along the plan, for every seat and class. It finds the time from a group's arrival in
the queue until the last ack of all that the group makes has come to the acker.

A group that makes no more than one tuple passes on a mixture of its targets' times. Elsewhere the last of
several tuples counts: distribution functions are multiplied, over the targets that the group's children hit
(``groups``). Siblings at one seat count once, since they wait for the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.cdf import from_cdf, mean_of, to_cdf
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.forward_spectra import serve_cf
from harness.models.solver.indices import (
    cell_at,
    classes_of,
    executor_count,
    place_of,
    seat_count,
    seats_of,
    streams_of,
    task_count,
)
from harness.models.solver.maxima import all_of, one_of, tabulate
from harness.models.solver.rates import MEAN_MADE
from harness.models.solver.spectrum import ComplexArray, add_atoms, times_shift
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.trees import Back, lone
from harness.models.solver.waiting import MEAN, SLEEP
from harness.models.solver.window_acks import members


class Trees(NamedTuple):
    """From a spout executor's emit until the last ack has come to the acker's queue.

    Attributes
    ----------
    cf : array (executors, frequencies)
        Of spout executors.
    mean_ms : array (executors)
    """

    cf: ComplexArray
    mean_ms: FloatArray


class _Made(NamedTuple):
    """Times from the emit of one component's tuples until they are acked, as mixtures or tables.

    Attributes
    ----------
    streams : array
        That leave the component.
    single : bool
        Whether a tuple goes to one target only.
    passed, passed_mean : array (executors, frequencies), (executors)
        Of one tuple, where ``single``.
    tables : array (streams, kinds, seats, points)
        Distribution functions, where a group may make several.
    """

    streams: IntArray
    single: bool
    passed: ComplexArray
    passed_mean: FloatArray
    tables: FloatArray


def trees(back: Back) -> Trees:
    """Return the times of whole trees, and fill in each seat's times in ``back``."""
    executors = back.stages.net.first_acker
    found = np.zeros((executors, back.grid.size), dtype=np.complex128)
    mean = np.zeros(executors)
    _trees(back, found, mean)
    return Trees(found, mean)


@compiled
def _trees(back: Back, found: ComplexArray, mean: FloatArray) -> None:
    net = back.stages.net
    after = np.zeros(back.grid.size, dtype=np.complex128)
    service = np.zeros(back.grid.size, dtype=np.complex128)
    for component in range(net.components.size - 2, -1, -1):
        one, executors = net.components[component], executor_count(net, component)
        made = _made(back, component)
        if one.kind >= COUNT_WINDOW:
            for i in range(executors):
                members(back, component, i, _fired(back, component, i, made))
            _serve_members(back, component, service)
            continue
        for cls in classes_of(net, component):
            for i in range(executors):
                executor = one.first_executor + i
                after_mean = _after(back, cls, i, made, after)
                if one.kind == SPOUT:
                    found[executor] = after
                    mean[executor] = after_mean
                else:
                    serve_cf(back.stages, cls, executor, math.pi / back.span, service)
                    seat = back.first_seat[cls] + i
                    back.rest[seat] = after
                    back.rest_mean[seat] = after_mean
                    _serve(back, cls, i, seat, service)


@inlined
def _serve(back: Back, cls: int, place: int, seat: int, service: ComplexArray) -> None:
    """Add wait and service of the last tuple of a group at a seat, whose executor has a place."""
    net, moments = back.stages.net, back.stages.service
    executor = net.components[net.classes[cls].component].first_executor + place
    law = back.stages.flow.law[executor]
    extra = (back.sizes[seat] - 1) / 2 * moments.hold[executor, 0]
    back.rest[seat] *= service
    times_shift(extra, math.pi / back.span, back.rest[seat])
    mean = moments.cell[cell_at(net, cls, place), 0]
    back.rest_mean[seat] += extra + law[MEAN] + law[SLEEP] / 2 + mean


@inner
def _made(back: Back, component: int) -> _Made:
    net, executors = back.stages.net, executor_count(back.stages.net, component)
    places = streams_of(net, component)
    streams = net.subscribers[places.start : places.stop]
    single = streams.size == 1 and not net.streams[streams[0]].copies
    passed = np.zeros((executors if single else 0, back.grid.size), dtype=np.complex128)
    passed_mean = np.zeros(executors)
    if single:
        one_of(back, streams[0], passed, passed_mean)
    most = 0
    for k in range(streams.size):
        most = max(most, seat_count(back.first_seat, net.streams[streams[k]].klass))
    several = streams.size > 0 and not (single and _all_lone(back, component))
    tables = np.zeros((streams.size if several else 0, back.hops.shape[0], most, back.grid.points.size))
    for k in range(tables.shape[0]):
        tabulate(back, streams[k], tables[k])
    return _Made(streams, single, passed, passed_mean, tables)


@inner
def _all_lone(back: Back, component: int) -> bool:
    """Return True if no group of a component makes several tuples on its one output."""
    net = back.stages.net
    for cls in classes_of(net, component):
        for seat in seats_of(back.first_seat, cls):
            size = 1.0 if net.components[component].kind >= COUNT_WINDOW else back.sizes[seat]
            if not lone(net, net.classes[cls].first_fan, size):
                return False
    return True


@inner
def _after(back: Back, cls: int, place: int, made: _Made, after: ComplexArray) -> float:
    """Fill in the time from the end of a group's service to its last ack, and return its mean."""
    net, component = back.stages.net, back.stages.net.classes[cls].component
    one = net.components[component]
    way = back.way.of[one.first_executor + place]
    fan, size = net.classes[cls].first_fan, back.sizes[back.first_seat[cls] + place]
    if made.streams.size == 0:
        after[:] = 0.0
        last = net.components[component + 1].first_send
        add_atoms(net.atoms, one.first_send, last, 1.0, math.pi / back.span, after)
        after *= back.way.cf[way]
        return float(back.stages.service.send[component, 0] + back.way.mean_ms[way])
    if made.single and lone(net, fan, size):
        probability = back.stages.rates.fan[MEAN_MADE, fan]
        after[:] = (1 - probability) * back.way.cf[way] + probability * made.passed[place]
        return float((1 - probability) * back.way.mean_ms[way] + probability * made.passed_mean[place])
    cdf = np.ones(back.grid.points.size)
    if one.kind != SPOUT:
        cdf *= back.way.cdf[way]
    all_of(back, place, cls, size, made.streams, made.tables, cdf)
    after[:] = from_cdf(cdf, back.grid)
    return mean_of(cdf, back.grid, back.span)


@inner
def _fired(back: Back, component: int, place: int, made: _Made) -> FloatArray:
    """Return the distribution function of the time until all that a window makes is acked."""
    net, cls = back.stages.net, back.stages.net.components[component].first_class
    fan = net.classes[cls].first_fan
    if made.streams.size > 0 and made.single and lone(net, fan, 1.0):
        probability = back.stages.rates.fan[MEAN_MADE, fan]
        some: FloatArray = 1 - probability + probability * to_cdf(made.passed[place], back.grid)
        return some
    cdf = np.ones(back.grid.points.size)
    all_of(back, place, cls, 1.0, made.streams, made.tables, cdf)
    return cdf


@inner
def _serve_members(back: Back, component: int, service: ComplexArray) -> None:
    """Add every class's wait and service to what the first one's seats have from arrival in the window."""
    net, classes = back.stages.net, classes_of(back.stages.net, component)
    first = back.first_seat[classes.start]
    for cls in range(classes.stop - 1, classes.start - 1, -1):
        known = -1
        for i in range(task_count(net, component)):
            place, seat = place_of(net, component, i), back.first_seat[cls] + i
            if place != known:
                executor = net.components[component].first_executor + place
                serve_cf(back.stages, cls, executor, math.pi / back.span, service)
                known = place
            back.rest[seat] = back.rest[first + i]
            back.rest_mean[seat] = back.rest_mean[first + i]
            _serve(back, cls, place, seat, service)
