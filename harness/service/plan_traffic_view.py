"""A step's plan as it ran at a moment: its drawing and tables, from what was written or is arriving."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from harness.experiments.arriving_rows import arriving_rows
from harness.experiments.loading import load
from harness.experiments.plan_traffic import PlanTraffic, TrafficByMoment
from harness.plans import PhysicalPlan
from harness.runs import Run, read_table

COLUMNS = ["bucket_end_ms", "measurement", "task", "stream", "peer", "field", "value"]
View = Literal["whole", "compact"]


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
