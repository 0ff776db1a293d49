"""From the spouts to the sinks: the distribution of the time, as characteristic functions on a grid."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.batching import times_hold
from harness.models.solver.compiled import compiled, inner
from harness.models.solver.forward import Stages, window_index, window_step
from harness.models.solver.holding import batched, near
from harness.models.solver.products import add_scaled
from harness.models.solver.rates import MEAN_MADE, ROWS, TUPLES
from harness.models.solver.records import Flat
from harness.models.solver.spectrum import (
    ComplexArray,
    add_atoms,
    complex_exp,
    gap_log,
    times_uniform,
    times_wait,
)
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW


def spectra(g: Stages, through: FloatArray, size: int, span: float) -> ComplexArray:
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
    found = np.zeros((g.f.component.size - 1, size), dtype=np.complex128)
    ports = np.zeros((g.f.output["first_port"][-1], size), dtype=np.complex128)
    fill_spectra(g, through, np.pi / span, ports, found)
    return found


@compiled
def fill_spectra(
    g: Stages, through: FloatArray, step: float, ports: ComplexArray, found: ComplexArray
) -> None:
    """Fill in what leaves on each port, and what comes to each sink; frequencies are ``step`` apart."""
    f = g.f
    size = ports.shape[1]
    hops = np.zeros((f.first_hop.size - 1, size), dtype=np.complex128)
    for kind in range(hops.shape[0]):
        add_atoms(f.atom, f.first_hop[kind], f.first_hop[kind + 1], 1.0, step, hops[kind])
    for c in range(f.component.size - 1):
        one, after = f.component[c], f.component[c + 1]
        window = one.kind >= COUNT_WINDOW
        tasks = np.zeros((after.first_task - one.first_task if window else 0, size), dtype=np.complex128)
        waits = np.empty((after.first_executor - one.first_executor, size), dtype=np.complex128)
        for i in range(waits.shape[0]):
            waits[i] = through[one.first_executor + i]
            if one.kind != SPOUT:
                times_wait(g.w.law[one.first_executor + i], step, waits[i])
        for cls in range(one.first_class, after.first_class):
            arrived = tasks
            if window:
                here = np.zeros(tasks.shape, dtype=np.complex128)
                _come(g, cls, step, ports, hops, here)
                _serve(g, cls, step, waits, here)
                tasks += here
                continue
            arrived = np.zeros(waits.shape, dtype=np.complex128)
            if one.kind == SPOUT:
                for i in range(arrived.shape[0]):
                    arrived[i] += g.r.cell[ROWS, f.klass[cls].first_cell + i] * waits[i]
            else:
                _come(g, cls, step, ports, hops, arrived)
                _serve(g, cls, step, waits, arrived)
            _leave(g, c, cls, arrived, ports, found)
        if window:
            fired = np.zeros(waits.shape, dtype=np.complex128)
            for t in range(tasks.shape[0]):
                if g.r.task[TUPLES, one.first_task + t] > 0:
                    times_output(g, c, one.first_task + t, step, tasks[t])
                    fired[f.task[one.first_task + t].executor] += tasks[t]
            _leave(g, c, one.first_class, fired, ports, found)


@inner
def _come(
    g: Stages, cls: int, step: float, ports: ComplexArray, hops: ComplexArray, arrived: ComplexArray
) -> None:
    """Add what comes over a stream, by the target's executors, or by its tasks where these hold windows."""
    f = g.f
    s = f.stream[f.klass[cls].stream]
    if s.alike and not batched(f):
        _come_alike(g, cls, ports, hops, arrived)
        return
    source, target = f.component[s.source], f.component[s.target]
    by_task = target.kind >= COUNT_WINDOW
    executors = f.component[s.target + 1].first_executor - target.first_executor
    seats, size = arrived.shape
    h, held = g.w.holds, np.zeros(size, dtype=np.complex128)
    hopped = np.zeros(hops.shape, dtype=np.complex128)
    gathered = np.zeros((seats if h.gather.shape[0] else 0, size), dtype=np.complex128)
    for i in range(f.component[s.source + 1].first_executor - source.first_executor):
        port, e = f.output[s.output].first_port + i, source.first_executor + i
        if not g.r.port[TUPLES, port] > 0:
            continue
        known = np.zeros(hops.shape[0], dtype=np.bool_)
        for j in range(seats):
            to = f.task[target.first_task + j].executor if by_task else j
            at = s.first_link + i * executors + to
            share = f.share[s.first_share + i * s.share_step + to]
            p = f.route[s.first_route + i * s.route_step + j] if by_task else share
            if not p > 0:
                continue
            other = target.first_executor + to
            kind, here = f.kind_between[f.executor[e].worker, f.executor[other].worker], near(f, e, other)
            if not known[kind]:
                hopped[kind] = ports[port] * hops[kind]
                if h.out.shape[0] and not here:
                    times_hold(h.out[e], step, hopped[kind])
                known[kind] = True
            way = hopped[kind]
            into = gathered[j] if h.gather.shape[0] and not here else arrived[j]
            if h.link.shape[0] and here:
                held[:] = way
                times_hold(h.link[at], step, held)
                way = held
            add_scaled(p, way, into)
    for j in range(gathered.shape[0]):
        if gathered[j, 0].real > 0:
            to = f.task[target.first_task + j].executor if by_task else j
            times_hold(h.gather[target.first_executor + to], step, gathered[j])
            arrived[j] += gathered[j]


@inner
def _come_alike(g: Stages, cls: int, ports: ComplexArray, hops: ComplexArray, arrived: ComplexArray) -> None:
    """Add what comes over a stream whose sources route alike: put together by worker first."""
    f = g.f
    s = f.stream[f.klass[cls].stream]
    source, target = f.component[s.source], f.component[s.target]
    by_task = target.kind >= COUNT_WINDOW
    seats, size = arrived.shape
    workers = f.kind_between.shape[0]
    sent, come = (
        np.zeros((workers, size), dtype=np.complex128),
        np.zeros((workers, size), dtype=np.complex128),
    )
    used, known = np.zeros(workers, dtype=np.bool_), np.zeros(workers, dtype=np.bool_)
    for i in range(f.component[s.source + 1].first_executor - source.first_executor):
        port = f.output[s.output].first_port + i
        if g.r.port[TUPLES, port] > 0:
            here = f.executor[source.first_executor + i].worker
            sent[here] += ports[port]
            used[here] = True
    for j in range(seats):
        to = f.task[target.first_task + j].executor if by_task else j
        p = f.route[s.first_route + j] if by_task else f.share[s.first_share + j]
        if not p > 0:
            continue
        there = f.executor[target.first_executor + to].worker
        if not known[there]:
            known[there] = True
            for here in range(workers):
                if used[here]:
                    come[there] += sent[here] * hops[f.kind_between[here, there]]
        add_scaled(p, come[there], arrived[j])


@inner
def _serve(g: Stages, cls: int, step: float, waits: ComplexArray, arrived: ComplexArray) -> None:
    """Multiply by wait and service."""
    f = g.f
    one = f.component[f.klass[cls].component]
    size = arrived.shape[1]
    local = np.zeros(size, dtype=np.complex128)
    known = -1.0
    for j in range(arrived.shape[0]):
        i = f.task[one.first_task + j].executor if one.kind >= COUNT_WINDOW else j
        e = one.first_executor + i
        factor = g.s.slow[e] * f.executor[e].scale
        if factor != known:
            service_cf(f, cls, factor, f.executor[e].scale, step, local)
            known = factor
        into, wait = arrived[j], waits[i]
        for k in range(size):
            into[k] *= local[k] * wait[k]


@inner
def _leave(
    g: Stages, c: int, cls: int, arrived: ComplexArray, ports: ComplexArray, found: ComplexArray
) -> None:
    """Add what leaves a component to its sink's total, or its outputs."""
    f = g.f
    one = f.component[c]
    for i in range(arrived.shape[0]):
        if one.sink:
            found[c] += arrived[i]
        for o in range(one.first_output, f.component[c + 1].first_output):
            made = g.r.fan[MEAN_MADE, f.klass[cls].first_fan + o - one.first_output]
            add_scaled(made, arrived[i], ports[f.output[o].first_port + i])


@inner
def service_cf(f: Flat, cls: int, on_core: float, off_core: float, step: float, found: ComplexArray) -> None:
    """Fill in the characteristic function of a class's service."""
    wait = np.zeros(found.size, dtype=np.complex128)
    found[:] = 0.0
    add_atoms(f.atom, f.klass[cls].first_cpu, f.klass[cls + 1].first_cpu, on_core, step, found)
    add_atoms(f.atom, f.klass[cls].first_wait, f.klass[cls + 1].first_wait, off_core, step, wait)
    found *= wait


@inner
def serve_cf(g: Stages, cls: int, e: int, step: float, found: ComplexArray) -> None:
    """Fill in the characteristic function of waiting and service of a class at an executor."""
    scale = g.f.executor[e].scale
    service_cf(g.f, cls, g.s.slow[e] * scale, scale, step, found)
    times_wait(g.w.law[e], step, found)


@inner
def times_output(g: Stages, c: int, t: int, step: float, found: ComplexArray) -> None:
    """Multiply by the wait of a task's members for their first output."""
    slide = g.f.component[c].slide
    if g.f.component[c].kind == TIME_WINDOW:
        times_uniform(slide, step, found)
        return
    index, places = window_index(g, c, t), window_step(g, c, t)
    for k in range(1, found.size):
        gap = gap_log(g.r.task[TUPLES, t], index, k * step)
        found[k] *= (1 - complex_exp(gap * slide)) / (1 - complex_exp(gap * places)) * places / slide
