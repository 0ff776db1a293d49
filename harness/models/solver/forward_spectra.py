"""From the spouts to the sinks: the distribution of the time, as characteristic functions on a grid."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.forward import window_index
from harness.models.solver.indices import (
    cell_at,
    chance,
    classes_of,
    executor_count,
    fan_at,
    hop_between,
    outputs_of,
    place_of,
    port_at,
    receiver_at,
    sender_at,
    senders_of,
    task_count,
)
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import (
    ComplexArray,
    add_atoms,
    add_hop,
    complex_exp,
    gap_log,
    times_uniform,
    times_wait,
)
from harness.models.solver.stages import Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW


def spectra(stages: Stages, through: FloatArray, size: int, span: float) -> ComplexArray:
    """Return the rows' time by sink component, as characteristic functions times rows a ms.

    Parameters
    ----------
    through : array (executors)
        As for ``moments``.
    size, span
        Of the grid.

    Returns
    -------
    array (components, frequencies)
        Zero for components that are no sinks.
    """
    found = np.zeros((stages.net.components.size - 1, size), dtype=np.complex128)
    ports = np.zeros((stages.net.outputs["first_port"][-1], size), dtype=np.complex128)
    fill_spectra(stages, through, np.pi / span, ports, found)
    return found


@compiled
def fill_spectra(
    stages: Stages, through: FloatArray, step: float, ports: ComplexArray, found: ComplexArray
) -> None:
    """Fill in what leaves on each port, and what comes to each sink; frequencies are ``step`` apart."""
    net = stages.net
    size = ports.shape[1]
    hops = np.zeros((net.first_hop.size - 1, size), dtype=np.complex128)
    for kind in range(hops.shape[0]):
        add_hop(net, kind, step, hops[kind])
    for component in range(net.components.size - 1):
        one, window = net.components[component], net.components[component].kind >= COUNT_WINDOW
        tasks = np.zeros((task_count(net, component) if window else 0, size), dtype=np.complex128)
        waits = np.empty((executor_count(net, component), size), dtype=np.complex128)
        for i in range(waits.shape[0]):
            waits[i] = through[one.first_executor + i]
            if one.kind != SPOUT:
                times_wait(stages.flow.law[one.first_executor + i], step, waits[i])
        for cls in classes_of(net, component):
            if window:
                here = np.zeros(tasks.shape, dtype=np.complex128)
                _come(stages, net.classes[cls].stream, ports, hops, here)
                _serve(stages, cls, step, waits, here)
                tasks += here
                continue
            arrived = np.zeros(waits.shape, dtype=np.complex128)
            if one.kind == SPOUT:
                for i in range(arrived.shape[0]):
                    arrived[i] += stages.rates.cell[ROWS, cell_at(net, cls, i)] * waits[i]
            else:
                _come(stages, net.classes[cls].stream, ports, hops, arrived)
                _serve(stages, cls, step, waits, arrived)
            _leave(stages, cls, arrived, ports, found)
        if window:
            fired = np.zeros(waits.shape, dtype=np.complex128)
            for i in range(tasks.shape[0]):
                task = one.first_task + i
                if stages.rates.task[TUPLES, task] > 0:
                    times_output(stages, component, task, step, tasks[i])
                    fired[net.tasks[task].executor] += tasks[i]
            _leave(stages, one.first_class, fired, ports, found)


@inner
def _come(
    stages: Stages, stream: int, ports: ComplexArray, hops: ComplexArray, arrived: ComplexArray
) -> None:
    """Add what comes over a stream, by the target's executors, or by its tasks where these hold windows."""
    net = stages.net
    if net.streams[stream].alike:
        _come_alike(stages, stream, ports, hops, arrived)
        return
    target = net.streams[stream].target
    seats = arrived.shape[0]
    hopped = np.zeros(hops.shape, dtype=np.complex128)
    for i in senders_of(net, stream):
        port, sender = port_at(net, stream, i), sender_at(net, stream, i)
        if not stages.rates.port[TUPLES, port] > 0:
            continue
        known = np.zeros(hops.shape[0], dtype=np.bool_)
        for j in range(seats):
            probability = chance(net, stream, i, j)
            if not probability > 0:
                continue
            kind = hop_between(net, sender, receiver_at(net, stream, place_of(net, target, j)))
            if not known[kind]:
                hopped[kind] = ports[port] * hops[kind]
                known[kind] = True
            add_scaled(probability, hopped[kind], arrived[j])


@inner
def _come_alike(
    stages: Stages, stream: int, ports: ComplexArray, hops: ComplexArray, arrived: ComplexArray
) -> None:
    """Add what comes over a stream whose sources route alike: put together by worker first."""
    net = stages.net
    target = net.streams[stream].target
    seats, size = arrived.shape
    workers = net.kind_between.shape[0]
    sent, come = (
        np.zeros((workers, size), dtype=np.complex128),
        np.zeros((workers, size), dtype=np.complex128),
    )
    used, known = np.zeros(workers, dtype=np.bool_), np.zeros(workers, dtype=np.bool_)
    for i in senders_of(net, stream):
        port = port_at(net, stream, i)
        if stages.rates.port[TUPLES, port] > 0:
            here = net.executors[sender_at(net, stream, i)].worker
            sent[here] += ports[port]
            used[here] = True
    for j in range(seats):
        probability = chance(net, stream, 0, j)
        if not probability > 0:
            continue
        there = net.executors[receiver_at(net, stream, place_of(net, target, j))].worker
        if not known[there]:
            known[there] = True
            for here in range(workers):
                if used[here]:
                    come[there] += sent[here] * hops[net.kind_between[here, there]]
        add_scaled(probability, come[there], arrived[j])


@inner
def _serve(stages: Stages, cls: int, step: float, waits: ComplexArray, arrived: ComplexArray) -> None:
    """Multiply by wait and service."""
    net = stages.net
    component, size = net.classes[cls].component, arrived.shape[1]
    local = np.zeros(size, dtype=np.complex128)
    known = -1.0
    for j in range(arrived.shape[0]):
        place = place_of(net, component, j)
        executor = net.components[component].first_executor + place
        slow = stages.service.slow[executor]
        if slow != known:
            service_cf(net, cls, slow, step, local)
            known = slow
        into, wait = arrived[j], waits[place]
        for k in range(size):
            into[k] *= local[k] * wait[k]


@inner
def _leave(stages: Stages, cls: int, arrived: ComplexArray, ports: ComplexArray, found: ComplexArray) -> None:
    """Add what leaves a component to its sink's total, or its outputs."""
    net = stages.net
    component = net.classes[cls].component
    for i in range(arrived.shape[0]):
        if net.components[component].sink:
            found[component] += arrived[i]
        for output in outputs_of(net, component):
            made = stages.rates.fan[MEAN_MADE, fan_at(net, cls, output)]
            add_scaled(made, arrived[i], ports[net.outputs[output].first_port + i])


@inner
def service_cf(net: Flat, cls: int, slow: float, step: float, found: ComplexArray) -> None:
    """Fill in the characteristic function of a class's service; CPU time takes ``slow`` times as long."""
    one, after = net.classes[cls], net.classes[cls + 1]
    wait = np.zeros(found.size, dtype=np.complex128)
    found[:] = 0.0
    add_atoms(net.atoms, one.first_cpu, after.first_cpu, slow, step, found)
    add_atoms(net.atoms, one.first_wait, after.first_wait, 1.0, step, wait)
    found *= wait


@inner
def serve_cf(stages: Stages, cls: int, executor: int, step: float, found: ComplexArray) -> None:
    """Fill in the characteristic function of waiting and service of a class at an executor."""
    service_cf(stages.net, cls, stages.service.slow[executor], step, found)
    times_wait(stages.flow.law[executor], step, found)


@inner
def times_output(stages: Stages, component: int, task: int, step: float, found: ComplexArray) -> None:
    """Multiply by the wait of a task's members for their first output."""
    slide = stages.net.components[component].slide
    if stages.net.components[component].kind == TIME_WINDOW:
        times_uniform(slide, step, found)
        return
    rate, index = stages.rates.task[TUPLES, task], window_index(stages, component, task)
    for k in range(1, found.size):
        gap = gap_log(rate, index, k * step)
        found[k] *= (1 - complex_exp(gap * slide)) / (1 - complex_exp(gap)) / slide
