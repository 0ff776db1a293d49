"""Threads that share a host's cores: how much longer than its CPU demand a tuple's service takes.

Threads with a total demand of a cores share c cores. A thread that wants to run sees the others as they are
at any time, and takes 1 / (1 - (a/c)^c) times its demand. That is exact for one and two cores with a thread
that never stops beside others that come and go; their number is then negative binomial. For more cores, the
law is within 3 % of Erlang's formula for the M/M/c queue with processor sharing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray, Layout

SPREAD_MS = 3.0
"""Time between executors' work on one message: sleeps and wake-ups, on the way from one to the next."""


class Hosts(NamedTuple):
    """Hosts of a plan, numbered from 0; a worker node with a CPU quota is one, whose machine others share.

    Attributes
    ----------
    of_worker : array (workers)
        Host of each worker process.
    cores : array (hosts)
        Of the machine.
    quota : array (hosts)
        Cores that its workers may use at most in each period of the quota; infinite without one.
    machine : array (hosts)
        Number of the machine whose cores it shares.
    """

    of_worker: IntArray
    cores: FloatArray
    quota: FloatArray
    machine: IntArray

    def added(self, by_worker: FloatArray) -> FloatArray:
        """Return each host's sum over its workers."""
        return np.bincount(self.of_worker, by_worker, self.cores.size).astype(np.float64)

    def of_others(self, cores: FloatArray) -> FloatArray:
        """Return how much of each host's machine the others use, given what each host uses.

        Exactly 0 where a host is alone on its machine.
        """
        return np.asarray(np.bincount(self.machine, weights=cores)[self.machine] - cores)


def hosts(layout: Layout) -> Hosts:
    """Return the hosts whose cores a plan's workers share."""
    nodes = layout.plan.node_names
    number: dict[tuple[str, str], int] = {}
    machines: dict[str, int] = {}
    cores: list[float] = []
    quotas: list[float] = []
    machine: list[int] = []
    of_worker = []
    for name, _ in layout.workers:
        node = nodes[name]
        quota = node.cpu_quota_cores
        key = (node.host, node.name if quota is not None else "")
        if key not in number:
            number[key] = len(cores)
            cores.append(node.cores)
            quotas.append(np.inf if quota is None or quota >= node.cores else quota)
            machine.append(machines.setdefault(node.host, len(machines)))
        of_worker.append(number[key])
    return Hosts(
        np.array(of_worker, dtype=np.int64),
        np.array(cores),
        np.array(quotas),
        np.array(machine, dtype=np.int64),
    )


def stretch(others_cores: FloatArray, cores: FloatArray, at_once: FloatArray | float = 0.0) -> FloatArray:
    """Return wall-clock time over CPU demand of threads whose host has other demand too.

    Parameters
    ----------
    others_cores : array
        Cores that all other threads of the host ask for, not negative.
    cores : array
        The host's cores; fewer than 1 slow down even a thread that is alone.
    at_once : array or float
        Others that are at work whenever the thread is. Up to one fewer than there are cores they leave it a
        core of its own that a third may want, from there on they share what is left for them. Exact for
        whole numbers and two cores; between them it is on a line.

    Returns
    -------
    array
        At least 1; infinite where the others ask for all cores or more.

    Examples
    --------
    Two cores, of which the others want one: every fourth time a third thread is in the way.

    >>> stretch(np.array([0.0, 1.0, 2.0]), np.array(2.0)).round(4).tolist()
    [1.0, 1.3333, inf]

    Where one other is always at work, any third is in the way.

    >>> stretch(np.array([0.0, 1.0]), np.array(2.0), 1.0).round(4).tolist()
    [1.0, 2.0]
    """
    load = np.minimum(np.asarray(others_cores / cores, dtype=np.float64), 1.0)
    there = np.maximum(cores, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = np.maximum(1.0, 1.0 / cores) / (1.0 - load**there)
        crowded = np.maximum(1.0, 1.0 / cores) / (1.0 - load)
        between = alone + at_once / (there - 1.0) * (crowded - alone)
        beyond = crowded * (1.0 + at_once) / there
        return np.asarray(np.where(load < 1.0, np.where(at_once < there - 1.0, between, beyond), np.inf))


def at_once(work_ms: FloatArray, host: IntArray, together: float) -> FloatArray:
    """Return how many others are at work on messages that come together whenever an executor is.

    While one executor works on one message, the others of its host have the other messages to work on. They
    have them for as long as the busiest needs for all messages and a message is on its way. Fitted to
    fields-to-fields and noise-floor (docs/model.md, 'CPU').

    Parameters
    ----------
    work_ms : array (executors)
        CPU that each has of a message, on average over all messages.
    host : array (executors)
    together : float
        Messages that come together, at least 1.

    Examples
    --------
    >>> at_once(np.array([1.5, 1.5, 1.5]), np.array([0, 0, 0]), 2.0)
    array([0.5, 0.5, 0.5])
    >>> at_once(np.array([1.5, 1.5]), np.array([0, 0]), 1.0)  # one message is at one executor at a time
    array([0., 0.])
    """
    more_ms = work_ms * (together - 1.0)
    others_ms = np.bincount(host, weights=more_ms)[host] - more_ms
    return np.asarray(others_ms / (together * work_ms.max(initial=0.0) + SPREAD_MS), dtype=np.float64)


def others_cores(stretched: float, cores: float) -> float:
    """Return the demand of the others that explains a stretch; the inverse of ``stretch``.

    Examples
    --------
    >>> round(others_cores(4 / 3, 2.0), 9)
    1.0
    """
    alone = max(1.0, 1.0 / cores)
    if stretched <= alone:
        return 0.0
    return float(cores * (1.0 - alone / stretched) ** (1.0 / max(cores, 1.0)))
