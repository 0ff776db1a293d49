"""The traffic of a physical plan at a moment of a step: by component, and by connection of two executors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.plans import PhysicalPlan
from harness.schemas import Metric, MetricField

TRAFFIC = (Metric.EMITTED, Metric.TRANSFERRED, Metric.SERVICE, Metric.BATCH)
"""Measurements that are read."""
WINDOW_S = 10.0
"""Rates are of so many seconds before the moment, or of the next whole number of buckets."""


@dataclass(frozen=True)
class ComponentTraffic:
    """Tuples of a component; None where they are not measured, or cannot be.

    Attributes
    ----------
    name : str
    emitted, executed : float, optional
        Calls of emit and of execute since counting began.
    emitted_tps, executed_tps : float, optional
    tuple_bytes : float, optional
        Mean size of a tuple in the batches that were written for other workers.
    """

    name: str
    emitted: float | None
    executed: float | None
    emitted_tps: float | None
    executed_tps: float | None
    tuple_bytes: float | None


@dataclass(frozen=True)
class ConnectionTraffic:
    """Tuples from an executor to another, or from a component to another.

    Attributes
    ----------
    source, target : str
        Labels of executors, or names of components.
    stream : str
    remote : bool
        Some of it goes from one worker to another.
    tuples_tps : float
    bytes_s : float, optional
        Of what goes to other workers, by the mean size of the source's tuples on the stream. None where
        nothing does, or nothing travels in batches: only their bytes are counted.
    fill_pct : float, optional
        Fill of the source's batches on the stream; None where none left.
    """

    source: str
    target: str
    stream: str
    remote: bool
    tuples_tps: float
    bytes_s: float | None
    fill_pct: float | None


@dataclass(frozen=True)
class PlanTraffic:
    """Traffic of a plan.

    Attributes
    ----------
    counted_s, window_s : float
        Seconds that counts and rates are of.
    components : tuple of ComponentTraffic
        As the query plan has them.
    executors : mapping of str to ComponentTraffic
        The same by executor's label.
    connections : tuple of ConnectionTraffic
        Between executors, the busiest first.
    streams : tuple of ConnectionTraffic
        The same between components, as the query plan has them.
    """

    counted_s: float
    window_s: float
    components: tuple[ComponentTraffic, ...]
    executors: Mapping[str, ComponentTraffic]
    connections: tuple[ConnectionTraffic, ...]
    streams: tuple[ConnectionTraffic, ...]


class TrafficByMoment:
    """A step's traffic, asked for moment by moment.

    Parameters
    ----------
    rows : Table
        Rows of ``METRICS``; those of ``TRAFFIC`` are kept.
    plan : PhysicalPlan
    bucket_s : float
        Length of a bucket.
    """

    def __init__(self, rows: pa.Table, plan: PhysicalPlan, bucket_s: float) -> None:
        self._plan = plan
        self._bucket_ms = bucket_s * 1e3
        read = rows.filter(pc.is_in(rows["measurement"].cast(pa.string()), pa.array(TRAFFIC)))
        frame = read.select(
            ["bucket_end_ms", "measurement", "task", "stream", "peer", "field", "value"]
        ).to_pandas()
        frame["executor"] = frame["task"].map({task: e.label for task, e in plan.by_task.items()})
        frame["component"] = frame["task"].map({task: e.component for task, e in plan.by_task.items()})
        for column in ("measurement", "stream", "peer", "field", "executor", "component"):
            frame[column] = frame[column].astype("category")  # each word once
        self._rows = frame[frame["executor"].notna()]
        # Archived runs have executes of the interval only, but emits of the burn-in, too.
        ends = self._rows[self._rows["measurement"] == Metric.SERVICE].groupby("task")["bucket_end_ms"]
        self._first_ms = float(ends.min().max()) - self._bucket_ms  # of all tasks; NaN without one
        self._last_ms = float(ends.max().max())

    def at(self, epoch_ms: float) -> PlanTraffic | None:
        """Return the traffic at a moment; its last after the end, and None before anything is known."""
        until_ms = min(epoch_ms, self._last_ms)
        if not until_ms - self._first_ms >= self._bucket_ms:  # a comparison with NaN is false
            return None
        buckets = math.ceil(WINDOW_S * 1e3 / self._bucket_ms)
        since_ms = max(until_ms - buckets * self._bucket_ms, self._first_ms)
        ends = self._rows["bucket_end_ms"]
        counted = self._rows[(ends > self._first_ms) & (ends <= until_ms)]
        recent = counted[counted["bucket_end_ms"] > since_ms]
        window_s = (until_ms - since_ms) / 1e3
        sent, graph = _transferred(recent, self._plan), self._plan.query_plan
        components = _parts(counted, recent, "component", window_s)
        executors = _parts(counted, recent, "executor", window_s)
        sizes = _totals(recent, "component", "stream")
        between = {
            (c.source, c.target, c.stream): c for c in _connections(sent, ("from", "to"), sizes, window_s)
        }
        graph_streams = [(s.source, s.target, s.stream) for s in graph.streams]
        return PlanTraffic(
            counted_s=(until_ms - self._first_ms) / 1e3,
            window_s=window_s,
            components=tuple(components[c.name] for c in graph.components if c.name in components),
            executors=executors,
            connections=_connections(
                sent, ("source", "target"), _totals(recent, "executor", "stream"), window_s
            ),
            streams=tuple(between[s] for s in graph_streams if s in between),
        )


Totals = Mapping[tuple[str, ...], float]
"""Sums by part, measurement and field."""


def _totals(rows: pd.DataFrame, *by: str) -> Totals:
    sums = rows.groupby([*by, "measurement", "field"], observed=True)["value"].sum()
    return dict(zip(sums.index.tolist(), sums.tolist(), strict=True))


def _parts(
    counted: pd.DataFrame, recent: pd.DataFrame, by: str, window_s: float
) -> dict[str, ComponentTraffic]:
    """Return the traffic of every component, or of every executor."""
    all_of, now = _totals(counted, by), _totals(recent, by)

    def rate_tps(name: str, measurement: Metric) -> float | None:
        count = now.get((name, measurement, MetricField.COUNT))
        return None if count is None else count / window_s

    return {
        name: ComponentTraffic(
            name=name,
            emitted=all_of.get((name, Metric.EMITTED, MetricField.COUNT)),
            executed=all_of.get((name, Metric.SERVICE, MetricField.COUNT)),
            emitted_tps=rate_tps(name, Metric.EMITTED),
            executed_tps=rate_tps(name, Metric.SERVICE),
            tuple_bytes=_batch_ratio(now, (name,), MetricField.BYTES, MetricField.BYTES_TUPLES),
        )
        for name in dict.fromkeys(key[0] for key in all_of)
    }


def _batch_ratio(
    totals: Totals, part: tuple[str, ...], over: MetricField, under: MetricField
) -> float | None:
    """Return a part's sum of one field of its batches over another; None where no batch left."""
    below = totals.get((*part, Metric.BATCH, under), 0.0)
    return totals.get((*part, Metric.BATCH, over), 0.0) / below if below else None


def _transferred(rows: pd.DataFrame, plan: PhysicalPlan) -> pd.DataFrame:
    """Return the tuples that executors sent each other: source, target, from, to, stream, value, far.

    ``from`` and ``to`` are their components; ``far`` is the part of the value that went to another worker.
    """
    sent = rows[rows["measurement"] == Metric.TRANSFERRED]
    to = pd.to_numeric(sent["peer"].astype(str), errors="coerce")
    by_task = plan.by_task
    workers = {task: e.worker.label for task, e in by_task.items()}
    far = sent["task"].map(workers).to_numpy() != to.map(workers).to_numpy()
    found = pd.DataFrame(
        {
            "source": sent["executor"],
            "target": to.map({task: e.label for task, e in by_task.items()}),
            "from": sent["component"],
            "to": to.map({task: e.component for task, e in by_task.items()}),
            "stream": sent["stream"],
            "value": sent["value"],
            "far": sent["value"] * far,
        }
    )
    return found[found["target"].notna()]


def _connections(
    sent: pd.DataFrame, ends: tuple[str, str], batches: Totals, window_s: float
) -> tuple[ConnectionTraffic, ...]:
    """Return the traffic between executors, or between components, the busiest first."""
    summed = sent.groupby([*ends, "stream"], as_index=False, observed=True)[["value", "far"]].sum()
    found = []
    for source, target, stream, tuples, far in summed.itertuples(index=False, name=None):
        size = _batch_ratio(batches, (source, stream), MetricField.BYTES, MetricField.BYTES_TUPLES)
        fill = _batch_ratio(batches, (source, stream), MetricField.TUPLES, MetricField.CAPACITY)
        found.append(
            ConnectionTraffic(
                source=source,
                target=target,
                stream=stream,
                remote=far > 0,
                tuples_tps=tuples / window_s,
                bytes_s=far / window_s * size if far and size is not None else None,
                fill_pct=None if fill is None else 100 * fill,
            )
        )
    return tuple(sorted(found, key=lambda c: -c.tuples_tps))
