"""Stretch of tuples' CPU time, where executors share a host's cores.

Threads in need of a core share them equally, none getting more than one. Executors are the sources of a
closed processor-sharing system: one that serves a tuple needs a core for the tuple's CPU time, one that waits
or idles does not.

Each executor has odds r of needing a core. The probability that the executors of a set S need one at once is
proportional to the product of their odds times prod_{k <= |S|} max(1, k / cores). The last factor depends on
the number of the executors only. So the elementary symmetric functions of the odds give all that is asked.
The odds follow from the rates, as starts equal arrivals: r = rate x CPU / (1 - P(needs a core)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.models import contention as law
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.indices import ackers_of, cell_at, executor_count
from harness.models.solver.rates import TUPLES, Rates
from harness.models.solver.records import Flat, Records

_ROUNDS = 60
_CLOSE = 1e-7
_MOST = 120


class Contention(NamedTuple):
    """CPU use.

    Attributes
    ----------
    stretch : array (executors and ackers)
        Time on a core's queue over CPU time; infinite where the host's cores do not suffice.
    cores : array (executors and ackers)
        Cores that the executor's tuples need.
    host_load : array (hosts)
        Cores needed over cores left by all else, or by the node's CPU quota.
    """

    stretch: FloatArray
    cores: FloatArray
    host_load: FloatArray


def cores_needed(net: Flat, rates: Rates) -> FloatArray:
    """Return the cores that each executor's tuples need, and each acker's messages."""
    needed = np.zeros(net.executors.size)
    _demand(net, rates, needed)
    return needed


def contention(net: Flat, cores: FloatArray, given: FloatArray | None = None) -> Contention:
    """Return the CPU use.

    Parameters
    ----------
    cores : array (executors and ackers)
        Needed.
    given : array (executors and ackers), optional
        Stretch, which whoever made the network knows better.
    """
    stretch, load = _shared(net, cores, given is not None)
    return Contention(stretch if given is None else given, cores, load)


def stretch_at(
    net: Flat, cores: FloatArray, given: FloatArray | None = None
) -> Callable[[float], FloatArray]:
    """Return the stretch when all rates are multiplied by a factor, as a function of that.

    Parameters
    ----------
    cores, given
        As for ``contention``, at the rates themselves. At others what is given is changed as
        ``harness.models.contention`` says, by all other demand on the host.
    """
    if given is None:
        return lambda factor: _shared(net, cores * factor, False)[0]
    host = net.executors["host"]
    background, there = net.hosts["background"], net.hosts["cores"][host]

    def by_law(needed: FloatArray) -> FloatArray:
        on_host = np.bincount(host, weights=needed, minlength=net.hosts.size) + background
        return law.stretch(on_host[host] - needed, there)

    own = by_law(cores)
    known = np.isfinite(given) & np.isfinite(own)
    beyond = np.divide(given, own, out=np.ones(own.size), where=known)
    return lambda factor: np.maximum(beyond * by_law(cores * factor), 1.0)


def _shared(net: Flat, needed: FloatArray, known: bool) -> tuple[FloatArray, FloatArray]:
    """Return executors' stretch, which may be ``known`` otherwise, and hosts' loads."""
    stretch, load = np.ones(needed.size), np.zeros(net.hosts.size)
    host = np.ascontiguousarray(net.executors["host"])
    free = net.hosts["cores"] - net.hosts["background"]
    _share(host, needed, (free, np.minimum(free, net.hosts["quota"])), known, stretch, load)
    return stretch, load


@compiled
def _demand(net: Flat, rates: Rates, needed: FloatArray) -> None:
    for cls in range(net.classes.size - 1):
        component = net.classes[cls].component
        mean = _mean(net.atoms[net.classes[cls].first_cpu : net.classes[cls + 1].first_cpu])
        for i in range(executor_count(net, component)):
            executor = net.components[component].first_executor + i
            needed[executor] += rates.cell[TUPLES, cell_at(net, cls, i)] * mean
    mean, ackers = _mean(net.atoms[net.acker_atoms : net.last_atom]), ackers_of(net)
    for acker in ackers:
        needed[acker] = rates.acks / len(ackers) * mean


@inlined
def _mean(atoms: Records) -> float:
    found = 0.0
    for i in range(atoms.size):
        found += atoms[i].value * atoms[i].probability
    return found


@compiled
def _share(
    host: IntArray,
    needed: FloatArray,
    room: tuple[FloatArray, FloatArray],
    known: bool,
    stretch: FloatArray,
    load: FloatArray,
) -> None:
    """Fill in the hosts' loads and, where it is not ``known`` otherwise, the stretch.

    ``room``: cores that all else leaves free, and those that may be used at most.
    """
    free, most = room
    for number in range(free.size):
        mine = np.flatnonzero((host == number) & (needed > 0))
        demand = needed[mine]
        total = demand.sum()
        load[number] = total / most[number] if most[number] > 0 else (np.inf if total > 0 else 0.0)
        if load[number] >= 1:
            stretch[mine] = np.inf
        elif mine.size and not known:
            stretch[mine] = _stretch(demand, free[number])


@inlined
def _weight(number: int, free: float) -> float:
    return max(1.0, number / free)


@inner
def _stretch(demand: FloatArray, free: float) -> FloatArray:
    executors = demand.size
    busy = np.minimum(demand, 0.999)
    odds = np.zeros(executors)
    for rounds in range(_ROUNDS):
        share = np.zeros(executors)
        mean = variance = 0.0
        for i in range(executors):
            odds[i] = demand[i] / (1 - busy[i])
            share[i] = odds[i] / (1 + odds[i])
            mean += share[i]
            variance += share[i] * (1 - share[i])
        most = min(executors, int(mean + 10 * math.sqrt(variance) + 10), _MOST)
        number = _poisson_binomial(share, -1, most)
        scale = np.ones(most + 2)
        for k in range(1, most + 2):
            scale[k] = scale[k - 1] * _weight(k, free)
        whole = 0.0
        for k in range(most + 1):
            whole += number[k] * scale[k]
        change = 0.0
        for i in range(executors):
            own = share[i]
            found = 0.0
            if own < 0.5:
                without = 0.0
                for k in range(most + 1):
                    without = max((number[k] - own * without) / (1 - own), 0.0)
                    found += without * scale[k + 1]
            else:
                others = _poisson_binomial(share, i, most)
                for k in range(most + 1):
                    found += others[k] * scale[k + 1]
            found = min(own * found / whole, 0.9999)
            step = found if rounds < 8 else 0.5 * (found + busy[i])
            change = max(change, abs(step - busy[i]))
            busy[i] = step
        if change < _CLOSE:
            break
    return np.maximum(busy / demand, 1.0)  # asked for more than a core: it falls behind


@inner
def _poisson_binomial(share: FloatArray, left_out: int, most: int) -> FloatArray:
    """Return the probabilities that 0, 1, ... of independent events happen, one event left out."""
    found = np.zeros(most + 1)
    found[0] = 1.0
    for i in range(share.size):
        if i != left_out:
            own = share[i]
            for k in range(min(i + 1, most), 0, -1):
                found[k] = found[k] * (1 - own) + found[k - 1] * own
            found[0] *= 1 - own
    return found
