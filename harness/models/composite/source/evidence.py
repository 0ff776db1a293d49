"""All that the composite model takes from an observation, added up by parts of the interval.

Every estimate is a function of sums over these blocks. Their plain sums give the estimates themselves; sums
with random weights give what the estimates would have been in another interval (``uncertainty``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from harness.models.composite.source.hop_records import HopRecords, hop_records
from harness.models.contract.layout import FloatArray, IntArray, Layout, Output, lay_out
from harness.models.contract.message_costs import serialised
from harness.models.contract.observe import RoundTrips, Rows, added, measure, numbers, require_counts
from harness.plans import ACKER, PhysicalPlan, Stream
from harness.protocols import Observation, Settings
from harness.schemas import Clock, Metric, MetricField

BLOCKS = 16
"""Parts of the interval: long against a window or a look, and enough of them to resample."""
_LARGEST = 4_000_000
"""Entries of a stream's array beyond which its blocks are not kept apart."""


@dataclass(frozen=True)
class ServiceSums:
    """Service of one component, wall clock and CPU.

    Attributes
    ----------
    count, wall_ms, cpu_ms : array (tasks, blocks)
        Tuples timed, and sums over them; CPU time that was read for some tuples only stands for all.
    wall, cpu : Histogram
    """

    count: FloatArray
    wall_ms: FloatArray
    cpu_ms: FloatArray
    wall: Histogram
    cpu: Histogram


@dataclass(frozen=True)
class Histogram:
    """Counts by time: ``values_ms`` (bins) ascend, ``count`` is (bins, blocks)."""

    values_ms: FloatArray
    count: FloatArray


@dataclass(frozen=True)
class Evidence:
    """An observation, added up by blocks of the interval.

    Attributes
    ----------
    plan, layout : PhysicalPlan, Layout
        The source's.
    settings : Settings
    rate_tps : float
    seconds : float
        Length of the interval.
    blocks : int
    received : mapping of Stream to array (target's tasks, blocks)
    emitted : mapping of Output to array (component's tasks, blocks)
    transferred : mapping of Stream to array (source's tasks, target's tasks, blocks or 1)
    service : mapping of component to ServiceSums
        Of components with an input.
    worker_cores : array (workers, blocks), optional
        Cores in use by each worker process; NaN where a block has no reading, None without the metric.
    hops : HopRecords, optional
    round_trips : RoundTrips
        Empty where none were measured.
    tuple_bytes : mapping of str to float
        By ``component:stream``, where batches of the rewriting layer were written.
    """

    plan: PhysicalPlan
    layout: Layout
    settings: Settings
    rate_tps: float
    seconds: float
    blocks: int
    received: Mapping[Stream, FloatArray]
    emitted: Mapping[Output, FloatArray]
    transferred: Mapping[Stream, FloatArray]
    service: Mapping[str, ServiceSums]
    worker_cores: FloatArray | None
    hops: HopRecords | None
    round_trips: RoundTrips
    tuple_bytes: Mapping[str, float]

    @property
    def ackers(self) -> int:
        """Number of acker executors."""
        return len(self.plan.of(ACKER))


def read(observation: Observation) -> Evidence:
    """Add an observation up by blocks.

    Raises
    ------
    ModelDeclined
        When a metric is missing, negative or not a number, an executor has no observation, or metrics or hop
        records name a task that the source plan lacks.
    """
    layout = lay_out(observation.plan)
    rows = Rows(observation, layout)
    measured = measure(rows)
    everything = np.concatenate(list(rows.ends.values()))
    start, end = float(everything.min()), float(everything.max())
    blocks = max(min(BLOCKS, max(e.size for e in rows.ends.values()) // 2), 1)

    def part(bucket_end_ms: IntArray) -> IntArray:
        share = (bucket_end_ms - start) / max(end - start, 1.0)
        return np.minimum((share * blocks).astype(np.int64), blocks - 1)

    folds = {name: np.eye(blocks)[part(ends)] for name, ends in rows.ends.items()}
    transferred = {}
    for stream in layout.plan.query_plan.streams:
        mine = rows.of(Metric.TRANSFERRED, stream.source, stream=stream.stream)
        sources, targets = (layout.tasks[n].size for n in (stream.source, stream.target))
        number = blocks if sources * targets * blocks <= _LARGEST else 1
        group = part(mine["bucket_end_ms"].to_numpy()) if number > 1 else np.zeros(len(mine), dtype=np.int64)
        transferred[stream] = rows.by_peer_and(group, number, mine, stream)
    metrics = observation.metrics
    named = metrics[metrics["measurement"] == Metric.SERVICE_HIST]
    histograms = dict(iter(named.groupby(["component", "peer"], observed=True)))
    empty = named.iloc[:0]
    service = {
        name: _service(
            rows, name, folds[name], [histograms.get((name, k), empty) for k in (Clock.WALL, Clock.CPU)], part
        )
        for name in layout.order
        if layout.plan.query_plan.inputs(name)
    }
    return Evidence(
        plan=observation.plan,
        layout=layout,
        settings=observation.settings,
        rate_tps=observation.rate_tps,
        seconds=observation.interval_s,
        blocks=blocks,
        received={s: v @ folds[s.target] for s, v in measured.received_buckets.items()},
        emitted={o: v @ folds[o.component] for o, v in measured.emitted_buckets.items()},
        transferred=transferred,
        service=service,
        worker_cores=_worker_cores(metrics, layout, part, blocks),
        hops=hop_records(observation, layout, blocks),
        round_trips=measured.round_trips,
        tuple_bytes={
            stream: size / tuples for stream, (size, tuples) in serialised(observation.metrics).items()
        },
    )


class _Part(Protocol):
    """Only for the type of ``part``: bucket ends to block numbers."""

    def __call__(self, bucket_end_ms: IntArray) -> IntArray: ...


def _service(
    rows: Rows, name: str, fold: FloatArray, histograms: list[pd.DataFrame], part: _Part
) -> ServiceSums:
    def field(what: str) -> FloatArray:
        return rows.by_bucket(rows.of(Metric.SERVICE, name, field=what), name)

    count, read, cpu = (
        field(MetricField.COUNT),
        field(MetricField.CPU_COUNT),
        field(MetricField.CPU_SUM_NS) / 1e6,
    )
    per_tuple = cpu.sum() / read.sum() if read.sum() > 0 else 0.0
    cpu = np.where(read > 0, cpu * count / np.maximum(read, 1.0), count * per_tuple)
    wall, cpu_histogram = (_histogram(h, part, fold.shape[1]) for h in histograms)
    return ServiceSums(
        count=count @ fold,
        wall_ms=field(MetricField.WALL_SUM_NS) / 1e6 @ fold,
        cpu_ms=cpu @ fold,
        wall=wall,
        cpu=cpu_histogram,
    )


def _histogram(rows: pd.DataFrame, part: _Part, blocks: int) -> Histogram:
    """Return counts at the middle of their bins, 16 an octave, named after their upper bounds in ns."""
    value = rows["value"].to_numpy()
    require_counts(value, Metric.SERVICE_HIST)
    upper, at = np.unique(numbers(rows["field"]), return_inverse=True)
    block = part(rows["bucket_end_ms"].to_numpy())
    return Histogram(upper * (1 - 1 / 48) / 1e6, added(at, block, value, (upper.size, blocks)))


def _worker_cores(metrics: pd.DataFrame, layout: Layout, part: _Part, blocks: int) -> FloatArray | None:
    rows = metrics[(metrics["measurement"] == Metric.WORKER) & (metrics["field"] == MetricField.CPU_NS)]
    number = {w.label: i for i, w in enumerate(layout.plan.workers)}
    rows = rows[rows["worker"].isin(number)]
    if rows.empty:
        return None
    value = rows["value"].to_numpy()
    require_counts(value, f"{Metric.WORKER}.{MetricField.CPU_NS}")
    worker = np.asarray(rows["worker"].map(number), dtype=np.int64)
    ends = rows["bucket_end_ms"].to_numpy()
    steps = np.concatenate([np.diff(np.unique(ends[worker == w])) for w in np.unique(worker)])
    if not steps.size:
        return None
    shape = (len(number), blocks)
    block = part(ends)
    busy_s = added(worker, block, value / 1e9, shape)
    covered_s = added(worker, block, np.full(value.size, float(np.median(steps)) / 1000), shape)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(covered_s > 0, busy_s / covered_s, np.nan))
