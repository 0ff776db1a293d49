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


def trees(b: Back) -> Trees:
    """Return the times of whole trees, and fill in each seat's times in ``b``."""
    executors = b.g.f.first_acker
    found = np.zeros((executors, b.grid.size), dtype=np.complex128)
    mean = np.zeros(executors)
    _trees(b, found, mean)
    return Trees(found, mean)


@compiled
def _trees(b: Back, found: ComplexArray, mean: FloatArray) -> None:
    f = b.g.f
    after, service = np.zeros(b.grid.size, dtype=np.complex128), np.zeros(b.grid.size, dtype=np.complex128)
    for c in range(f.component.size - 2, -1, -1):
        one, following = f.component[c], f.component[c + 1]
        executors = following.first_executor - one.first_executor
        made = _made(b, c)
        if one.kind >= COUNT_WINDOW:
            for i in range(executors):
                members(b, c, i, _fired(b, c, i, made))
            _serve_members(b, c, service)
            continue
        for cls in range(one.first_class, following.first_class):
            for i in range(executors):
                e = one.first_executor + i
                after_mean = _after(b, c, cls, i, made, after)
                if one.kind == SPOUT:
                    found[e] = after
                    mean[e] = after_mean
                else:
                    serve_cf(b.g, cls, e, math.pi / b.span, service)
                    seat = b.first_seat[cls] + i
                    b.rest[seat] = after
                    b.rest_mean[seat] = after_mean
                    _serve(b, cls, i, e, seat, service)


@inlined
def _serve(b: Back, cls: int, i: int, e: int, seat: int, service: ComplexArray) -> None:
    """Add wait and service of the group's last tuple."""
    law = b.g.w.law[e]
    extra = (b.sizes[seat] - 1) / 2 * b.g.s.hold[e, 0]
    b.rest[seat] *= service
    times_shift(extra, math.pi / b.span, b.rest[seat])
    b.rest_mean[seat] += extra + law[MEAN] + law[SLEEP] / 2 + b.g.s.cell[b.g.f.klass[cls].first_cell + i, 0]


@inner
def _made(b: Back, c: int) -> _Made:
    f = b.g.f
    one, following = f.component[c], f.component[c + 1]
    executors = following.first_executor - one.first_executor
    first = f.output[one.first_output].first_subscriber
    streams = f.subscribers[first : f.output[following.first_output].first_subscriber]
    single = streams.size == 1 and not f.stream[streams[0]].copies
    passed = np.zeros((executors if single else 0, b.grid.size), dtype=np.complex128)
    passed_mean = np.zeros(executors)
    if single:
        one_of(b, streams[0], executors, passed, passed_mean)
    most = 0
    for k in range(streams.size):
        klass = f.stream[streams[k]].klass
        most = max(most, b.first_seat[klass + 1] - b.first_seat[klass])
    several = streams.size > 0 and not (single and _all_lone(b, c))
    tables = np.zeros((streams.size if several else 0, b.hops.shape[0], most, b.grid.points.size))
    for k in range(tables.shape[0]):
        tabulate(b, streams[k], executors, tables[k])
    return _Made(streams, single, passed, passed_mean, tables)


@inner
def _all_lone(b: Back, c: int) -> bool:
    """Return True if no group of a component makes several tuples on its one output."""
    f = b.g.f
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        for seat in range(b.first_seat[cls], b.first_seat[cls + 1]):
            size = 1.0 if f.component[c].kind >= COUNT_WINDOW else b.sizes[seat]
            if not lone(f, f.klass[cls].first_fan, size):
                return False
    return True


@inner
def _after(b: Back, c: int, cls: int, i: int, made: _Made, after: ComplexArray) -> float:
    """Fill in the time from the end of a group's service to its last ack, and return its mean."""
    f = b.g.f
    one = f.component[c]
    way = b.way.of[one.first_executor + i]
    fan, size = f.klass[cls].first_fan, b.sizes[b.first_seat[cls] + i]
    if made.streams.size == 0:
        after[:] = 0.0
        add_atoms(f.atom, one.first_send, f.component[c + 1].first_send, 1.0, math.pi / b.span, after)
        after *= b.way.cf[way]
        return float(b.g.s.send[c, 0] + b.way.mean_ms[way])
    if made.single and lone(f, fan, size):
        p = b.g.r.fan[MEAN_MADE, fan]
        after[:] = (1 - p) * b.way.cf[way] + p * made.passed[i]
        return float((1 - p) * b.way.mean_ms[way] + p * made.passed_mean[i])
    cdf = np.ones(b.grid.points.size)
    if one.kind != SPOUT:
        cdf *= b.way.cdf[way]
    all_of(b, i, fan, size, made.streams, made.tables, cdf)
    after[:] = from_cdf(cdf, b.grid)
    return mean_of(cdf, b.grid, b.span)


@inner
def _fired(b: Back, c: int, i: int, made: _Made) -> FloatArray:
    """Return the distribution function of the time until all that a window makes is acked."""
    f = b.g.f
    fan = f.klass[f.component[c].first_class].first_fan
    if made.streams.size > 0 and made.single and lone(f, fan, 1.0):
        p = b.g.r.fan[MEAN_MADE, fan]
        some: FloatArray = 1 - p + p * to_cdf(made.passed[i], b.grid)
        return some
    cdf = np.ones(b.grid.points.size)
    all_of(b, i, fan, 1.0, made.streams, made.tables, cdf)
    return cdf


@inner
def _serve_members(b: Back, c: int, service: ComplexArray) -> None:
    """Add every class's wait and service to what the first one's seats have from arrival in the window."""
    f = b.g.f
    one, following = f.component[c], f.component[c + 1]
    for cls in range(following.first_class - 1, one.first_class - 1, -1):
        known = -1
        for t in range(following.first_task - one.first_task):
            i = f.task[one.first_task + t].executor
            if i != known:
                serve_cf(b.g, cls, one.first_executor + i, math.pi / b.span, service)
                known = i
            seat, tail = b.first_seat[cls] + t, b.first_seat[one.first_class] + t
            b.rest[seat] = b.rest[tail]
            b.rest_mean[seat] = b.rest_mean[tail]
            _serve(b, cls, i, one.first_executor + i, seat, service)
