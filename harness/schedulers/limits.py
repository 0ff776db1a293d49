"""Executors, workers, worker nodes and links of a plan that are full first as the rate grows.

An executor's busy share and a worker's CPU are predicted by the composite model. Heap and bytes are the
source's measurements, laid out as the plan would have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan
from harness.protocols import Estimate, NodeAmounts, Observation, Resource
from harness.schedulers.loads import capacities, sum_of_tasks
from harness.schedulers.resource_loads import task_heap_mb
from harness.schedulers.traffic import task_traffic
from harness.schemas import Measure

MOST_LIMITS = 5
"""Subjects nearest to full that are listed."""
BUSY: Literal["time"] = "time"

Means = Mapping[tuple[str, str], float | None]
"""Predicted means by measure and subject."""
Share = tuple[str, str, float]
"""Subject, resource and utilisation."""


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
        Messages a second at which it is full, in proportion. None of heap: nothing says how it grows.
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


def plan_limits(
    plan: PhysicalPlan,
    estimates: Iterable[Estimate],
    source: Observation,
    rate_tps: float,
    amounts: NodeAmounts | None = None,
) -> tuple[PlanLimit, ...]:
    """Return all that may be full, worst first.

    All but heap is taken to grow in proportion to the rate. A worker that is alone on its node has the node's
    CPU to itself, and only the node is listed. Of the workers' heaps, the fullest is.

    Parameters
    ----------
    plan : PhysicalPlan
    estimates : iterable of Estimate
        The composite model's, of every subject.
    source : Observation
        With heap and bytes sent, where they were measured.
    rate_tps : float
        The rate that the estimates are of.
    amounts : NodeAmounts, optional
        Heap of a worker, and bytes a second that a node may send. None: neither is looked at.
    """
    means = {(e.measure, e.subject): e.value for e in estimates if e.statistic == "mean"}
    found = [*_executors(plan, means), *_processors(plan, means)]
    if amounts is not None:
        found += [*_heap(plan, source, amounts), *_links(plan, source, rate_tps, amounts)]
    limits = (
        PlanLimit(name, resource, share, None if resource == Resource.HEAP else rate_tps / share)
        for name, resource, share in found
        if share > 0
    )
    return tuple(sorted(limits, key=lambda limit: (-limit.utilisation, limit.subject, limit.resource)))


def _executors(plan: PhysicalPlan, means: Means) -> Iterator[Share]:
    for e in plan.executors:
        share = means.get((Measure.UTILISATION, e.label))
        if share is not None:
            yield e.label, BUSY, share


def _processors(plan: PhysicalPlan, means: Means) -> Iterator[Share]:
    """Yield the CPU of nodes, and of workers that share one."""
    cores = {w: means.get((Measure.WORKER_CPU, w.label)) for w in plan.workers}
    known = {w: used for w, used in cores.items() if used is not None}
    if len(known) < len(cores):
        return
    capacity = dict(zip((n.name for n in plan.nodes), map(float, capacities(plan.nodes)), strict=True))
    on_node = Counter(w.node for w in known)
    for worker, used in known.items():
        if on_node[worker.node] > 1:
            yield worker.label, Resource.CPU, used / capacity[worker.node]
    for node in on_node:
        yield node, Resource.CPU, sum(c for w, c in known.items() if w.node == node) / capacity[node]


def _heap(plan: PhysicalPlan, source: Observation, amounts: NodeAmounts) -> Iterator[Share]:
    """Yield the fullest worker's heap; each task has an equal part of what its worker keeps now."""
    try:
        kept_mb = sum_of_tasks(task_heap_mb(source), plan.executors)
    except SchedulerDeclined:
        return
    of_worker = dict.fromkeys((w.label for w in plan.workers), 0.0)
    for e, own_mb in zip(plan.executors, kept_mb, strict=True):
        of_worker[e.worker.label] += float(own_mb)
    fullest = max(of_worker, key=lambda label: of_worker[label])
    yield fullest, Resource.HEAP, of_worker[fullest] / amounts.worker_heap_mb


def _links(plan: PhysicalPlan, source: Observation, rate_tps: float, amounts: NodeAmounts) -> Iterator[Share]:
    """Yield what each node sends to others, where its tuples' sizes and its capacity are known."""
    if amounts.link_bytes_s is None or not source.rate_tps > 0:
        return
    try:
        sent = task_traffic(source).bytes_between_executors(plan.executors)
    except SchedulerDeclined:
        return
    here = np.array([e.worker.node for e in plan.executors])
    for node in dict.fromkeys(here.tolist()):
        bytes_s = float(sent[np.ix_(here == node, here != node)].sum()) * rate_tps / source.rate_tps
        if not np.isnan(bytes_s):
            yield node, Resource.SENT, bytes_s / amounts.link_bytes_s
