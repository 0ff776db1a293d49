"""Steps whose bolts helped or whose spouts paused: how many tuples were helped, and how long who waited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.schemas import Metric, MetricField

POINTS = ["step", "time_s", "acked_so_far", "helped_so_far", "paused_pct"]
COLUMNS = ["bucket_end_ms", "measurement", "component", "task", "field", "value"]


class WatchedComponent(NamedTuple):
    """A component whose queues were looked at in a step's interval; shares are of the time looked at."""

    name: str
    fill_pct: float
    fill_most_pct: float
    helped_pct: float
    """Helpers served all of its tuples (Leron back-pressure)."""
    pressed_pct: float
    """Its queues were over their mark and nobody helped."""


class RelievedStep(NamedTuple):
    """A step in which bolts may help or spouts may pause.

    Attributes
    ----------
    acked_tps : float
        Messages acked a second.
    paused_pct : float, optional
        Share of the time in which the spouts paused; None where they may not.
    helped_tps, helped_pct : float, optional
        Tuples that helpers served, and their share of those that they could have; None without helpers.
    requests : int, optional
        Times that help was asked for in the interval.
    """

    step: int
    label: str
    acked_tps: float
    paused_pct: float | None
    helped_tps: float | None
    helped_pct: float | None
    requests: int | None
    components: tuple[WatchedComponent, ...]


def relieved_steps(run: RunRecord) -> list[RelievedStep]:
    """Return the steps of a run in their order, where at least one of them may help or pause; else none."""
    return [_relieved(step) for step in run.steps] if _has_relief(run) else []


def relief_points(run: RunRecord) -> pd.DataFrame:
    """Return the steps of a run over time, where at least one of them may help or pause; else no row.

    Returns
    -------
    DataFrame
        A row for each bucket of a ``step``'s metrics: ``time_s`` (of its end, since the interval's begin),
        ``acked_so_far`` and ``helped_so_far`` (messages acked and tuples that helpers served, since then),
        ``paused_pct`` (share of the bucket in which the spouts paused). NaN where it is not measured.
    """
    if not _has_relief(run):
        return pd.DataFrame(columns=POINTS)
    return pd.concat([_by_bucket(s).assign(step=s.index) for s in run.steps], ignore_index=True)


def _has_relief(run: RunRecord) -> bool:
    return any(step.plan.relief.parts for step in run.steps)


def _by_bucket(step: StepRecord) -> pd.DataFrame:
    rows = _rows(step)
    ends_ms = sorted(rows["bucket_end_ms"].unique())

    def by_bucket(measurement: Metric, field: MetricField) -> pd.Series[float]:
        mine = rows[(rows["measurement"] == measurement) & (rows["field"] == field)]
        return mine.groupby("bucket_end_ms")["value"].sum().reindex(ends_ms)

    paused_ns, watched_ns = (
        by_bucket(Metric.PAUSED, f) for f in (MetricField.PAUSED_NS, MetricField.WATCHED_NS)
    )
    return pd.DataFrame(
        {
            "time_s": (pd.Series(ends_ms, index=ends_ms, dtype=float) - step.interval.start_epoch_ms) / 1e3,
            "acked_so_far": by_bucket(Metric.ACK, MetricField.ACKED).cumsum(),
            "helped_so_far": by_bucket(Metric.HELP, MetricField.TUPLES).cumsum(),
            "paused_pct": 100 * paused_ns / watched_ns,
        }
    )


def _relieved(step: StepRecord) -> RelievedStep:
    rows = _rows(step)
    interval = step.interval
    length_s = (interval.end_epoch_ms - interval.start_epoch_ms) / 1e3
    acked, paused, helped = (rows[rows["measurement"] == m] for m in (Metric.ACK, Metric.PAUSED, Metric.HELP))
    offered = _sum(helped, MetricField.OFFERED)
    asked = helped[helped["field"] == MetricField.REQUESTS].groupby("task")["value"]
    return RelievedStep(
        step=step.index,
        label=interval.configuration,
        acked_tps=_sum(acked, MetricField.ACKED) / length_s,
        paused_pct=None if paused.empty else _share_pct(paused, MetricField.PAUSED_NS),
        helped_tps=None if helped.empty else _sum(helped, MetricField.TUPLES) / length_s,
        helped_pct=None if helped.empty else 100 * _sum(helped, MetricField.TUPLES) / max(offered, 1.0),
        requests=None if helped.empty else int((asked.max() - asked.min()).max()),
        components=tuple(_watched(rows[rows["measurement"] == Metric.PRESSURE])),
    )


def _rows(step: StepRecord) -> pd.DataFrame:
    interval = step.interval
    table = pq.read_table(step.folder / "metrics.parquet")
    ends = table["bucket_end_ms"]
    inside = pc.and_(pc.greater(ends, interval.start_epoch_ms), pc.less_equal(ends, interval.end_epoch_ms))
    kept = table.filter(inside).select(COLUMNS)
    rows: pd.DataFrame = kept.to_pandas().astype({"measurement": str, "component": str, "field": str})
    return rows


def _watched(rows: pd.DataFrame) -> Iterable[WatchedComponent]:
    for name, own in rows.groupby("component", sort=True):
        yield WatchedComponent(
            name=str(name),
            fill_pct=float(own.loc[own["field"] == MetricField.FILL_PCT, "value"].mean()),
            fill_most_pct=float(own.loc[own["field"] == MetricField.FILL_MOST_PCT, "value"].max()),
            helped_pct=_share_pct(own, MetricField.HELPED_NS),
            pressed_pct=_share_pct(own, MetricField.PRESSED_NS),
        )


def _share_pct(rows: pd.DataFrame, field: MetricField) -> float:
    return 100 * _sum(rows, field) / max(_sum(rows, MetricField.WATCHED_NS), 1.0)


def _sum(rows: pd.DataFrame, field: MetricField) -> float:
    return float(rows.loc[rows["field"] == field, "value"].sum())
