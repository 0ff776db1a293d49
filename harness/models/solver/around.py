"""Linear parts of a solution: the changes of a solved network to first order (``neighbours``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.forward_spectra import fill_spectra, serve_cf, times_output
from harness.models.solver.indices import (
    cell_at,
    chance,
    classes_of,
    executors_of,
    fan_at,
    outputs_of,
    place_of,
    port_at,
    seat_count,
    sender_at,
    senders_of,
    subscribers_of,
)
from harness.models.solver.meeting import hop_blurs
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import ComplexArray, add_hop
from harness.models.solver.stages import Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT
from harness.models.solver.variability import SCALES_MS
from harness.models.solver.waiting import waiting_law


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
def holder(net: Flat, component: int, seat: int) -> int:
    """Return the executor that a component's seat is at."""
    return int(net.components[component].first_executor + place_of(net, component, seat))


@inner
def _come(stages: Stages, around: Around, stream: int, seat: int, worker: int, found: ComplexArray) -> None:
    """Add what comes over a stream to a seat at its target, whose executor is in a worker."""
    net = stages.net
    if net.streams[stream].alike:
        add_scaled(chance(net, stream, 0, seat), around.come[stream, worker], found)
        return
    by_kind = np.zeros(around.hops.shape, dtype=np.complex128)
    for i in senders_of(net, stream):
        port, probability = port_at(net, stream, i), chance(net, stream, i, seat)
        if probability > 0 and stages.rates.port[TUPLES, port] > 0:
            kind = net.kind_between[net.executors[sender_at(net, stream, i)].worker, worker]
            add_scaled(probability, around.ports[port], by_kind[kind])
    for kind in range(around.hops.shape[0]):
        found += by_kind[kind] * around.hops[kind]


@inner
def _go(
    net: Flat, around: Around, sink: int, stream: int, sender: int, worker: int, found: ComplexArray
) -> None:
    """Add how what a sender, in a worker, sends over a stream goes on to a sink."""
    if net.streams[stream].alike:
        found += around.go[sink, stream, worker]
        return
    cls, target = net.streams[stream].klass, net.streams[stream].target
    by_kind = np.zeros(around.hops.shape, dtype=np.complex128)
    for j in range(seat_count(around.first_seat, cls)):
        probability = chance(net, stream, sender, j)
        if probability > 0:
            kind = net.kind_between[worker, net.executors[holder(net, target, j)].worker]
            add_scaled(probability, around.seats[sink, around.first_seat[cls] + j], by_kind[kind])
    for kind in range(around.hops.shape[0]):
        found += by_kind[kind] * around.hops[kind]


@inner
def onward(
    stages: Stages, around: Around, sink: int, component: int, executor: int, worker: int, on: ComplexArray
) -> None:
    """Fill in the way on to a sink of all that an executor makes of a tuple of each class, in a worker."""
    net = stages.net
    place, classes = executor - net.components[component].first_executor, classes_of(net, component)
    on[:] = 1.0 if around.sink[component] == sink else 0.0
    way = np.zeros(on.shape[1], dtype=np.complex128)
    for output in outputs_of(net, component):
        way[:] = 0.0
        for i in subscribers_of(net, output):
            _go(net, around, sink, net.subscribers[i], place, worker, way)
        for cls in classes:
            made = stages.rates.fan[MEAN_MADE, fan_at(net, cls, output)]
            add_scaled(made, way, on[cls - classes.start])


@inner
def arrive(stages: Stages, around: Around, cls: int, seat: int, worker: int, found: ComplexArray) -> None:
    """Fill in what comes to a seat whose executor is in a worker."""
    net = stages.net
    found[:] = 0.0
    if net.components[net.classes[cls].component].kind == SPOUT:
        found[:] = stages.rates.cell[ROWS, cell_at(net, cls, seat)]
    else:
        _come(stages, around, net.classes[cls].stream, seat, worker, found)


@inner
def stay_at(stages: Stages, around: Around, cls: int, executor: int, seat: int, found: ComplexArray) -> None:
    """Fill in what a seat does to a tuple: wait, service, and a window's wait."""
    net, component = stages.net, stages.net.classes[cls].component
    found[:] = 1.0
    if net.components[component].kind == SPOUT:
        return
    serve_cf(stages, cls, executor, around.step, found)
    if net.components[component].kind >= COUNT_WINDOW:
        times_output(stages, component, net.components[component].first_task + seat, around.step, found)


@inner
def is_used(stages: Stages, cls: int, seat: int) -> bool:
    """Return whether anything comes to a seat."""
    net, component = stages.net, stages.net.classes[cls].component
    if net.components[component].kind >= COUNT_WINDOW:
        return bool(stages.rates.task[TUPLES, net.components[component].first_task + seat] > 0)
    return bool(stages.rates.cell[TUPLES, cell_at(net, cls, seat)] > 0)


@compiled
def look_around(
    stages: Stages,
    slower: Stages,
    change: float,
    everywhere: FloatArray,
    around: Around,
    total: ComplexArray,
) -> None:
    """Fill in what is linear, and what comes to the sinks.

    Parameters
    ----------
    stages, slower : Stages
        As it is, and with ``change`` more as logarithm of the executors' contention, whose waiting laws are
        filled in.
    everywhere : array (executors)
        Ones.
    """
    net = stages.net
    blur = hop_blurs(net)
    for kind in range(blur.size):
        around.fade[kind] = SCALES_MS / (SCALES_MS + blur[kind])
        add_hop(net, kind, around.step, around.hops[kind])
    found = np.zeros((net.components.size - 1, around.hops.shape[1]), dtype=np.complex128)
    fill_spectra(stages, everywhere, around.step, around.ports, found)
    for component in range(found.shape[0]):
        if around.sink[component] >= 0:
            total[around.sink[component]] = found[component]
    for stream in range(net.streams.size - 1):
        _send(stages, around, stream)
    for component in range(net.components.size - 2, -1, -1):
        spout = net.components[component].kind == SPOUT
        for executor in executors_of(net, component):
            if not spout:
                fill_wait(slower, executor, stages.flow.arrivals[executor], slower.flow.law[executor])
            _look_on(stages, slower, change, component, executor, around)
        for cls in classes_of(net, component):
            if not spout:
                _fetch(net, around, net.classes[cls].stream)


@inner
def _look_on(
    stages: Stages, slower: Stages, change: float, component: int, executor: int, around: Around
) -> None:
    """Fill in what is linear around one executor, where that is known for all that follows."""
    net, sinks, size = stages.net, around.seats.shape[0], around.hops.shape[1]
    classes, worker = classes_of(net, component), net.executors[executor].worker
    on = np.zeros((sinks, len(classes), size), dtype=np.complex128)
    for sink in range(sinks):
        onward(stages, around, sink, component, executor, worker, on[sink])
    stay, longer = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    here = np.zeros(size, dtype=np.complex128)
    for cls in classes:
        for seat in range(seat_count(around.first_seat, cls)):
            if holder(net, component, seat) != executor or not is_used(stages, cls, seat):
                continue
            arrive(stages, around, cls, seat, worker, here)
            stay_at(stages, around, cls, executor, seat, stay)
            stay_at(slower, around, cls, executor, seat, longer)
            for sink in range(sinks):
                way = on[sink, cls - classes.start]
                around.seats[sink, around.first_seat[cls] + seat] = stay * way
                around.whole[sink, executor] += here * stay * way
                around.slope[sink, executor] += here * (longer - stay) / change * way
    for sink in range(sinks):
        around.together[sink, around.group[executor]] += around.slope[sink, executor]


@inner
def fill_wait(stages: Stages, executor: int, index: FloatArray, law: FloatArray) -> None:
    """Fill in the waiting law of an executor that gets arrivals of an index."""
    load, idle_ms = stages.service.load[executor], stages.net.executors[executor].idle_ms
    waiting_law(load, stages.service.hold[executor], index, idle_ms, law)


@inner
def _send(stages: Stages, around: Around, stream: int) -> None:
    """Add up a stream's rows where they arrive in each worker, if all of its sources route alike."""
    net = stages.net
    if not net.streams[stream].alike:
        return
    sent = np.zeros((net.kind_between.shape[0], around.hops.shape[1]), dtype=np.complex128)
    for i in senders_of(net, stream):
        sent[net.executors[sender_at(net, stream, i)].worker] += around.ports[port_at(net, stream, i)]
    for here in range(sent.shape[0]):
        for there in range(sent.shape[0]):
            around.come[stream, there] += sent[here] * around.hops[net.kind_between[here, there]]


@inner
def _fetch(net: Flat, around: Around, stream: int) -> None:
    """Do the same the other way, for a stream whose target's seats are known."""
    if not net.streams[stream].alike:
        return
    cls, target = net.streams[stream].klass, net.streams[stream].target
    for sink in range(around.seats.shape[0]):
        kept = np.zeros((net.kind_between.shape[0], around.hops.shape[1]), dtype=np.complex128)
        for j in range(seat_count(around.first_seat, cls)):
            worker = net.executors[holder(net, target, j)].worker
            way = around.seats[sink, around.first_seat[cls] + j]
            add_scaled(chance(net, stream, 0, j), way, kept[worker])
        for here in range(kept.shape[0]):
            for there in range(kept.shape[0]):
                hop = around.hops[net.kind_between[here, there]]
                around.go[sink, stream, here] += kept[there] * hop
