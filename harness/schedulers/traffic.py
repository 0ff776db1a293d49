"""Tuples and bytes a second from task to task, and between executors of any plan of the same topology.

Acks are not in it: Storm sends them past the collector that the wrappers count at. All is at the rate that is
planned for (``Observation.asked_rate_tps``), in proportion to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.errors import SchedulerDeclined
from harness.models.contract.message_costs import serialised
from harness.plans import Executor
from harness.protocols import Observation
from harness.schedulers.loads import FloatArray, IntArray, rate_factor, read_counts
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
    bytes_s : array (pairs)
        Bytes a second that the tuples take where they are written for another worker. Not a number where
        nothing says how large a stream's tuples are.
    """

    senders: IntArray
    receivers: IntArray
    rate_tps: FloatArray
    bytes_s: FloatArray

    def between_executors(self, executors: Sequence[Executor | UnplacedExecutor]) -> FloatArray:
        """Return tuples a second from executor (row) to executor (column).

        Raises
        ------
        SchedulerDeclined
            When a task that sends or receives is in none of the executors.
        """
        return self._summed(self.rate_tps, executors)

    def bytes_between_executors(self, executors: Sequence[Executor | UnplacedExecutor]) -> FloatArray:
        """Return bytes a second from executor (row) to executor (column); not a number where not measured.

        Raises
        ------
        SchedulerDeclined
            When a task that sends or receives is in none of the executors.
        """
        return self._summed(self.bytes_s, executors)

    def _summed(self, amounts: FloatArray, executors: Sequence[Executor | UnplacedExecutor]) -> FloatArray:
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
        flat = np.bincount(ends[0] * number + ends[1], weights=amounts, minlength=number * number)
        return flat.reshape(number, number).astype(np.float64)


def task_traffic(source: Observation) -> TaskTraffic:
    """Read who sends how much to whom from an observation's ``transferred``.

    Bytes are those of the batches that were written for another worker (docs/rewriting.md), so only streams
    that travel in batches have any. A tuple of a stream is as large as the mean of those that were written.

    Raises
    ------
    SchedulerDeclined
        When nothing was transferred, or nothing of a component with subscribers that emitted. When
        a count is negative or not a number. When another rate is planned for, and the source has none.
    """
    query_plan, factor = source.plan.query_plan, rate_factor(source)
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
    sums = _sized(sums[sums["peer"].isin(list(source.plan.by_task))], source)
    total = sums.groupby(["task", "peer"], observed=True)[["value", "bytes", "unsized"]].sum()
    total = total[total["value"] > 0].sort_index()
    return TaskTraffic(
        senders=total.index.get_level_values(0).to_numpy(dtype=np.int64),
        receivers=total.index.get_level_values(1).to_numpy(dtype=np.int64),
        rate_tps=total["value"].to_numpy(dtype=np.float64) / source.interval_s * factor,
        bytes_s=np.where(total["unsized"] > 0, np.nan, total["bytes"]) / source.interval_s * factor,
    )


def _sized(rows: pd.DataFrame, source: Observation) -> pd.DataFrame:
    """Return rows with their tuples' ``bytes``, and the number of tuples without a size: ``unsized``."""
    each = {label: size / tuples for label, (size, tuples) in serialised(source.metrics).items()}
    labels = rows["component"].astype(str) + ":" + rows["stream"].astype(str)
    size = rows["value"] * labels.map(each).astype(np.float64)
    return rows.assign(bytes=size.fillna(0.0), unsized=rows["value"].where(size.isna(), 0.0))
