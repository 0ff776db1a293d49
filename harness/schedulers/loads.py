"""CPU that executors use, and the worker nodes that a plan asks more of than they have.

The wrappers time every execute of a bolt by the thread's CPU clock. A spout's and an acker's CPU is in no
metric of theirs: it is part of what their worker process used beyond its bolts. All is read at the rate that
is planned for (``Observation.asked_rate_tps``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.errors import SchedulerDeclined
from harness.models.composite.background import WORKER_CORES
from harness.plans import Executor, PhysicalPlan, WorkerNode
from harness.protocols import Observation
from harness.schedulers.placement import UnplacedExecutor
from harness.schemas import Metric, MetricField

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def node_capacity_cores(node: WorkerNode) -> float:
    """Return the cores that a worker node may use: its quota where it has a lower one.

    Examples
    --------
    >>> node = WorkerNode(name="n", address="", host="h", cores=2, slots=(), cpu_quota_cores=0.3)
    >>> node_capacity_cores(node)
    0.3
    """
    return node.cores if node.cpu_quota_cores is None else min(node.cores, node.cpu_quota_cores)


def last_window(source: Observation, window_s: float | None) -> Observation:
    """Return the observation's last seconds, in whole buckets; all of it where no window is asked for.

    Buckets that end within the window are read, and at least the last one. The interval is as long as they
    are, so that sums over it are rates.
    """
    if window_s is None or window_s >= source.interval_s or source.metrics.empty:
        return source
    end_ms = source.metrics["bucket_end_ms"]
    recent = source.metrics[end_ms > end_ms.max() - 1000 * window_s]
    share = _buckets(recent) / _buckets(source.metrics)
    return replace(source, metrics=recent, interval_s=share * source.interval_s)


def _buckets(metrics: pd.DataFrame) -> int:
    """Return of how many buckets a task reports, at most; the buckets of tasks may end at other times."""
    return int(metrics.groupby("task")["bucket_end_ms"].nunique().max())


def read_counts(source: Observation, measurement: str, field: str) -> pd.DataFrame:
    """Return the rows of one field of a metric.

    Raises
    ------
    SchedulerDeclined
        When a value is negative or not a number, or the interval has no length.
    """
    if not (np.isfinite(source.interval_s) and source.interval_s > 0):
        raise SchedulerDeclined(f"the source step's interval is {source.interval_s} s long")
    metrics = source.metrics
    rows = metrics[(metrics["measurement"] == measurement) & (metrics["field"] == field)]
    values = rows["value"].to_numpy(dtype=np.float64)
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if wrong.size:
        raise SchedulerDeclined(f"metric {measurement}.{field} has the value {wrong[0]:g}")
    return rows


def rate_factor(source: Observation) -> float:
    """Return the rate that is planned for, over the rate that the source was measured at.

    Raises
    ------
    SchedulerDeclined
        When another rate is planned for, and the source has none.
    """
    asked_tps = source.asked_rate_tps
    if asked_tps is None or asked_tps == source.rate_tps:
        return 1.0
    if not source.rate_tps > 0:
        raise SchedulerDeclined(f"the source step has a rate of {source.rate_tps:g} messages/s")
    return asked_tps / source.rate_tps


def task_cores(source: Observation) -> dict[int, float]:
    """Return the CPU that each task of the source plan uses at the rate that is planned for, in cores.

    CPU grows in proportion to the rate, but for what a worker process with nothing to do uses (as the
    composite model has it, ``WORKER_CORES``).

    Returns
    -------
    dict of task to float
        Bolts' tasks: the CPU time of their services. Others' (spouts, ackers, metrics consumers): equal parts
        of what their worker process used beyond its bolts.

    Raises
    ------
    SchedulerDeclined
        When no service was timed, or a bolt that received tuples has none.
    """
    plan, factor = source.plan, rate_factor(source)
    by_task = plan.by_task
    cores = dict.fromkeys(by_task, 0.0)
    for task, cpu_ns in _service_cpu_ns(source).items():
        if task not in by_task:
            raise SchedulerDeclined(f"the metrics name task {task}, which the source plan has not")
        cores[task] += cpu_ns / 1e9 / source.interval_s
    bolts = {c.name for c in plan.query_plan.components if plan.query_plan.inputs(c.name)}
    processes = (
        read_counts(source, Metric.WORKER, MetricField.CPU_NS).groupby("worker", observed=True)["value"].sum()
    )
    for worker in plan.workers:
        here = [t for t, e in by_task.items() if e.worker == worker]
        others = [t for t in here if by_task[t].component not in bolts]
        used = float(processes.get(worker.label, 0.0)) / 1e9 / source.interval_s
        beyond = max(used - sum(cores[t] for t in here), 0.0)
        growing = max(beyond - WORKER_CORES, 0.0)
        for t in others:
            cores[t] = (beyond + (factor - 1) * growing) / len(others)
    return {t: used * factor if by_task[t].component in bolts else used for t, used in cores.items()}


def _service_cpu_ns(source: Observation) -> Mapping[int, float]:
    """Each task's CPU time in its services; above 500 a bucket only a random part of them was timed."""
    keys = ["bucket_end_ms", "task"]
    columns = {
        name: read_counts(source, Metric.SERVICE, name).groupby(keys, observed=True)["value"].sum()
        for name in (MetricField.COUNT, MetricField.CPU_COUNT, MetricField.CPU_SUM_NS)
    }
    sums = pd.DataFrame(columns).fillna(0.0)
    if not sums[MetricField.CPU_SUM_NS].sum() > 0:
        field = f"{Metric.SERVICE}.{MetricField.CPU_SUM_NS}"
        raise SchedulerDeclined(f"metric {field} is missing from the source step")
    timed = sums[MetricField.CPU_COUNT].to_numpy() > 0
    share = np.divide(
        sums[MetricField.COUNT], sums[MetricField.CPU_COUNT], out=np.zeros(len(sums)), where=timed
    )
    total = (sums[MetricField.CPU_SUM_NS] * share).groupby(level="task").sum()
    served = sums[MetricField.COUNT].groupby(level="task").sum()
    for task, number in _received(source).items():
        if number > 0 and not served.get(task, 0.0) > 0:
            raise SchedulerDeclined(f"metric service of task {task} is missing from the source step")
    return {int(task): float(ns) for task, ns in total.items()}  # type: ignore[call-overload]


def _received(source: Observation) -> Mapping[int, float]:
    """Return the tuples that each task received on the query plan's streams: ticks and tables are none."""
    data = {(s.target, s.source, s.stream) for s in source.plan.query_plan.streams}
    rows = read_counts(source, Metric.RECEIVED, MetricField.COUNT)
    keys = ["component", "peer", "stream", "task"]
    sums = rows.groupby(keys, observed=True)["value"].sum().reset_index()
    found: dict[int, float] = {}
    for *way, task, number in zip(*(sums[c] for c in (*keys, "value")), strict=True):
        if tuple(way) in data:
            found[int(task)] = found.get(int(task), 0.0) + float(number)
    return found


def sum_of_tasks(tasks: Mapping[int, float], executors: Iterable[Executor | UnplacedExecutor]) -> FloatArray:
    """Return the use of each executor: the sum of its tasks', in their unit."""
    return np.array([sum(tasks[t] for t in range(e.first_task, e.last_task + 1)) for e in executors])


def node_cores(plan: PhysicalPlan, cores: FloatArray) -> dict[str, float]:
    """Return the cores used on each worker node of a plan, given those of each executor."""
    used = dict.fromkeys((n.name for n in plan.nodes), 0.0)
    for e, own in zip(plan.executors, cores, strict=True):
        used[e.worker.node] += float(own)
    return used


def overload_notes(plan: PhysicalPlan, source: Observation | None) -> tuple[str, ...]:
    """Return a line for each worker node, and host of several, that the plan asks more of than it has."""
    if source is None:
        return ()
    try:
        used = node_cores(plan, sum_of_tasks(task_cores(source), plan.executors))
    except SchedulerDeclined as why:
        return (f"loads are not known: {why}",)
    notes = [_overload(n.name, used[n.name], node_capacity_cores(n)) for n in plan.nodes]
    hosts: dict[str, list[WorkerNode]] = {}
    for n in plan.nodes:
        hosts.setdefault(n.host, []).append(n)
    notes += [
        _overload(f"host {host}", sum(used[n.name] for n in of), max(n.cores for n in of))
        for host, of in hosts.items()
        if len(of) > 1
    ]
    return tuple(note for note in notes if note)


def _overload(name: str, used: float, capacity: float) -> str:
    return f"{name} is overloaded: {used:.2f} of {capacity:g} cores" if used > capacity else ""


def capacities(nodes: Sequence[WorkerNode]) -> FloatArray:
    """Return each node's cores or quota."""
    return np.array([node_capacity_cores(n) for n in nodes], dtype=np.float64)
