"""Loads by resource: use of CPU, heap and links by each executor, and the resource that is used most.

*Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine*, II. A load is in percentage
points of a node. The bottleneck is the resource with the greatest total usage in the whole system, and
gLoad_k is the load value of that resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import Executor, WorkerNode
from harness.protocols import NodeAmounts, Observation, Resource
from harness.schedulers.loads import (
    FloatArray,
    capacities,
    rate_factor,
    read_counts,
    sum_of_tasks,
    task_cores,
)
from harness.schedulers.placement import UnplacedExecutor
from harness.schemas import Metric, MetricField

BYTES_MB = 1 << 20


def task_heap_mb(source: Observation) -> dict[int, float]:
    """Return the heap that each task of the source plan keeps, in MB.

    A worker's heap is the least that was in use at the end of any bucket, in equal parts for its tasks. The
    paper has averages. Between two collections most of these are garbage, which no node has to have room for.
    A worker with Storm's own executors alone reports nothing, and counts as empty.

    Raises
    ------
    SchedulerDeclined
        When no worker reported its heap.
    """
    rows = read_counts(source, Metric.WORKER, MetricField.HEAP_BYTES)
    if rows.empty:
        field = f"{Metric.WORKER}.{MetricField.HEAP_BYTES}"
        raise SchedulerDeclined(f"metric {field} is missing from the source step")
    least = rows.groupby("worker", observed=True)["value"].min()
    by_task = source.plan.by_task
    kept: dict[int, float] = {}
    for worker in source.plan.workers:
        here = [t for t, e in by_task.items() if e.worker == worker]
        kept |= dict.fromkeys(here, float(least.get(worker.label, 0.0)) / BYTES_MB / len(here))
    return kept


def task_sent_bytes_s(source: Observation) -> dict[int, float]:
    """Return the bytes a second that each task of the source plan sends to other workers, where it batches.

    They are in proportion to the rate that is planned for.

    Raises
    ------
    SchedulerDeclined
        When nothing says how large the tuples are that were sent: only batches are measured.
    """
    rows = read_counts(source, Metric.BATCH, MetricField.BYTES)
    if rows.empty:
        raise SchedulerDeclined(f"metric {Metric.BATCH}.{MetricField.BYTES} is missing from the source step")
    total = rows.groupby("task", observed=True)["value"].sum()
    factor = rate_factor(source)
    return {t: float(total.get(t, 0.0)) / source.interval_s * factor for t in source.plan.by_task}


_BY_TASK: Mapping[Resource, Callable[[Observation], Mapping[int, float]]] = {
    Resource.CPU: task_cores,
    Resource.HEAP: task_heap_mb,
    Resource.SENT: task_sent_bytes_s,
}


def executor_loads(
    resource: Resource, source: Observation, executors: Sequence[Executor | UnplacedExecutor]
) -> FloatArray:
    """Return gLoad of each executor: percentage points of a node whose capacity is 1.

    Raises
    ------
    SchedulerDeclined
        When the source does not tell it.
    """
    return 100 * sum_of_tasks(_BY_TASK[resource](source), executors)


def resource_capacity(resource: Resource, nodes: Sequence[WorkerNode], amounts: NodeAmounts) -> FloatArray:
    """Return each node's cores or quota, MB of heap, or bytes a second.

    Raises
    ------
    SchedulerDeclined
        When nothing says how much a node may send.

    Examples
    --------
    >>> node = WorkerNode(name="n", address="", host="h", cores=2, slots=(1, 2), cpu_quota_cores=0.5)
    >>> [float(resource_capacity(r, [node], NodeAmounts())[0]) for r in (Resource.CPU, Resource.HEAP)]
    [0.5, 512.0]
    """
    if resource is Resource.CPU:
        return capacities(nodes)
    if resource is Resource.HEAP:
        return np.array([amounts.worker_heap_mb * len(n.slots) for n in nodes])
    if amounts.link_bytes_s is None:
        raise SchedulerDeclined("nothing says how much a node may send: give link_bytes_s")
    return np.full(len(nodes), amounts.link_bytes_s)


def resource_use_pct(
    source: Observation,
    executors: Sequence[Executor | UnplacedExecutor],
    nodes: Sequence[WorkerNode],
    amounts: NodeAmounts,
) -> dict[Resource, float]:
    """Return how much of each resource of all nodes together is used; those that nothing tells are left out.

    Raises
    ------
    SchedulerDeclined
        When none is known.
    """
    use, untold = {}, []
    for resource in Resource:
        try:
            capacity = resource_capacity(resource, nodes, amounts)
            use[resource] = float(executor_loads(resource, source, executors).sum() / capacity.sum())
        except SchedulerDeclined as why:
            untold.append(str(why))
    if not use:
        raise SchedulerDeclined(untold[0])
    return use


def bottleneck(use_pct: Mapping[Resource, float]) -> Resource:
    """Return the resource that is used most.

    >>> str(bottleneck({Resource.CPU: 31.0, Resource.HEAP: 40.5}))
    'heap'
    """
    return max(use_pct, key=lambda resource: use_pct[resource])
