"""Histories of traffic read from a run directory or a trace file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError
from harness.experiments.schedule import Trace
from harness.forecasts.histories import SubjectHistory, histories_of_metrics, history_of_trace
from harness.runs import Run, read_table


def read_subjects(
    source: Path, step: int | None, components: Sequence[str], bucket_s: float
) -> list[SubjectHistory]:
    """Read the rates of a run's step by component, task and stream, or the rate of a trace.

    Parameters
    ----------
    source : Path
        A run directory, or a trace file with one send time in seconds a line.
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
        if step is not None or components:
            raise UsageError(
                f"{source}: a trace has no step and no component", "leave --step, --component out"
            )
        return [history_of_trace(Trace.read(source).offsets_ns, bucket_s)]
    run = Run(source)
    finished = run.finished_steps
    if not finished:
        raise UsageError(
            f"{source}: no history: no step is finished", f"measure it: harness run --resume {source}"
        )
    chosen = finished[-1] if step is None else step
    if chosen not in finished:
        raise UsageError(
            f"{source}: step {chosen} is not finished", f"finished: {', '.join(map(str, finished))}"
        )
    interval = run.interval(chosen)
    up_ms = interval.start_epoch_ms - (interval.start_ns - interval.up_ns) / 1e6
    metrics = read_table(run.step_path(chosen) / "metrics.parquet").to_pandas()
    spouts = run.plan(chosen).start.query_plan.spouts
    return histories_of_metrics(metrics, components or spouts, up_ms, interval.end_epoch_ms, bucket_s)
