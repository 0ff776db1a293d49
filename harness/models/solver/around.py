"""Linear parts of a solution: the changes of a solved network to first order (``neighbours``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.flow import hop_blurs
from harness.models.solver.forward import Stages
from harness.models.solver.forward_spectra import fill_spectra, serve_cf, times_output
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments
from harness.models.solver.spectrum import ComplexArray, add_atoms
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.trees import chance
from harness.models.solver.variability import SCALES_MS
from harness.models.solver.waiting import Batches, waiting_law


class Around(NamedTuple):
    """Linear parts around one solution, on one grid of frequencies.

    Attributes
    ----------
    step : float
        Between frequencies, 1/ms.
    first_seat, sink : array (classes + 1), (components)
        Where seats begin (``first_seats``); numbers of sinks, -1 for other components.
    fade : array (kinds, scales)
        What a hop leaves of an index's distance from 1.
    hops : array (kinds, frequencies)
    ports : array (ports, frequencies)
        Rows when they leave an executor, times rows a ms.
    seats : array (sinks, seats, frequencies)
        From the arrival at a seat to a sink.
    whole, slope : array (sinks, executors, frequencies)
        Rows that pass an executor; how they change with the logarithm of what it is slowed down by.
    group, together : array (executors), array (sinks, groups, frequencies)
        Executors of one component on one host, and the sums of their ``slope``.
    come : array (streams, workers, frequencies)
        Of streams whose sources route alike: all that is sent, where it arrives in a worker.
    go : array (sinks, streams, workers, frequencies)
        The same the other way: from a worker to a sink.
    """

    step: float
    first_seat: IntArray
    sink: IntArray
    fade: FloatArray
    hops: ComplexArray
    ports: ComplexArray
    seats: ComplexArray
    whole: ComplexArray
    slope: ComplexArray
    group: IntArray
    together: ComplexArray
    come: ComplexArray
    go: ComplexArray


@inlined
def holder(f: Flat, c: int, j: int) -> int:
    """Return the position of the executor that a component's seat j is at."""
    i = f.task[f.component[c].first_task + j].executor if f.component[c].kind >= COUNT_WINDOW else j
    return int(f.component[c].first_executor + i)


@inner
def _come(g: Stages, a: Around, stream: int, j: int, worker: int, found: ComplexArray) -> None:
    """Add what comes over a stream to the target's seat j, whose executor is in a worker."""
    f, s = g.f, g.f.stream[stream]
    if s.alike:
        add_scaled(chance(f, stream, 0, j), a.come[stream, worker], found)
        return
    by_kind = np.zeros(a.hops.shape, dtype=np.complex128)
    first = f.component[s.source].first_executor
    for i in range(f.component[s.source + 1].first_executor - first):
        port, p = f.output[s.output].first_port + i, chance(f, stream, i, j)
        if p > 0 and g.r.port[TUPLES, port] > 0:
            add_scaled(p, a.ports[port], by_kind[f.kind_between[f.executor[first + i].worker, worker]])
    for kind in range(a.hops.shape[0]):
        found += by_kind[kind] * a.hops[kind]


@inner
def _go(f: Flat, a: Around, q: int, stream: int, i: int, worker: int, found: ComplexArray) -> None:
    """Add how what the source's executor i, in a worker, sends over a stream goes on to a sink."""
    s = f.stream[stream]
    if s.alike:
        found += a.go[q, stream, worker]
        return
    by_kind = np.zeros(a.hops.shape, dtype=np.complex128)
    seat = a.first_seat[s.klass]
    for j in range(a.first_seat[s.klass + 1] - seat):
        p = chance(f, stream, i, j)
        if p > 0:
            there = f.executor[holder(f, s.target, j)].worker
            add_scaled(p, a.seats[q, seat + j], by_kind[f.kind_between[worker, there]])
    for kind in range(a.hops.shape[0]):
        found += by_kind[kind] * a.hops[kind]


@inner
def onward(g: Stages, a: Around, q: int, c: int, e: int, worker: int, on: ComplexArray) -> None:
    """Fill in the way on to a sink of all that executor e of a component makes of a tuple of each class."""
    f = g.f
    one, after = f.component[c], f.component[c + 1]
    on[:] = 1.0 if a.sink[c] == q else 0.0
    way = np.zeros(on.shape[1], dtype=np.complex128)
    for o in range(one.first_output, after.first_output):
        way[:] = 0.0
        for k in range(f.output[o].first_subscriber, f.output[o + 1].first_subscriber):
            _go(f, a, q, f.subscribers[k], e - one.first_executor, worker, way)
        for cls in range(one.first_class, after.first_class):
            made = g.r.fan[MEAN_MADE, f.klass[cls].first_fan + o - one.first_output]
            add_scaled(made, way, on[cls - one.first_class])


@inner
def arrive(g: Stages, a: Around, cls: int, j: int, worker: int, found: ComplexArray) -> None:
    """Fill in what comes to a seat whose executor is in a worker."""
    f = g.f
    found[:] = 0.0
    if f.component[f.klass[cls].component].kind == SPOUT:
        found[:] = g.r.cell[ROWS, f.klass[cls].first_cell + j]
    else:
        _come(g, a, f.klass[cls].stream, j, worker, found)


@inner
def stay_at(g: Stages, a: Around, cls: int, e: int, j: int, found: ComplexArray) -> None:
    """Fill in what a seat does to a tuple: wait, service, and a window's wait."""
    c = g.f.klass[cls].component
    found[:] = 1.0
    if g.f.component[c].kind == SPOUT:
        return
    serve_cf(g, cls, e, a.step, found)
    if g.f.component[c].kind >= COUNT_WINDOW:
        times_output(g, c, g.f.component[c].first_task + j, a.step, found)


@inner
def is_used(g: Stages, cls: int, j: int) -> bool:
    """Return whether anything comes to a seat."""
    c = g.f.klass[cls].component
    if g.f.component[c].kind >= COUNT_WINDOW:
        return bool(g.r.task[TUPLES, g.f.component[c].first_task + j] > 0)
    return bool(g.r.cell[TUPLES, g.f.klass[cls].first_cell + j] > 0)


@compiled
def look_around(
    g: Stages, slower: Stages, change: float, everywhere: FloatArray, a: Around, total: ComplexArray
) -> None:
    """Fill in what is linear, and what comes to the sinks.

    Parameters
    ----------
    g, slower : Stages
        As it is, and with ``change`` more as logarithm of the executors' contention, whose waiting laws are
        filled in.
    everywhere : array (executors)
        Ones.
    """
    f = g.f
    blur = hop_blurs(f)
    for kind in range(blur.size):
        a.fade[kind] = SCALES_MS / (SCALES_MS + blur[kind])
        add_atoms(f.atom, f.first_hop[kind], f.first_hop[kind + 1], 1.0, a.step, a.hops[kind])
    found = np.zeros((f.component.size - 1, a.hops.shape[1]), dtype=np.complex128)
    fill_spectra(g, everywhere, a.step, a.ports, found)
    for c in range(found.shape[0]):
        if a.sink[c] >= 0:
            total[a.sink[c]] = found[c]
    for stream in range(f.stream.size - 1):
        _send(g, a, stream)
    for c in range(f.component.size - 2, -1, -1):
        for e in range(f.component[c].first_executor, f.component[c + 1].first_executor):
            if f.component[c].kind != SPOUT:
                fill_wait(f, slower.s, e, g.w.arrivals[e], slower.w.law[e])
            _look_on(g, slower, change, c, e, a)
        for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
            if f.component[c].kind != SPOUT:
                _fetch(f, a, f.klass[cls].stream)


@inner
def _look_on(g: Stages, slower: Stages, change: float, c: int, e: int, a: Around) -> None:
    """Fill in what is linear around one executor, where that is known for all that follows."""
    f, sinks, size = g.f, a.seats.shape[0], a.hops.shape[1]
    one, after = f.component[c], f.component[c + 1]
    worker = f.executor[e].worker
    on = np.zeros((sinks, after.first_class - one.first_class, size), dtype=np.complex128)
    for q in range(sinks):
        onward(g, a, q, c, e, worker, on[q])
    stay, longer = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    here = np.zeros(size, dtype=np.complex128)
    for cls in range(one.first_class, after.first_class):
        for j in range(a.first_seat[cls + 1] - a.first_seat[cls]):
            if holder(f, c, j) != e or not is_used(g, cls, j):
                continue
            arrive(g, a, cls, j, worker, here)
            stay_at(g, a, cls, e, j, stay)
            stay_at(slower, a, cls, e, j, longer)
            for q in range(sinks):
                way = on[q, cls - one.first_class]
                a.seats[q, a.first_seat[cls] + j] = stay * way
                a.whole[q, e] += here * stay * way
                a.slope[q, e] += here * (longer - stay) / change * way
    for q in range(sinks):
        a.together[q, a.group[e]] += a.slope[q, e]


@inner
def fill_wait(f: Flat, s: ServiceMoments, e: int, index: FloatArray, law: FloatArray) -> None:
    """Fill in the waiting law of an executor that gets arrivals of an index."""
    hold = s.hold[e]
    come = Batches(0.0, 1.0, 1.0, 1.0)
    waiting_law(s.load[e], hold[0], hold[1], hold[2], index, f.executor[e].idle_ms, come, law)


@inner
def _send(g: Stages, a: Around, stream: int) -> None:
    """Add up a stream's rows where they arrive in each worker, if all of its sources route alike."""
    f, s = g.f, g.f.stream[stream]
    if not s.alike:
        return
    sent = np.zeros((f.kind_between.shape[0], a.hops.shape[1]), dtype=np.complex128)
    first = f.component[s.source].first_executor
    for i in range(f.component[s.source + 1].first_executor - first):
        sent[f.executor[first + i].worker] += a.ports[f.output[s.output].first_port + i]
    for here in range(sent.shape[0]):
        for there in range(sent.shape[0]):
            a.come[stream, there] += sent[here] * a.hops[f.kind_between[here, there]]


@inner
def _fetch(f: Flat, a: Around, stream: int) -> None:
    """Do the same the other way, for a stream whose target's seats are known."""
    s = f.stream[stream]
    if not s.alike:
        return
    seat = a.first_seat[s.klass]
    for q in range(a.seats.shape[0]):
        kept = np.zeros((f.kind_between.shape[0], a.hops.shape[1]), dtype=np.complex128)
        for j in range(a.first_seat[s.klass + 1] - seat):
            worker = f.executor[holder(f, s.target, j)].worker
            add_scaled(chance(f, stream, 0, j), a.seats[q, seat + j], kept[worker])
        for here in range(kept.shape[0]):
            for there in range(kept.shape[0]):
                a.go[q, stream, here] += kept[there] * a.hops[f.kind_between[here, there]]
