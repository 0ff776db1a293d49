"""Steps that changed their plan while they were measured: each period, its decision, and what it cost."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from harness.analysis.spark.inputs import RunRecord
from harness.experiments.forecast_settings import LATEST


class PeriodRow(NamedTuple):
    """A period of a step that adapts; a number is None where nothing says it.

    Attributes
    ----------
    start_s, end_s : float
        Since the first period began.
    in_force_s : float, optional
        From when the cluster was asked for the plan until every executor was in its place.
    bottleneck : str
        The resource that was used most, and how much of it.
    groups_moved, moved_state_bytes, group_pause_ms : float, optional
        Key groups that moved, the size of their states, and the longest that one was held back.
    nodes_changed : str
        Worker nodes that came, left or were marked for removal by the decision.
    batches : str
        Batch sizes in force at its end.
    planned_tps : float, optional
        Messages a second that the decision's plan is made for.
    forecast_declined : str
        Why that is the last period's rate, where a forecaster was asked.
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
    rate_tps: float | None
    executors: float | None
    workers: float | None
    over_target_s: float | None
    nodes: float | None
    groups_moved: float | None
    moved_state_bytes: float | None
    group_pause_ms: float | None
    planned_tps: float | None
    bottleneck: str = ""
    nodes_changed: str = ""
    batches: str = ""
    forecast_declined: str = ""


class AdaptedStep(NamedTuple):
    """A step that adapts, and its periods.

    Attributes
    ----------
    by : str
        Name of its scheduler or tuner.
    target_p95_ms : float, optional
        For which seconds are counted.
    planned_for : str
        Rate that its plans are made for, in words.
    """

    step: int
    rows: tuple[PeriodRow, ...]
    by: str = ""
    target_p95_ms: float | None = None
    planned_for: str = LATEST

    @property
    def reconfigurations(self) -> int:
        """Number of times that another plan was applied."""
        return sum(row.decision == "applied" for row in self.rows)

    @property
    def seconds(self) -> float:
        """Length of all periods."""
        return sum(row.end_s - row.start_s for row in self.rows)

    @property
    def over_target_s(self) -> float | None:
        """Seconds whose messages have a 95th percentile above the target."""
        return self._total([row.over_target_s for row in self.rows])

    @property
    def executor_seconds(self) -> float | None:
        """Executors in force, without Storm's own, times how long; a new plan's from when it is asked for."""
        return self._total([r.executors and r.executors * (r.end_s - r.start_s) for r in self.rows])

    @property
    def worker_seconds(self) -> float | None:
        """The same of the workers."""
        return self._total([r.workers and r.workers * (r.end_s - r.start_s) for r in self.rows])

    @property
    def node_seconds(self) -> float | None:
        """The same of the worker nodes."""
        return self._total([r.nodes and r.nodes * (r.end_s - r.start_s) for r in self.rows])

    @property
    def astray(self) -> tuple[float, float]:
        """Messages lost, and repeated, near decisions."""
        return sum(row.lost or 0 for row in self.rows), sum(row.repeated or 0 for row in self.rows)

    @staticmethod
    def _total(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None


_AS_THEY_ARE = (
    *("executors_moved", "workers_restarted", "pause_ms", "lost", "repeated"),
    *("latency_mean_ms", "latency_p95_ms", "between_nodes_tps", "load_distance_pct"),
    *("rate_tps", "executors", "workers", "over_target_s", "nodes"),
    *("groups_moved", "moved_state_bytes", "group_pause_ms", "planned_tps"),
)


def adapted_steps(run: RunRecord) -> list[AdaptedStep]:
    """Return the steps of a run that have an ``adaptation.parquet``, in their order."""
    found = []
    for step in run.steps:
        if step.adaptation is not None:
            asked = step.asked.adapt if step.asked else None
            words = (asked.by, asked.target_p95_ms, asked.planned_for) if asked else ("", None, LATEST)
            found.append(AdaptedStep(step.index, _periods(step.adaptation), *words))
    return found


def _periods(table: pd.DataFrame) -> tuple[PeriodRow, ...]:
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
                bottleneck=_most_used(row),
                nodes_changed=_nodes_changed(row),
                batches=_batches(row),
                forecast_declined=_words(row["forecast_declined"]),
                **known,
            )
        )
    return tuple(rows)


def _most_used(row: Mapping[Hashable, object]) -> str:
    name = row["bottleneck"]
    return f"{name} {row[f'{name}_use_pct']:.0f} %" if isinstance(name, str) else ""


def _words(cell: object) -> str:
    """Return a cell's text, and an empty one of a null."""
    return cell if isinstance(cell, str) else ""


def _batches(row: Mapping[Hashable, object]) -> str:
    """Return batch sizes in force, as one text."""
    found = row["batches"]
    return ", ".join(found) if isinstance(found, Iterable) else ""


def _nodes_changed(row: Mapping[Hashable, object]) -> str:
    words = {"nodes_added": "comes", "nodes_removed": "ends", "nodes_marked": "is to leave"}
    named = {word: row[column] for column, word in words.items()}
    return ", ".join(
        f"{name} {word}" for word, names in named.items() if isinstance(names, Iterable) for name in names
    )
