"""Executors, workers, worker nodes and links of a plan that are full first as the rate grows.

An executor's busy share and a worker's CPU are predicted by the composite model. Heap and bytes are the
source's measurements, laid out as the plan would have them. A worker with nothing to do uses CPU, too, so CPU
is predicted at two rates and taken to grow along the line through both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan, Worker
from harness.protocols import Estimate, NodeAmounts, Observation, Resource
from harness.schedulers.loads import node_capacity_cores, sum_of_tasks
from harness.schedulers.resource_loads import task_heap_mb
from harness.schedulers.traffic import task_traffic
from harness.schemas import Measure

MOST_LIMITS = 5
"""Subjects nearest to full that are listed."""
LOWER = 0.5
"""The second rate at which CPU is predicted, over the asked one: what is not full here is not full there."""
BUSY: Literal["time"] = "time"

Means = Mapping[tuple[str, str], float | None]
"""Predicted means by measure and subject."""


@dataclass(frozen=True)
class PlanLimit:
    """A subject that fills up as the rate grows.

    Attributes
    ----------
    subject : str
        An executor, a worker or a worker node, by its label.
    resource : {"time", "cpu", "heap", "sent"}
        What of it fills up: an executor's time, CPU of a worker or node, a worker's heap, bytes that a node
        sends to others.
    utilisation : float
        Share in use at the asked rate.
    max_rate_tps : float, optional
        Messages a second at which it is full. None of heap, as nothing says how it grows, and of CPU that
        does not grow.
    """

    subject: str
    resource: str
    utilisation: float
    max_rate_tps: float | None

    @property
    def words(self) -> str:
        """The subject, with its resource where it may have several."""
        return self.subject if self.resource == BUSY else f"{self.subject} ({self.resource})"

    @property
    def full_at(self) -> str:
        """The rate at which it is full, in words; empty where nobody knows one."""
        return "" if self.max_rate_tps is None else f", full at {self.max_rate_tps:.0f} messages/s"


class Filling(NamedTuple):
    """A subject that is in use at the asked rate.

    Attributes
    ----------
    subject, resource : str
    share : float
    full_at : float
        The rate at which it is full, over the asked one; infinite where it does not grow with the rate.
    """

    subject: str
    resource: str
    share: float
    full_at: float

    def limit(self, rate_tps: float) -> PlanLimit:
        """Return it as a limit, given the asked rate in messages a second."""
        known = self.resource != Resource.HEAP and self.full_at < math.inf
        return PlanLimit(self.subject, self.resource, self.share, rate_tps * self.full_at if known else None)


def plan_limits(
    plan: PhysicalPlan,
    estimates: Iterable[Estimate],
    lower: Iterable[Estimate],
    source: Observation,
    rate_tps: float,
    amounts: NodeAmounts | None = None,
) -> tuple[PlanLimit, ...]:
    """Return all that may be full, in the order in which it is as the rate grows.

    An executor's time and bytes sent grow in proportion to the rate, CPU as it does from the lower rate to
    the asked one. Heap has the place that it would have if it grew in proportion. A worker that is alone on
    its node has the node's CPU to itself, and only the node is listed. Of the workers' heaps, the fullest is.

    Parameters
    ----------
    plan : PhysicalPlan
    estimates : iterable of Estimate
        The composite model's, of every subject.
    lower : iterable of Estimate
        Those of CPU at ``LOWER`` times the rate.
    source : Observation
        With heap and bytes sent, where they were measured.
    rate_tps : float
        The rate that the estimates are of.
    amounts : NodeAmounts, optional
        Heap of a worker, and bytes a second that a node may send. None: neither is looked at.
    """
    means = _means(estimates)
    found = [*_executors(plan, means), *_processors(plan, means, _means(lower))]
    if amounts is not None:
        at_rate = replace(source, asked_rate_tps=rate_tps)
        found += [*_heap(plan, source, amounts), *_links(plan, at_rate, amounts)]
    found.sort(key=lambda f: (f.full_at, f.subject, f.resource))
    return tuple(f.limit(rate_tps) for f in found if f.share > 0)


def _means(estimates: Iterable[Estimate]) -> Means:
    return {(e.measure, e.subject): e.value for e in estimates if e.statistic == "mean"}


def _in_proportion(subject: str, resource: str, share: float) -> Filling:
    return Filling(subject, resource, share, 1 / share if share > 0 else math.inf)


def _along_line(subject: str, share: float, lower: float | None) -> Filling:
    """Return CPU of which so much is in use at the asked rate and, where it is known, at the lower one."""
    growth = 0.0 if lower is None else (share - lower) / (1 - LOWER)
    full_at = max(1 + (1 - share) / growth, 0.0) if growth > 0 else math.inf
    return Filling(subject, Resource.CPU, share, full_at)


def _executors(plan: PhysicalPlan, means: Means) -> Iterator[Filling]:
    for e in plan.executors:
        share = means.get((Measure.UTILISATION, e.label))
        if share is not None:
            yield _in_proportion(e.label, BUSY, share)


def _processors(plan: PhysicalPlan, means: Means, lower: Means) -> Iterator[Filling]:
    """Yield the CPU of nodes, and of workers that share one."""
    if _cores(means, plan.workers) is None:
        return
    for node in plan.nodes:
        here = [w for w in plan.workers if w.node == node.name]
        sharing = here if len(here) > 1 else []
        for subject, workers in (*((w.label, [w]) for w in sharing), (node.name, here)):
            now, before = _cores(means, workers), _cores(lower, workers)
            if now is not None:
                capacity = node_capacity_cores(node)
                yield _along_line(subject, now / capacity, None if before is None else before / capacity)


def _cores(means: Means, workers: Sequence[Worker]) -> float | None:
    """Return the cores that workers use together; None where nobody knows it of one of them."""
    used = [cores for w in workers if (cores := means.get((Measure.WORKER_CPU, w.label))) is not None]
    return sum(used) if len(used) == len(workers) else None


def _heap(plan: PhysicalPlan, source: Observation, amounts: NodeAmounts) -> Iterator[Filling]:
    """Yield the fullest worker's heap; each task has an equal part of what its worker keeps now."""
    try:
        kept_mb = sum_of_tasks(task_heap_mb(source), plan.executors)
    except SchedulerDeclined:
        return
    of_worker = dict.fromkeys((w.label for w in plan.workers), 0.0)
    for e, own_mb in zip(plan.executors, kept_mb, strict=True):
        of_worker[e.worker.label] += float(own_mb)
    fullest = max(of_worker, key=lambda label: of_worker[label])
    yield _in_proportion(fullest, Resource.HEAP, of_worker[fullest] / amounts.worker_heap_mb)


def _links(plan: PhysicalPlan, source: Observation, amounts: NodeAmounts) -> Iterator[Filling]:
    """Yield what each node sends to others, where its tuples' sizes and its capacity are known."""
    if amounts.link_bytes_s is None:
        return
    try:
        sent = task_traffic(source).bytes_between_executors(plan.executors)
    except SchedulerDeclined:
        return
    here = np.array([e.worker.node for e in plan.executors])
    for node in dict.fromkeys(here.tolist()):
        bytes_s = float(sent[np.ix_(here == node, here != node)].sum())
        if not np.isnan(bytes_s):
            yield _in_proportion(node, Resource.SENT, bytes_s / amounts.link_bytes_s)
