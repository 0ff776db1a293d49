"""Moments of the time that a tuple of each class takes at each executor, stretched by contention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, Service
from harness.models.solver.compiled import compiled, inlined
from harness.models.solver.rates import TUPLES, Rates
from harness.models.solver.records import Flat, Records


class ServiceMoments(NamedTuple):
    """Times of service by the wall clock.

    Attributes
    ----------
    slow : array (executors and ackers)
        Contention's stretch of CPU time; 1 where there is none to speak of because the host is overloaded.
    cell : array (cells, 3)
        Raw moments of one tuple's service, without a sink's own client.
    hold : array (executors and ackers, 3)
        Raw moments of the time that a tuple holds its executor, over classes.
    rate : array (executors and ackers)
        Tuples a ms.
    load : array (executors and ackers)
        Share of time that the executor is held.
    send : array (components, 3)
    hop : array (kinds, 3)
        Raw moments.
    """

    slow: FloatArray
    cell: FloatArray
    hold: FloatArray
    rate: FloatArray
    load: FloatArray
    send: FloatArray
    hop: FloatArray


def service(f: Flat, r: Rates, stretch: FloatArray) -> ServiceMoments:
    """Return the times of service, given how contention stretches CPU time."""
    everybody = f.executor.size
    cell, hold = np.zeros((f.klass["first_cell"][-1], 3)), np.zeros((everybody, 3))
    rate, send, hop = (
        np.zeros(everybody),
        np.zeros((f.component.size - 1, 3)),
        np.zeros((f.first_hop.size - 1, 3)),
    )
    slow = np.where(np.isfinite(stretch), stretch, 1.0)
    fill_service(f, r, slow, 0, everybody, cell, hold, rate, send, hop)
    return ServiceMoments(slow, cell, hold, rate, rate * hold[:, 0], send, hop)


def service_levels(
    services: Sequence[Service],
    share: FloatArray,
    send: Atoms | None,
    factors: FloatArray,
    levels: FloatArray,
) -> FloatArray:
    """Return quantiles of the time that a tuple holds an executor.

    Parameters
    ----------
    services : sequence of harness.models.network.Service
        By input.
    share : array (inputs)
        Of the tuples.
    send : Atoms, optional
        A sink's own client.
    factors : array (n, 2)
        Of CPU time and of waiting, by executor.
    levels : array

    Returns
    -------
    array (n, levels)
    """
    on_core, off_core = (f[:, None, None] for f in factors.T)
    values, weights = [], []
    for s, w in zip(services, share, strict=True):
        value = (on_core * s.cpu_ms.values_ms[:, None] + off_core * s.wait_ms.values_ms).reshape(
            len(factors), -1
        )
        weight = (s.cpu_ms.probabilities[:, None] * s.wait_ms.probabilities).ravel()
        if send is not None:
            value = (value[:, :, None] + send.values_ms).reshape(len(factors), -1)
            weight = (weight[:, None] * send.probabilities).ravel()
        values.append(value)
        weights.append(w * weight)
    value, weight = np.concatenate(values, axis=1), np.concatenate(weights)
    order = np.argsort(value, axis=1, kind="stable")
    value, ranked = np.take_along_axis(value, order, axis=1), weight[order]
    middle = np.cumsum(ranked, axis=1) - ranked / 2
    wanted = levels * weight.sum()
    return np.array([np.interp(wanted, m, v) for m, v in zip(middle, value, strict=True)])


@inlined
def _moments(atoms: Records, found: FloatArray) -> None:
    found[:] = 0.0
    for i in range(atoms.size):
        v, p = atoms[i].value, atoms[i].p
        found[0] += p * v
        found[1] += p * v * v
        found[2] += p * v * v * v


@inlined
def _sum(a: FloatArray, x: float, b: FloatArray, y: float, found: FloatArray) -> None:
    """Fill in the moments of x A + y B."""
    a1, a2, a3 = x * a[0], x * x * a[1], x * x * x * a[2]
    b1, b2, b3 = y * b[0], y * y * b[1], y * y * y * b[2]
    found[0] = a1 + b1
    found[1] = a2 + 2 * a1 * b1 + b2
    found[2] = a3 + 3 * a2 * b1 + 3 * a1 * b2 + b3


@compiled
def fill_service(f: Flat, r: Rates, slow: FloatArray, begin: int, end: int, cell: FloatArray,
                 hold: FloatArray, rate: FloatArray, send: FloatArray, hop: FloatArray) -> None:  # fmt: skip
    """Fill in what ``ServiceMoments`` has, of some executors: those from ``begin`` on and before ``end``."""
    cpu, wait, whole = np.zeros(3), np.zeros(3), np.zeros(3)
    hold[begin:end] = 0.0
    rate[begin:end] = 0.0
    for c in range(f.component.size - 1):
        _moments(f.atom[f.component[c].first_send : f.component[c + 1].first_send], send[c])
    for k in range(hop.shape[0]):
        _moments(f.atom[f.first_hop[k] : f.first_hop[k + 1]], hop[k])
    for k in range(f.klass.size - 1):
        c = f.klass[k].component
        first, last = max(begin, f.component[c].first_executor), min(end, f.component[c + 1].first_executor)
        if first >= last:
            continue
        _moments(f.atom[f.klass[k].first_cpu : f.klass[k + 1].first_cpu], cpu)
        _moments(f.atom[f.klass[k].first_wait : f.klass[k + 1].first_wait], wait)
        for e in range(first, last):
            at = f.klass[k].first_cell + e - f.component[c].first_executor
            _sum(cpu, f.executor[e].scale * slow[e], wait, f.executor[e].scale, cell[at])
            _sum(cell[at], 1.0, send[c], 1.0, whole)
            rate[e] += r.cell[TUPLES, at]
            hold[e] += r.cell[TUPLES, at] * whole
    ackers, first = rate.size - f.first_acker, max(begin, f.first_acker)
    if first < end:
        _moments(f.atom[f.acker_atoms : f.last_atom], cpu)
        wait[:] = 0.0
        for e in range(first, end):
            _sum(cpu, f.executor[e].scale * slow[e], wait, 0.0, whole)
            hold[e] = r.acks / ackers * whole
        rate[first:end] = r.acks / ackers
    for e in range(begin, end):
        if rate[e] > 0:
            hold[e] /= rate[e]
