"""Histories of traffic and of its keys, read from a run directory or a trace file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import UsageError
from harness.experiments.keyed_trace import KeyedTrace, read_keyed
from harness.experiments.loading import load
from harness.experiments.schedule import NS_PER_S
from harness.forecasts.histories import TRACE, SubjectHistory, histories_of_metrics, history_of_trace
from harness.forecasts.key_shares import KeyCounts
from harness.runs import Run, read_table
from harness.schemas import Metric, MetricField

_MS_PER_S = 1e3


def read_subjects(
    source: Path, step: int | None, components: Sequence[str], bucket_s: float
) -> list[SubjectHistory]:
    """Read the rates of a run's step by component, task and stream, or the rate of a trace.

    Parameters
    ----------
    source : Path
        A run directory, or a trace file with one send time in seconds a line, and perhaps a key after it.
    step : int, optional
        Of a run; the last finished one by default. It is read from when its plan was in force to the end
        of its interval.
    components : sequence of str
        Of a run; the spouts by default.
    bucket_s : float
        Length of a bucket.

    Raises
    ------
    UsageError
        When there is nothing to read, or not what was asked for.
    """
    if source.is_file():
        return [history_of_trace(_trace(source, step, components).trace.offsets_ns, bucket_s)]
    run = Run(source)
    chosen = _finished(run, step)
    spouts = run.plan(chosen).start.query_plan.spouts
    return histories_of_metrics(_metrics(run, chosen), components or spouts, *_span_ms(run, chosen), bucket_s)


def read_key_counts(source: Path, step: int | None, components: Sequence[str]) -> list[KeyCounts]:
    """Read how often each key came: key groups of a run's step by component, or keys of a trace.

    Parameters
    ----------
    source, step
        As of ``read_subjects``.
    components : sequence of str
        Of a run; all that have key groups by default.

    Raises
    ------
    UsageError
        When there is nothing to read, or no keys were recorded.
    """
    if source.is_file():
        return [_of_trace(source, _trace(source, step, components))]
    run = Run(source)
    chosen = _finished(run, step)
    start_ms, end_ms = _span_ms(run, chosen)
    rows = _metrics(run, chosen)
    rows = rows[(rows["measurement"] == Metric.KEY_GROUP) & (rows["field"] == MetricField.COUNT)]
    rows = rows[(rows["bucket_end_ms"] > start_ms) & (rows["bucket_end_ms"] <= end_ms)]
    rows = rows.astype({"component": str, "peer": str})
    there = sorted(rows["component"].unique())
    if not there:
        raise UsageError(f"{source}: no keys were recorded", "of a run, components of role keyed have them")
    for component in components:
        if component not in there:
            raise UsageError(f"{source}: {component} has no key groups", f"those that do: {', '.join(there)}")
    return [_of_rows(c, rows[rows["component"] == c], start_ms) for c in components or there]


def seasons_of(source: Path) -> tuple[float, ...]:
    """Return the lengths in seconds of the seasons that a run's experiment says its traffic has.

    They are those of the first step that plans for a forecast (``adapt.season_s``); a trace says none.
    """
    if source.is_file():
        return ()
    said = (spec.adapt.season_s for spec in load(source / "experiment.yaml").steps.plan if spec.adapt)
    return next(filter(None, said), ())


def _trace(source: Path, step: int | None, components: Sequence[str]) -> KeyedTrace:
    if step is not None or components:
        raise UsageError(f"{source}: a trace has no step and no component", "leave --step, --component out")
    return read_keyed(source)


def _finished(run: Run, step: int | None) -> int:
    """Return the step that is asked for, the last finished one by default."""
    finished = run.finished_steps
    if not finished:
        raise UsageError(
            f"{run.path}: no history: no step is finished", f"measure it: harness run --resume {run.path}"
        )
    chosen = finished[-1] if step is None else step
    if chosen not in finished:
        raise UsageError(
            f"{run.path}: step {chosen} is not finished", f"finished: {', '.join(map(str, finished))}"
        )
    return chosen


def _metrics(run: Run, step: int) -> pd.DataFrame:
    metrics: pd.DataFrame = read_table(run.step_path(step) / "metrics.parquet").to_pandas()
    return metrics


def _span_ms(run: Run, step: int) -> tuple[float, float]:
    """Return when the step's plan was in force, and the end of its interval, in ms of the epoch."""
    interval = run.interval(step)
    return interval.start_epoch_ms - (interval.start_ns - interval.up_ns) / 1e6, interval.end_epoch_ms


def _of_trace(source: Path, keyed: KeyedTrace) -> KeyCounts:
    if not keyed.keys:
        raise UsageError(f"{source}: no keys were recorded", "write a key behind each send time")
    keys, key = np.unique(np.array(keyed.keys), return_inverse=True)
    time_s = keyed.trace.offsets_ns / NS_PER_S
    # It ends where the next message would have come.
    end_s = float(time_s[-1]) * (len(time_s) + 1) / len(time_s)
    return KeyCounts(TRACE, tuple(map(str, keys)), time_s, key, np.ones(len(time_s)), 0.0, end_s)


def _of_rows(component: str, rows: pd.DataFrame, start_ms: float) -> KeyCounts:
    ends_s = rows["bucket_end_ms"].to_numpy(dtype=float) / _MS_PER_S
    apart_s = np.diff(np.unique(ends_s[(rows["task"] == rows["task"].iloc[0]).to_numpy()]))
    bucket_s = float(np.median(apart_s)) if len(apart_s) else 0.0
    keys, key = np.unique(rows["peer"].to_numpy(dtype=str), return_inverse=True)
    return KeyCounts(
        component=component,
        keys=tuple(map(str, keys)),
        time_s=ends_s - bucket_s / 2,
        key=key,
        count=rows["value"].to_numpy(dtype=float),
        start_s=start_ms / _MS_PER_S,
        end_s=float(ends_s.max()),
        bucket_s=bucket_s,
    )
