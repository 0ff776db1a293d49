"""Tuples a second from task to task, and from executor to executor of any plan of the same topology.

Acks are not in it: Storm sends them past the collector that the wrappers count at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.errors import SchedulerDeclined
from harness.plans import Executor
from harness.protocols import Observation
from harness.schedulers.loads import FloatArray, IntArray, read_counts
from harness.schedulers.placement import UnplacedExecutor
from harness.schemas import Metric, MetricField


@dataclass(frozen=True)
class TaskTraffic:
    """Traffic by pair of tasks; pairs without any are left out.

    Attributes
    ----------
    senders, receivers : array of int (pairs)
        Task identifiers.
    rate_tps : array (pairs)
        Tuples a second.
    """

    senders: IntArray
    receivers: IntArray
    rate_tps: FloatArray

    def between_executors(self, executors: Sequence[Executor | UnplacedExecutor]) -> FloatArray:
        """Return tuples a second from executor (row) to executor (column).

        Raises
        ------
        SchedulerDeclined
            When a task that sends or receives is in none of the executors.
        """
        most = max((e.last_task for e in executors), default=0)
        most = max(most, int(self.senders.max(initial=0)), int(self.receivers.max(initial=0)))
        holder = np.full(most + 1, -1, dtype=np.int64)
        for position, e in enumerate(executors):
            holder[e.first_task : e.last_task + 1] = position
        ends = holder[self.senders], holder[self.receivers]
        for tasks, held in zip((self.senders, self.receivers), ends, strict=True):
            if (held < 0).any():
                raise SchedulerDeclined(
                    f"the metrics name task {tasks[held < 0][0]}, which no executor holds"
                )
        number = len(executors)
        flat = np.bincount(ends[0] * number + ends[1], weights=self.rate_tps, minlength=number * number)
        return flat.reshape(number, number).astype(np.float64)


def task_traffic(source: Observation) -> TaskTraffic:
    """Read who sends how much to whom from an observation's ``transferred``.

    Raises
    ------
    SchedulerDeclined
        When nothing was transferred, or nothing of a component with subscribers that emitted. When
        a count is negative or not a number.
    """
    query_plan = source.plan.query_plan
    rows = read_counts(source, Metric.TRANSFERRED, MetricField.COUNT)
    if rows.empty and query_plan.streams:
        raise SchedulerDeclined("metric transferred is missing from the source step")
    sent = rows.groupby("component", observed=True)["value"].sum()
    emitted = (
        read_counts(source, Metric.EMITTED, MetricField.COUNT)
        .groupby("component", observed=True)["value"]
        .sum()
    )
    for c in query_plan.components:
        if query_plan.outputs(c.name) and emitted.get(c.name, 0.0) > 0 and not sent.get(c.name, 0.0) > 0:
            raise SchedulerDeclined(f"metric transferred of {c.name} is missing from the source step")
    sums = rows.assign(peer=pd.to_numeric(rows["peer"].astype(str), errors="coerce"))
    sums = sums[sums["peer"].isin(list(source.plan.by_task))]
    total = sums.groupby(["task", "peer"], observed=True)["value"].sum()
    total = total[total > 0].sort_index()
    senders = total.index.get_level_values(0).to_numpy(dtype=np.int64)
    receivers = total.index.get_level_values(1).to_numpy(dtype=np.int64)
    return TaskTraffic(senders, receivers, total.to_numpy(dtype=np.float64) / source.interval_s)
