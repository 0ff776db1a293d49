"""A step's plan as it ran at a moment: its drawing and tables, from what was written or is arriving."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal

from markupsafe import Markup

from harness.experiments.arriving_rows import ARRIVING, arriving_rows
from harness.experiments.loading import load
from harness.experiments.plan_traffic import PlanTraffic, TrafficByMoment
from harness.experiments.progress import PROGRESS
from harness.plans import PhysicalPlan
from harness.runs import Run, read_table
from harness.service.following import plan_of
from harness.service.templates import page

COLUMNS = ["bucket_end_ms", "measurement", "task", "stream", "peer", "field", "value"]
View = Literal["whole", "compact"]
_drawing = Lock()
"""Pages of one run ask at the same time: the first draws, the others take what it drew."""


def drawn_plan(run: Run, step: int, view: View, epoch_ms: float | None) -> bytes | None:
    """Return a step's physical plan as it ran at a moment, drawn, as HTML; None where nobody knows the plan.

    Parameters
    ----------
    epoch_ms : float, optional
        By the run's own clock; without it the plan is drawn without its traffic.

    Raises
    ------
    UsageError
        When a file of the run cannot be read.
    """
    arrived = _bytes_of(run.path / ARRIVING)
    # The campaign says something every second: while rows arrive, only they change what is drawn.
    written = (arrived, 0 if arrived else _bytes_of(run.path / PROGRESS))
    with _drawing:
        return _drawn(run.path, step, view, epoch_ms, written)


@lru_cache(maxsize=16)
def _drawn(
    path: Path, step: int, view: View, epoch_ms: float | None, written: tuple[int, ...]
) -> bytes | None:
    del written  # of what is there now: when it has grown, the plan is drawn anew
    run = Run(path)
    plan = plan_of(run, step)
    if plan is None:
        return None
    traffic = None if epoch_ms is None else traffic_at(run, step, plan, epoch_ms)
    return bytes(page("plan.html.j2", "../../../", **plan_parts(plan, traffic, view)).body)


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # not there, or not any more
        return 0


def traffic_at(run: Run, step: int, plan: PhysicalPlan, epoch_ms: float) -> PlanTraffic | None:
    """Return a step's traffic at a moment; None where nothing is known of it.

    Parameters
    ----------
    plan : PhysicalPlan
        Of the step.
    epoch_ms : float
        By the run's own clock.

    Raises
    ------
    UsageError
        When a file of the run cannot be read.
    """
    if step in run.finished_steps:
        return _finished(run.path, step).at(epoch_ms)
    rows = arriving_rows(run.path, step)
    return None if rows is None else TrafficByMoment(rows, plan, _bucket_s(run.path)).at(epoch_ms)


def plan_parts(plan: PhysicalPlan, traffic: PlanTraffic | None, view: View) -> dict[str, object]:
    """Return a plan, whole or compact, as the template ``plan.html.j2`` shows it."""
    from harness.analysis.figures import traffic_drawing  # noqa: PLC0415 (takes a second)

    draw = traffic_drawing.draw_whole if view == "whole" else traffic_drawing.draw_compact
    return {
        "drawing": Markup(draw(plan, traffic)),  # it escapes all names
        "view": view,
        "traffic": traffic,
        "ways": () if traffic is None else traffic.connections if view == "whole" else traffic.streams,
        "bytes_words": traffic_drawing.bytes_words,
    }


@lru_cache(maxsize=4)
def _finished(path: Path, step: int) -> TrafficByMoment:
    run = Run(path)
    rows = read_table(run.step_path(step) / "metrics.parquet", COLUMNS)
    return TrafficByMoment(rows, run.plan(step).start, _bucket_s(path))


@lru_cache(maxsize=8)
def _bucket_s(path: Path) -> float:
    return float(load(path / "experiment.yaml").measure.bucket_s)
