"""Fits what CPU costs beside executors' own work (harness/models/background.py) to runs of the tuning set.

    python scripts/fit_background.py reports/runs/all-in-one/20260102T030405Z ...

Prints the costs and, for each run, by how much steps' measured use is off. Of a step, what its workers use
beyond their executors' demand is a sum of activities times costs; errors are relative, every run weighs the
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
    "MESSAGE_MS": 0.3,
    "REMOTE_MS": 0.065,
}
"""Cores of a worker, and milliseconds of one look and sleep, poll, message and tuple between workers."""
NOISE = 0.13
"""Relative error that the sum is expected to have."""


def step(run: Run, number: int) -> tuple[FloatArray, float]:
    """Return a step's activities (worker processes, then thousands a second) and cores to explain by them."""
    told = observation(run, load(run.path / "experiment.yaml"), number)
    prepared = composite.prepare(told)
    evidence = prepared.source.evidence
    if evidence.worker_cores is None:
        raise ModelDeclined("no metric of worker processes")
    builder = Builder(prepared.estimates, evidence.layout, evidence.settings, evidence.rate_tps)
    found = builder.activity()
    used = float(np.nanmean(evidence.worker_cores, axis=1).sum())
    own = float((builder.demand_cores() + builder.send_cores()).sum())
    sums = [float(a.sum()) / 1000 for a in (found.looks, found.polls, found.entered, found.remote)]
    return np.array([found.remote.size, *sums]), used - own


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
            names.append(path.parent.name)
    costs = fit(np.array(activities), np.array(cores), names)
    for name, cost in zip(PRIOR, costs, strict=True):
        click.echo(f"{name} = {cost:.3g}")
    ratio = np.array(cores) / (np.array(activities) @ costs)
    for name in dict.fromkeys(names):
        mine = ratio[np.array(names) == name]
        click.echo(f"{name}: measured over fitted {mine.min():.2f} to {mine.max():.2f}")


if __name__ == "__main__":
    main()
