"""Errors of the composite model from the nearest step, and from the others, over archived runs.

    python bench/nearest_step.py [RUN ...]

Each step of a run that is not saturated is predicted from every other one whose plan or rate differs. Printed
is the median error of the mean latency, in percent: from the nearest, from all, from the first and from the
farthest; and how often no step is better than the nearest one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

from harness.app.nearest_step import usable_steps
from harness.app.opened_run import OpenedRun, load_run, predict, readable_runs
from harness.errors import HarnessError
from harness.schedulers.plan_distance import PlanWanted, nearest, plan_distance
from harness.schemas import Measure

LATENCY = (Measure.GROUND_TRUTH, "mean", "")


def error_pct(run: OpenedRun, source: int, proposed: int) -> float | None:
    """Return the error of the predicted mean; None where none was predicted."""
    answer = predict(run, "composite", source, proposed)
    found = next((e for e in answer.estimates if (e.measure, e.statistic, e.subject) == LATENCY), None)
    measured = run.run.interval(proposed).mean_ms
    if found is None or found.value is None or not measured > 0:
        return None
    return 100 * abs(found.value - measured) / measured


def compare(run: OpenedRun) -> list[tuple[float, list[float], float, float]]:
    """Return errors from the nearest, from all, the first and the farthest, by proposed step."""
    found = []
    for proposed in usable_steps(run.run):
        wanted = PlanWanted(placed=run.plan(proposed), rate_tps=run.run.interval(proposed).rate_tps)
        away = {
            n: plan_distance(wanted, run.plan(n), run.run.interval(n).rate_tps)
            for n in usable_steps(run.run)
            if n != proposed
        }
        away = {n: d for n, d in away.items() if d.total > 0.01}
        errors = {n: e for n in away if (e := error_pct(run, n, proposed)) is not None}
        if len(errors) < 2:
            continue
        steps = list(errors)
        near = steps[nearest([away[n] for n in steps])]
        far = max(steps, key=lambda n: away[n].total)
        found.append((errors[near], list(errors.values()), errors[steps[0]], errors[far]))
    return found


def main() -> None:
    """Print a row a run, and all runs together."""
    paths = [Path(p) for p in sys.argv[1:]] or [r.path for r in readable_runs(Path("reports/runs"))]
    every = []
    for path in paths:
        try:
            found = compare(load_run(path))
        except HarnessError as why:
            click.echo(f"{path}: {why}")
            continue
        if found:
            show(f"{path.parent.name}/{path.name}", found)
            every += found
    show("all", every)


def show(name: str, found: list[tuple[float, list[float], float, float]]) -> None:
    """Print one row."""
    near, every, first, far = zip(*found, strict=True)
    best = np.mean([n <= min(errors) for n, errors in zip(near, every, strict=True)])
    medians = [np.median(near), np.median(np.concatenate(every)), np.median(first), np.median(far)]
    text = "  ".join(f"{m:6.1f}" for m in medians)
    click.echo(f"{name:45} {len(found):4} predicted: {text}; nearest is best {100 * best:.0f} %")


if __name__ == "__main__":
    main()
