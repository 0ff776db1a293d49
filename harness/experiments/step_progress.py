"""A step that is over, told as the campaign's events: for simulated runs, and to replay recorded ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.experiments.contracts import Phase, Progress
from harness.experiments.measuring import SHOWN_S
from harness.experiments.precision import precision_words
from harness.experiments.progress import ProgressEvent
from harness.plans import PhysicalPlan
from harness.quality import Quality
from harness.runs import Interval, Run, judged, read_latency

COLUMNS = ["message_id", "in_interval", "sent_ns", "left_ns", "ground_truth_ms", "broker_ms"]
"""Columns of ``latency.parquet`` that are read to tell a step again."""
EVERY_S = 1.0


def step_progress(
    interval: Interval,
    quality: Quality,
    plan: PhysicalPlan,
    latency: pa.Table,
    steps: int,
    rest_s: float = 0.0,
) -> Iterator[Progress]:
    """Yield the events of a finished step, a second apart in burn-in and interval, on the step's own clock.

    Parameters
    ----------
    interval, quality, plan
        As they were written; the plan at the interval's start.
    latency : Table
        ``COLUMNS`` of the step's ``latency.parquet``; what never came out is not among what was sent.
    steps : int
        How many the experiment has.
    rest_s : float
        What all later steps take.

    Yields
    ------
    Progress
        With the rate and the mean latency of the rows that came out in the last few seconds, as a live
        campaign shows them. Where a topology makes its own messages there are no rows, and neither. Where
        a table has the interval's messages only, as archived ones do, nothing is known of the burn-in.
    """
    rows = judged(latency, interval.latency)
    left_ns, order = _sorted(rows["left_ns"])
    sent_ns, _ = _sorted(rows["sent_ns"])
    shown = rows["ground_truth_ms"].to_numpy(zero_copy_only=False)[order].astype(np.float64)
    messages = rows["message_id"].to_numpy()[order]
    whole = not pc.all(rows["in_interval"]).as_py()
    known_ns = interval.up_ns if whole else interval.start_ns
    end_ns = interval.drained_ns or interval.settled_ns or interval.end_ns

    def told(phase: Phase, at_ns: float, detail: str = "", plan: PhysicalPlan | None = None) -> Progress:
        since, until = np.searchsorted(left_ns, [at_ns - SHOWN_S * 1e9, at_ns], side="right")
        recent = shown[since:until]
        known = recent[np.isfinite(recent)]
        seconds = min((at_ns - known_ns) / 1e9, SHOWN_S)
        watched = phase in ("burn-in", "measure") and left_ns.size > 0 and seconds > 0
        return Progress(
            step=interval.step,
            steps=steps,
            phase=phase,
            label=interval.configuration,
            rate_tps=float(np.unique(messages[since:until]).size / seconds) if watched else None,
            latency_ms=float(known.mean()) if watched and known.size else None,
            left_s=max((end_ns - at_ns) / 1e9, 0.0) + rest_s,
            detail=detail,
            ledger={"sent": int(np.searchsorted(sent_ns, at_ns, side="right")), "received": int(until)}
            if left_ns.size and whole
            else {},
            plan=plan,
            epoch_ms=interval.start_epoch_ms + round((at_ns - interval.start_ns) / 1e6),
        )

    yield told("rebalance" if interval.submission == "rebalance" else "submit", interval.rebalance_start_ns)
    yield told("burn-in", interval.up_ns, plan=plan)
    parts: tuple[tuple[Phase, int, int], ...] = (
        ("burn-in", interval.up_ns, interval.start_ns),
        ("measure", interval.start_ns, interval.end_ns),
    )
    for phase, first_ns, last_ns in parts:
        for at_ns in np.arange(first_ns + EVERY_S * 1e9, last_ns, EVERY_S * 1e9):
            yield told(phase, float(at_ns))
    yield told("drain", interval.settled_ns or interval.end_ns)
    mean = f"mean {interval.mean_ms:.2f} ms, {precision_words(interval.precision_pct_reached)}"
    ended = told("done", interval.done_ns, quality.saturated or mean)
    yield Progress(**{**vars(ended), "ledger": quality.ledger_counts})


def finished_step_progress(run: Run, step: int, steps: int, rest_s: float) -> Iterator[Progress]:
    """Yield the events of a run's finished step, read from its folder; see ``step_progress``.

    Raises
    ------
    UsageError
        When a file of the step cannot be read.
    """
    latency = read_latency(run.step_path(step), COLUMNS)
    plan = run.plan(step).start
    return step_progress(run.interval(step), run.quality(step), plan, latency, steps, rest_s)


def recorded_progress(run: Run) -> list[ProgressEvent]:
    """Return the events of a run's finished steps, made again of what was measured.

    For runs that have no ``progress.jsonl``: those of before, and archived ones.

    Raises
    ------
    UsageError
        When a file of the run cannot be read.
    """
    finished = run.finished_steps
    took_s = {step: _took_s(run.interval(step)) for step in finished}
    events: list[ProgressEvent] = []
    for step in finished:
        rest_s = sum(seconds for later, seconds in took_s.items() if later > step)
        last: Phase | None = None
        for now in finished_step_progress(run, step, len(finished), rest_s):
            events.append(ProgressEvent.of(now, "phase" if now.phase != last else "progress"))
            last = now.phase
    if events:
        ended = f"{len(finished)} finished steps, made again of what was measured"
        events.append(ProgressEvent(time=events[-1].time, event="end", steps=len(finished), detail=ended))
    return events


def _took_s(interval: Interval) -> float:
    return (interval.done_ns - interval.rebalance_start_ns) / 1e9


def _sorted(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Return times in order, and the order that they come in; rows without one are last."""
    values = column.cast(pa.int64()).fill_null(2**62).to_numpy()
    order = np.argsort(values, kind="stable")
    return values[order], order
