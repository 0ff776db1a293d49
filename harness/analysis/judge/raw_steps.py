"""One step's raw tables in memory, read once: what checks, models and the regression take from them.

No Spark: a step's samples are in the models' observations anyway, and what is added here is a few sums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.analysis.judge import bucket_tiling
from harness.analysis.judge.agreement import LATENCY_COLUMNS, Agreement, agreement
from harness.analysis.judge.predicting import observed
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.distribution import BATCHES
from harness.analysis.spark.inputs import StepRecord
from harness.analysis.spark.noise import quantile_error
from harness.experiments.adapted_periods import APPLY_MOST_S
from harness.protocols import Observation, Settings
from harness.runs import Interval, judged, read_latency, read_table
from harness.schemas import Metric, MetricField

Ints = npt.NDArray[np.int64]

NS_PER_MS = 1e6
OWN_BUCKETS = (Metric.RECEIVED, Metric.EMITTED, Metric.ACK)
"""Measurements that every task of a topology reports in every bucket, as spout or as bolt."""
UNREAD: Mapping[Metric, tuple[MetricField, ...]] = {
    Metric.INTERARRIVAL: (MetricField.SUM_NS, MetricField.SUMSQ_NS2),
    Metric.SERVICE: (MetricField.CPU_SUMSQ_NS2,),
    Metric.ACK: (MetricField.SUMSQ_NS2,),
    Metric.WORKER: (MetricField.GC_MS,),
}
"""Fields that no model, scheduler or check of the harness reads: archived runs have none of them."""


@dataclass(frozen=True)
class RawStep:
    """A step's tables.

    Attributes
    ----------
    record : StepRecord
        Its small files as they were read.
    interval : Interval
        The record's, or that of a resampled night.
    latency : Table
        The interval's rows of ``latency.parquet``.
    metrics : Table
        All rows of ``metrics.parquet``.
    untiled : tuple of str
        What is wrong with the buckets as they were measured (``bucket_tiling``); a resampled night has what
        the measured one had.
    agreement : Agreement
        What the step's files say of each other; likewise.
    """

    record: StepRecord
    interval: Interval
    latency: pa.Table
    metrics: pa.Table
    untiled: tuple[str, ...]
    agreement: Agreement

    @property
    def inside(self) -> pa.Table:
        """The metrics of the interval: of the buckets that ended in it."""
        return self.metrics.filter(inside(self.metrics, self.interval))

    def observation(self, settings: Settings) -> Observation:
        """Return what a model gets to see."""
        return observed(self.record.plan, settings, self.interval, self.metrics, self.latency)


def inside(metrics: pa.Table, interval: Interval) -> pa.Array:
    """Return which metric rows belong to an interval."""
    end = metrics["bucket_end_ms"]
    return pc.and_(pc.greater(end, interval.start_epoch_ms), pc.less_equal(end, interval.end_epoch_ms))


def are_read(metrics: pa.Table) -> pa.Array:
    """Return which metric rows are of fields that models or checks read."""
    name, field = (metrics[c].cast(pa.string()) for c in ("measurement", "field"))
    unread = pa.array(np.zeros(metrics.num_rows, dtype=np.bool_))
    for metric, fields in UNREAD.items():
        unread = pc.or_(unread, pc.and_(pc.equal(name, metric), pc.is_in(field, pa.array(fields))))
    return pc.invert(unread)


def read_step(record: StepRecord) -> RawStep:
    """Read a step's raw tables.

    Raises
    ------
    UsageError
        Naming the file that cannot be read to its end.
    """
    latency, metrics = read_latency(record.folder), read_table(record.folder / "metrics.parquet")
    inside = latency.filter(latency["in_interval"])
    rows = judged(inside, record.interval.latency)
    untiled, agreed = tiling(record, metrics), agreement(record, latency, metrics)
    return RawStep(record, record.interval, rows, metrics, untiled, agreed)


def untiled(record: StepRecord) -> tuple[str, ...]:
    """Name the faults in the metric buckets of a step whose tables are not in memory.

    Raises
    ------
    UsageError
        Naming the file that cannot be read to its end.
    """
    return tiling(record, read_table(record.folder / "metrics.parquet"))


def evidence(record: StepRecord) -> tuple[tuple[str, ...], Agreement]:
    """Return the faults in a step's buckets, and the agreement of its files; no table is kept.

    Raises
    ------
    UsageError
        As ``untiled``.
    """
    metrics = read_table(record.folder / "metrics.parquet")
    latency = read_latency(record.folder, LATENCY_COLUMNS)
    return tiling(record, metrics), agreement(record, latency, metrics)


def tiling(record: StepRecord, metrics: pa.Table) -> tuple[str, ...]:
    """Return the faults in a step's buckets, as ``untiled``, where its metrics are in memory."""
    if record.bucket_s is None:
        return ()
    return bucket_tiling.untiled(
        metrics,
        record.interval,
        record.plan.start,
        record.bucket_s,
        saturated=bool(record.quality.saturated),
        parts=_between_changes(record),
    )


def _between_changes(record: StepRecord) -> list[bucket_tiling.Stretch]:
    """Return the times between restarts of a step that adapts; none of others.

    Runs of before schema 4 do not say whether workers restarted: all changes but those of key groups count.
    """
    if record.adaptation is None:
        return []
    at, periods = record.interval, record.adaptation
    restarted = periods["restarted"].astype("boolean").fillna(periods["groups_moved"].isna())
    asked = periods[periods["asked_ns"].notna() & restarted]
    late_ns = asked["asked_ns"] + APPLY_MOST_S * 1e9
    spans = zip(asked["asked_ns"], asked["in_force_ns"].fillna(late_ns), strict=True)
    epoch = [[round(at.start_epoch_ms + (ns - at.start_ns) / NS_PER_MS) for ns in span] for span in spans]
    return bucket_tiling.stretches(at, (bucket_tiling.Change(*span) for span in epoch))


def samples(step: RawStep) -> Samples:
    """Count the interval's latencies by kind, and name the tasks that did not report."""
    values = step.latency["ground_truth_ms"]
    known = values.drop_null().to_numpy()
    finite = known[np.isfinite(known)]
    scheduled = step.latency["scheduled_ns"].to_numpy()
    at = step.interval
    return Samples(
        values=len(finite),
        missing=values.null_count,
        not_a_number=len(known) - len(finite),
        negative=int((np.round(finite * NS_PER_MS) < 0).sum()),
        outside=int(((scheduled < at.start_ns) | (scheduled >= at.end_ns)).sum()),
        silent_tasks=_silent_tasks(step),
        untiled=step.untiled,
        agreement=step.agreement,
    )


def _silent_tasks(step: RawStep) -> tuple[int, ...]:
    rows = step.inside
    own = pc.is_in(rows["measurement"].cast(pa.string()), pa.array(OWN_BUCKETS))
    seen = set(rows.filter(own)["task"].unique().to_pylist())
    return tuple(t for t in step.record.reporting_tasks if t not in seen)


def noise_pct(step: RawStep) -> float | None:
    """Return the standard error of the mean ground truth in percent of it, from batches of the interval."""
    ns = np.round(step.latency["ground_truth_ms"].to_numpy() * NS_PER_MS)
    at = step.interval
    since = (step.latency["scheduled_ns"].to_numpy() - at.start_ns) / (at.end_ns - at.start_ns)
    kept = np.isfinite(ns) & (since >= 0) & (since < 1)
    batch = (since[kept] * BATCHES).astype(int)
    count = np.bincount(batch, minlength=BATCHES)
    total = np.bincount(batch, weights=ns[kept], minlength=BATCHES)
    used = count > 0
    if not used.any() or not total.sum() > 0:
        return None
    mean = total.sum() / count.sum()
    error = quantile_error(total[used] / count[used], count[used], mean)
    return None if error is None else float(100 * error / mean)


def blocks(step: RawStep) -> int:
    """Return how many metric buckets the interval holds: as many as most tasks have in it.

    Storm's own components report oftener, so the most that any task has would be too many.
    """
    rows = step.inside.select(["task", "bucket_end_ms"])
    counted = rows.group_by("task").aggregate([("bucket_end_ms", "count_distinct")])
    counts = counted["bucket_end_ms_count_distinct"].to_numpy()
    return int(np.median(counts)) if len(counts) else 0


def latency_blocks(scheduled_ns: Ints, interval: Interval, number: int) -> Ints:
    """Return the blocks that messages were due in, of so many in an interval."""
    length_ns = (interval.end_ns - interval.start_ns) / number
    return np.asarray((scheduled_ns - interval.start_ns) // length_ns, dtype=np.int64)


def metric_blocks(bucket_end_ms: Ints, interval: Interval, number: int) -> Ints:
    """Return the blocks that metric buckets of an interval are in, of so many."""
    length_ms = (interval.end_epoch_ms - interval.start_epoch_ms) / number
    return np.asarray((bucket_end_ms - interval.start_epoch_ms - 1) // length_ms, dtype=np.int64)


def worker_cpu_cores(step: RawStep) -> dict[str, float]:
    """Return each worker's CPU time a second, as ``harness.analysis.spark.counters`` has it."""
    plan = step.record.plan.start
    names = {c.name for c in plan.query_plan.components}
    worker_of = {t: e.worker.label for t, e in plan.by_task.items() if e.component in names}
    kind = step.metrics["measurement"].cast(pa.string())
    own = step.metrics.filter(pc.is_in(kind, pa.array(OWN_BUCKETS))).select(["task", "bucket_end_ms"])
    ends = own.to_pandas().drop_duplicates().sort_values(["task", "bucket_end_ms"])
    at = step.interval
    ends["ms"] = (
        ends.groupby("task")["bucket_end_ms"].diff().fillna(ends["bucket_end_ms"] - at.start_epoch_ms)
    )
    within = ends["bucket_end_ms"].between(at.start_epoch_ms, at.end_epoch_ms, inclusive="right")
    by_task = ends[within & ends["task"].isin(list(worker_of))].groupby("task")["ms"].sum()
    covered_ms = by_task.groupby(by_task.index.map(worker_of)).mean()
    rows = step.inside
    mine = pc.and_(
        pc.equal(rows["measurement"].cast(pa.string()), Metric.WORKER),
        pc.equal(rows["field"].cast(pa.string()), MetricField.CPU_NS),
    )
    used = rows.filter(mine).select(["task", "value"]).to_pandas()
    used = used[used["task"].isin(list(worker_of))]
    cpu_ns = used.groupby(used["task"].map(worker_of))["value"].sum()
    found = (cpu_ns / NS_PER_MS / covered_ms).dropna()
    return {str(label): float(value) for label, value in found.items()}


def contents(step: RawStep) -> dict[str, str]:
    """Sum up a step's data so that any change of a value shows, and an order of rows does not.

    Its data are the interval's rows, and of metrics the fields that are read: those of a run and of its
    archived copy are the same.

    Tasks are left out of it: Storm numbers them anew when a topology has other components of its own.
    """
    latency = step.latency
    plain = pd.DataFrame(
        {name: latency[name].to_numpy() for name in ("message_id", "child", "scheduled_ns", "sent_ns")}
    )
    plain["taken_ns"] = latency["left_ns"].to_numpy() - latency["entered_ns"].to_numpy()
    for name in ("ground_truth_ms", "thesis_ground_truth_ms"):
        plain[name] = np.nan_to_num(np.round(latency[name].to_numpy() * NS_PER_MS), nan=-1).astype(np.int64)
    hops = latency["hops"].combine_chunks()
    passed, sizes = hops.flatten(), hops.value_lengths().to_numpy()
    of_hops = pd.DataFrame({k: passed.field(k).to_numpy() for k in ("received_ns", "emitted_ns")})
    of_hops["message_id"] = np.repeat(plain["message_id"].to_numpy(), sizes)
    columns = ["bucket_end_ms", "measurement", "component", "stream", "field", "value"]
    metrics = step.inside.filter(are_read(step.inside)).select(columns).to_pandas()
    complete = "/".join(sorted(c.model_dump_json() for c in step.interval.complete_latency_ms.values()))
    of_complete = hashlib.blake2b(complete.encode(), digest_size=8).hexdigest()
    return {
        "latency.parquet": f"{len(plain)}:{_sum(plain):016x}{_sum(of_hops):016x}",
        "metrics.parquet": f"{len(metrics)}:{_sum(metrics):016x}",
        "interval.json": f"{step.interval.start_ns}-{step.interval.end_ns}:{of_complete}",
    }


def _sum(frame: pd.DataFrame) -> int:
    return int(pd.util.hash_pandas_object(frame, index=False).to_numpy().sum(dtype=np.uint64))
