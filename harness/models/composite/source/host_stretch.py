"""Stretch of tuples on the source's hosts: wall-clock over CPU time, as far as contention is the cause.

Every component's ratio of the two is the stretch or more, since a tuple may also wait. The source shows its
stretch in two ways, told apart here:

- Its workers' CPU use gives a stretch by the law of ``contention``. A constant stands for the other processes
  of the host (brokers, supervisors, the harness) that get in the way.
- The ratio of its component that waits least is the stretch. The part of that ratio over the law's stretch is
  taken as the topology's own and goes with the topology to other plans. Executors at work at once, as
  messages come together, are in the law (``contention.at_once``), since they differ by plan.

A sink's client waits in every send, so a sink's ratio is a bound only. Bolts that wait for most of their time
show no stretch. Where no bolt shows one, the law alone is taken, and the interval is wide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.errors import ModelDeclined
from harness.models import contention
from harness.models.composite.background import WORKER_CORES
from harness.models.composite.source.evidence import Evidence
from harness.models.contract.layout import FloatArray, Layout
from harness.models.quotas import quota_stretch

HIDDEN_CORES = 0.3
"""Cores of a host that its other processes take from the workers' threads (docs/model.md, 'CPU')."""
MOSTLY_WAITS = 2.0
"""A ratio this many times the least is of a bolt that waits for most of its time."""
MOST_OF_QUOTA = 0.95
"""Share of a quota that the source's workers asked for at most: it ran."""
SPREAD = 0.2
"""Standard deviation of the logarithm of stretch over law, over the runs that it was looked at in."""


class HostStretch(NamedTuple):
    """Contention that the source shows.

    Attributes
    ----------
    stretched : float
        Wall-clock over CPU time of a tuple's computing in the source, at least 1.
    beyond : float, optional
        That over what the law says of the source's CPU use, where no bolt says it and the law is taken.
    """

    stretched: float
    beyond: float | None


def host_stretch(evidence: Evidence, weights: FloatArray, luck: float = 0.0) -> HostStretch:
    """Return the source's stretch.

    Parameters
    ----------
    weights : array (blocks)
    luck : float
        A number of standard deviations (0 for the estimate itself) by which the stretch is off what is
        assumed where nothing says it.

    Raises
    ------
    ModelDeclined
        As ``beyond_law``.
    """
    ratios: dict[str, float] = {}
    for name, sums in evidence.service.items():
        wall_ms, cpu_ms = float((sums.wall_ms @ weights).sum()), float((sums.cpu_ms @ weights).sum())
        if cpu_ms > 0 and wall_ms > 0:
            ratios[name] = wall_ms / cpu_ms
    most = max(min(ratios.values(), default=np.inf), 1.0)
    bolts = [ratio for name, ratio in ratios.items() if name not in evidence.plan.query_plan.sinks]
    if min(bolts, default=np.inf) < MOSTLY_WAITS * most:
        return HostStretch(most, None)
    workers = _worker_cores(evidence, weights)
    by_law = _law(evidence, workers)
    stretched = max(min(by_law * float(np.exp(SPREAD * luck)), most), 1.0)
    return HostStretch(stretched, beyond_law(evidence, stretched, workers))


def beyond_law(evidence: Evidence, stretched: float, workers: FloatArray, at_once: float = 0.0) -> float:
    """Return a stretch over the law's stretch for the source's CPU use.

    Parameters
    ----------
    workers : array (workers)
        Cores in use by each.
    at_once : float
        Others at work whenever an executor is, on average.

    Raises
    ------
    ModelDeclined
        When more was measured than their hosts have. Where it is assumed, the law is taken instead.
    """
    by_law = _law(evidence, workers, at_once)
    if np.isfinite(by_law):
        return stretched / by_law
    if evidence.worker_cores is None:
        return 1.0
    raise ModelDeclined("workers used more CPU than their hosts have: what contention did cannot be told")


def _law(evidence: Evidence, workers: FloatArray, at_once: float = 0.0) -> float:
    """Return the law's stretch, averaged over workers; infinite where they use more than there is."""
    hosts = contention.hosts(evidence.layout)
    own = hosts.added(workers)
    used = own + hosts.of_others(own)
    left = np.maximum(hosts.cores - used, 0.0)
    asked = used + np.minimum(HIDDEN_CORES, left / 2)  # not all: the source ran
    stretch = contention.stretch(asked, hosts.cores, at_once)
    if np.isfinite(hosts.quota).any():
        tuples = hosts.added(_tuples_cores(evidence, np.ones(evidence.blocks), np.zeros(workers.size)))
        served_tps = hosts.added(_tuples_tps(evidence))
        under = np.minimum(own, MOST_OF_QUOTA * hosts.quota)
        served = (np.minimum(tuples, under), served_tps)
        stretch = stretch * quota_stretch(under, served, hosts.quota, evidence.rate_tps)
    return float(stretch[hosts.of_worker].mean())


def explained(layout: Layout, stretched: float) -> float:
    """Return the cores that all workers have to use for the law to give a stretch."""
    hosts = contention.hosts(layout)
    machines = [hosts.cores[np.argmax(hosts.machine == m)] for m in range(hosts.machine.max() + 1)]
    asked = sum(contention.others_cores(stretched, float(c)) for c in machines)
    return max(asked - HIDDEN_CORES * float(len(machines)), 0.0)


def _worker_cores(evidence: Evidence, weights: FloatArray) -> FloatArray:
    """Return what each worker used; its executors' demand, where that was not measured."""
    workers = np.full(len(evidence.layout.workers), WORKER_CORES)
    if evidence.worker_cores is None:
        return _tuples_cores(evidence, weights, workers)
    known = ~np.isnan(evidence.worker_cores) * weights
    covered = known.sum(axis=1)
    busy = np.nan_to_num(evidence.worker_cores * known).sum(axis=1)
    np.divide(busy, covered, out=workers, where=covered > 0)
    return workers


def _tuples_cores(evidence: Evidence, weights: FloatArray, others: FloatArray) -> FloatArray:
    """Return the cores that bolts' tuples take in each worker, and others."""
    found = others.copy()
    for name, sums in evidence.service.items():
        own = evidence.layout.membership[name] @ (sums.cpu_ms @ weights)
        at = evidence.layout.worker[evidence.layout.of[name]]
        found += np.bincount(at, weights=own, minlength=found.size) / (1000 * evidence.seconds)
    return found


def _tuples_tps(evidence: Evidence) -> FloatArray:
    """Return the tuples a second that bolts serve in each worker."""
    found = np.zeros(len(evidence.layout.workers))
    for name, sums in evidence.service.items():
        own = evidence.layout.membership[name] @ sums.count.sum(axis=1)
        at = evidence.layout.worker[evidence.layout.of[name]]
        found += np.bincount(at, weights=own, minlength=found.size) / evidence.seconds
    return found
