"""Moments of the time that a tuple of each class takes at each executor, stretched by contention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, Service
from harness.models.solver.compiled import compiled, inlined
from harness.models.solver.indices import ackers_of, cell_at, executors_of
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


def service(net: Flat, rates: Rates, stretch: FloatArray) -> ServiceMoments:
    """Return the times of service, given how contention stretches CPU time."""
    everybody = net.executors.size
    found = ServiceMoments(
        slow=np.where(np.isfinite(stretch), stretch, 1.0),
        cell=np.zeros((net.classes["first_cell"][-1], 3)),
        hold=np.zeros((everybody, 3)),
        rate=np.zeros(everybody),
        load=np.zeros(everybody),
        send=np.zeros((net.components.size - 1, 3)),
        hop=np.zeros((net.first_hop.size - 1, 3)),
    )
    fill_service(net, rates, 0, everybody, found)
    return found


def service_levels(
    services: Sequence[Service],
    share: FloatArray,
    send: Atoms | None,
    slow: FloatArray,
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
    slow : array (n)
        How many times as long as on a core of its own CPU time takes, by executor.
    levels : array

    Returns
    -------
    array (n, levels)
    """
    values, weights = [], []
    for s, w in zip(services, share, strict=True):
        on_core = slow[:, None, None] * s.cpu_ms.values_ms[:, None]
        value = (on_core + s.wait_ms.values_ms).reshape(slow.size, -1)
        weight = (s.cpu_ms.probabilities[:, None] * s.wait_ms.probabilities).ravel()
        if send is not None:
            value = (value[:, :, None] + send.values_ms).reshape(slow.size, -1)
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
        value, probability = atoms[i].value, atoms[i].probability
        found[0] += probability * value
        found[1] += probability * value * value
        found[2] += probability * value * value * value


@inlined
def _sum(one: FloatArray, factor: float, other: FloatArray, found: FloatArray) -> None:
    """Fill in the moments of the sum of two independent times, the first times a factor."""
    mean, square, cube = factor * one[0], factor * factor * one[1], factor * factor * factor * one[2]
    found[0] = mean + other[0]
    found[1] = square + 2 * mean * other[0] + other[1]
    found[2] = cube + 3 * square * other[0] + 3 * mean * other[1] + other[2]


@compiled
def fill_service(net: Flat, rates: Rates, begin: int, end: int, found: ServiceMoments) -> None:
    """Fill in all but ``slow`` of some executors: those from ``begin`` on and before ``end``."""
    cpu, wait, whole = np.zeros(3), np.zeros(3), np.zeros(3)
    slow, cell, hold, rate = found.slow, found.cell, found.hold, found.rate
    hold[begin:end] = 0.0
    rate[begin:end] = 0.0
    for component in range(net.components.size - 1):
        first, last = net.components[component].first_send, net.components[component + 1].first_send
        _moments(net.atoms[first:last], found.send[component])
    for kind in range(found.hop.shape[0]):
        _moments(net.atoms[net.first_hop[kind] : net.first_hop[kind + 1]], found.hop[kind])
    for cls in range(net.classes.size - 1):
        one, after = net.classes[cls], net.classes[cls + 1]
        executors = executors_of(net, one.component)
        first, last = max(begin, executors.start), min(end, executors.stop)
        if first >= last:
            continue
        _moments(net.atoms[one.first_cpu : after.first_cpu], cpu)
        _moments(net.atoms[one.first_wait : after.first_wait], wait)
        for executor in range(first, last):
            at = cell_at(net, cls, executor - executors.start)
            _sum(cpu, slow[executor], wait, cell[at])
            _sum(cell[at], 1.0, found.send[one.component], whole)
            rate[executor] += rates.cell[TUPLES, at]
            hold[executor] += rates.cell[TUPLES, at] * whole
    ackers, first = len(ackers_of(net)), max(begin, net.first_acker)
    if first < end:
        _moments(net.atoms[net.acker_atoms : net.last_atom], cpu)
        wait[:] = 0.0
        for acker in range(first, end):
            _sum(cpu, slow[acker], wait, whole)
            hold[acker] = rates.acks / ackers * whole
        rate[first:end] = rates.acks / ackers
    for executor in range(begin, end):
        if rate[executor] > 0:
            hold[executor] /= rate[executor]
        found.load[executor] = rate[executor] * hold[executor, 0]
