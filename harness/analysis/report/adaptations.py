"""Steps that changed their plan while they were measured: each period, its decision, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from harness.analysis.spark.inputs import RunRecord


class PeriodRow(NamedTuple):
    """A period of a step that adapts; a number is None where nothing says it.

    Attributes
    ----------
    start_s, end_s : float
        Since the first period began.
    in_force_s : float, optional
        From when the cluster was asked for the plan until every executor was in its place.
    """

    period: int
    start_s: float
    end_s: float
    decision: str
    reason: str
    executors_moved: float | None
    workers_restarted: float | None
    in_force_s: float | None
    pause_ms: float | None
    lost: float | None
    repeated: float | None
    latency_mean_ms: float | None
    latency_p95_ms: float | None
    between_nodes_tps: float | None
    load_distance_pct: float | None


class AdaptedStep(NamedTuple):
    """A step that adapts, and its periods."""

    step: int
    rows: tuple[PeriodRow, ...]


_AS_THEY_ARE = (
    *("executors_moved", "workers_restarted", "pause_ms", "lost", "repeated"),
    *("latency_mean_ms", "latency_p95_ms", "between_nodes_tps", "load_distance_pct"),
)


def adapted_steps(run: RunRecord) -> list[AdaptedStep]:
    """Return the steps of a run that have an ``adaptation.parquet``, in their order."""
    found = []
    for step in run.steps:
        path = step.folder / "adaptation.parquet"
        if path.exists():
            found.append(AdaptedStep(step.index, _periods(path)))
    return found


def _periods(path: Path) -> tuple[PeriodRow, ...]:
    table = pq.read_table(path).to_pandas().sort_values("period")
    begun_ns = table["start_ns"].min()
    rows = []
    for row in table.to_dict("records"):
        known = {name: None if pd.isna(row[name]) else float(row[name]) for name in _AS_THEY_ARE}
        waited = row["in_force_ns"] - row["asked_ns"]
        rows.append(
            PeriodRow(
                period=int(row["period"]),
                start_s=(row["start_ns"] - begun_ns) / 1e9,
                end_s=(row["end_ns"] - begun_ns) / 1e9,
                decision=str(row["decision"]),
                reason=str(row["reason"]),
                in_force_s=None if pd.isna(waited) else float(waited) / 1e9,
                **known,
            )
        )
    return tuple(rows)
