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
        by_task = plan.by_task
        read = rows.filter(pc.is_in(rows["measurement"].cast(pa.string()), pa.array(TRAFFIC)))
        place = pc.index_in(read["task"], pa.array(list(by_task), read["task"].type))
        self._rows = pa.table(
            {name: read[name] for name in ("bucket_end_ms", "task", "value")}
            | {name: read[name].cast(pa.string()) for name in ("measurement", "stream", "peer", "field")}
            | {
                "executor": pc.take(pa.array([e.label for e in by_task.values()]), place),
                "component": pc.take(pa.array([e.component for e in by_task.values()]), place),
            }
        ).filter(pc.is_valid(place))
        # Archived runs have executes of the interval only, but emits of the burn-in, too.
        executes = self._rows.filter(pc.equal(self._rows["measurement"], Metric.SERVICE))
        ends = executes.group_by("task").aggregate([("bucket_end_ms", "min"), ("bucket_end_ms", "max")])
        first_ms, last_ms = pc.max(ends["bucket_end_ms_min"]), pc.max(ends["bucket_end_ms_max"])
        self._known_ms = (first_ms.as_py() - self._bucket_ms, last_ms.as_py()) if len(ends) else None

    def at(self, epoch_ms: float) -> PlanTraffic | None:
        """Return the traffic at a moment; its last after the end, and None before anything is known."""
        if self._known_ms is None:
            return None
        first_ms, last_ms = self._known_ms
        until_ms = min(epoch_ms, last_ms)
        if until_ms - first_ms < self._bucket_ms:
            return None
        buckets = math.ceil(WINDOW_S * 1e3 / self._bucket_ms)
        since_ms = max(until_ms - buckets * self._bucket_ms, first_ms)
        counted = _between(self._rows, first_ms, until_ms)
        recent = _between(counted, since_ms, until_ms)
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
            counted_s=(until_ms - first_ms) / 1e3,
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


def _between(rows: pa.Table, since_ms: float, until_ms: float) -> pa.Table:
    ends = rows["bucket_end_ms"]
    return rows.filter(pc.and_(pc.greater(ends, since_ms), pc.less_equal(ends, until_ms)))


def _totals(rows: pa.Table, *by: str) -> Totals:
    keys = [*by, "measurement", "field"]
    sums = rows.group_by(keys, use_threads=False).aggregate([("value", "sum")])
    found = zip(*(sums[name].to_pylist() for name in (*keys, "value_sum")), strict=True)
    return dict(sorted((tuple(key), value) for *key, value in found))


def _parts(counted: pa.Table, recent: pa.Table, by: str, window_s: float) -> dict[str, ComponentTraffic]:
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


def _transferred(rows: pa.Table, plan: PhysicalPlan) -> pd.DataFrame:
    """Return the tuples that executors sent each other: source, target, from, to, stream, value, far.

    ``from`` and ``to`` are their components; ``far`` is the part of the value that went to another worker.
    """
    sent = rows.filter(pc.equal(rows["measurement"], Metric.TRANSFERRED)).to_pandas()
    to = pd.to_numeric(sent["peer"], errors="coerce")
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
