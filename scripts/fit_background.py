"""Fits what CPU costs beside executors' own work (harness/models/background.py) to runs of the tuning set.

    python scripts/fit_background.py reports/runs/all-in-one/20260102T030405Z ...

Prints the costs and, for each run, by how much workers' measured use is off. What a worker of a step uses
beyond its executors' demand is a sum of activities times costs; errors are relative, every run weighs the
same, and each cost's logarithm has a prior: what was measured of it alone, give or take a factor of e.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from scipy.optimize import least_squares

from harness.analysis.evaluation import find_runs, read_split
from harness.analysis.predicting import observation
from harness.errors import ModelDeclined, UsageError
from harness.experiments.loading import load
from harness.models.composite import composite
from harness.models.layout import FloatArray
from harness.models.plan_network import Builder
from harness.runs import Run

SPLIT = Path("reports/evaluation-split.yaml")
PRIOR = {
    "WORKER_CORES": 0.033,
    "LOOK_MS + SLEEP_MS": 0.009,
    "POLL_MS": 0.078,
    "FETCH_MS": 0.5,
    "REQUEST_MS": 0.5,
    "REMOTE_MS": 0.065,
}
"""Cores of a worker, and milliseconds of a look and sleep, poll, fetch, request and tuple between workers."""
NOISE = 0.13
"""Relative error that the sum is expected to have."""


def step(run: Run, number: int) -> tuple[FloatArray, FloatArray]:
    """Return activities by worker (itself, then thousands a second), and cores to explain by them."""
    told = observation(run, load(run.path / "experiment.yaml"), number)
    prepared = composite.prepare(told)
    evidence = prepared.source.evidence
    if evidence.worker_cores is None:
        raise ModelDeclined("no metric of worker processes")
    layout = evidence.layout
    builder = Builder(prepared.estimates, layout, evidence.settings, evidence.rate_tps)
    found = builder.activity()
    workers = found.remote.size

    def by_worker(of_executors: FloatArray) -> FloatArray:
        return np.bincount(layout.worker, weights=of_executors, minlength=workers)

    sums = [by_worker(a) for a in (found.looks, found.polls, found.fetches, found.requests)]
    activities = np.column_stack([np.ones(workers), *(a / 1000 for a in (*sums, found.remote))])
    own = by_worker(builder.demand_cores() + builder.send_cores())
    known = ~np.isnan(evidence.worker_cores).all(axis=1)
    return activities[known], np.nanmean(evidence.worker_cores[known], axis=1) - own[known]


def fit(activities: FloatArray, cores: FloatArray, runs: Sequence[str]) -> FloatArray:
    """Return the costs in the order of ``PRIOR``."""
    prior = np.array(list(PRIOR.values()))
    names = np.array(runs)
    weight = np.array([2 / np.sqrt((names == name).sum()) for name in names])

    def errors(logs: FloatArray) -> FloatArray:
        relative = activities @ (prior * np.exp(logs)) / cores - 1
        return np.concatenate([weight * relative / NOISE, logs])

    return np.asarray(prior * np.exp(least_squares(errors, np.zeros(prior.size)).x))


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(runs: tuple[Path, ...]) -> None:
    """Fit and print."""
    split = read_split(SPLIT)
    activities, cores, names = [], [], []
    for path in find_runs(runs):
        if split.part(path.parent.name) != "tuning":
            raise UsageError(f"{path}: not of the tuning set", f"see {SPLIT}")
        run = Run(path)
        for number in run.finished_steps:
            try:
                done, used = step(run, number)
            except ModelDeclined as why:
                click.echo(f"{path} step {number}: {why}")
                continue
            activities.append(done)
            cores.append(used)
            names += [path.parent.name] * len(used)
    costs = fit(np.concatenate(activities), np.concatenate(cores), names)
    for name, cost in zip(PRIOR, costs, strict=True):
        click.echo(f"{name} = {cost:.3g}")
    ratio = np.concatenate(cores) / (np.concatenate(activities) @ costs)
    for name in dict.fromkeys(names):
        mine = ratio[np.array(names) == name]
        click.echo(f"{name}: measured over fitted {mine.min():.2f} to {mine.max():.2f}")


if __name__ == "__main__":
    main()
