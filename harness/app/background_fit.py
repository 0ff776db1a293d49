"""Fits CPU beside executors' own work (harness/models/composite/background.py) to runs of the tuning set.

The CPU that a worker uses beyond its executors' demand is a sum of activities times costs, times a factor of
its run. Errors are relative, and every run weighs the same. Each cost's logarithm has a prior: the cost as it
was measured alone, give or take a factor of e.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from harness.analysis.judge.evaluation import find_runs, read_split
from harness.analysis.judge.predicting import observation
from harness.errors import ModelDeclined, UsageError
from harness.experiments.loading import load
from harness.models.composite.model import composite
from harness.models.composite.plan.network_builder import NetworkBuilder
from harness.models.contract.layout import FloatArray
from harness.runs import Run

PRIOR = {
    "WORKER_CORES": 0.033,
    "LOOK_MS": 0.009,
    "POLL_MS": 0.078,
    "CONSUMER_CORES": 0.01,
    "FETCH_MS": 0.5,
    "REQUEST_MS": 0.5,
    "REMOTE_MS": 0.065,
}
"""Cores of a worker and of a consumer; milliseconds of a look, poll, fetch, request, remote tuple."""
NOISE = 0.13
"""Relative error that the sum is expected to have."""
MACHINE = 0.25
"""The same of a run's own factor on all costs: of the machine as it was then, and of its topology."""


def step(run: Run, number: int) -> tuple[FloatArray, FloatArray]:
    """Return what each worker does (itself and consumers; else thousands a second), and cores to explain."""
    told = observation(run, load(run.path / "experiment.yaml"), number)
    prepared = composite.prepare(told)
    evidence = prepared.source.evidence
    if evidence.worker_cores is None:
        raise ModelDeclined("no metric of worker processes")
    layout = evidence.layout
    builder = NetworkBuilder(prepared.estimates, layout, evidence.settings, evidence.rate_tps)
    found = builder.traffic.activity
    workers = found.remote.size

    def by_worker(of_executors: FloatArray) -> FloatArray:
        return np.bincount(layout.worker, weights=of_executors, minlength=workers).astype(np.float64)

    times = (found.looks, found.polls, 1000 * found.consumers, found.fetches, found.requests)
    sums = [by_worker(a) / 1000 for a in times]
    activities = np.column_stack([np.ones(workers), *sums, found.remote / 1000])
    own = by_worker(builder.demand_cores + builder.send_cores)
    known = ~np.isnan(evidence.worker_cores).all(axis=1)
    return activities[known], np.nanmean(evidence.worker_cores[known], axis=1) - own[known]


def fit(activities: FloatArray, cores: FloatArray, runs: Sequence[str]) -> FloatArray:
    """Return the costs in the order of ``PRIOR``.

    A model scales them by what the source used, so each run has a factor of its own here.
    """
    prior = np.array(list(PRIOR.values()))
    names, run = np.unique(np.array(runs), return_inverse=True)
    weight = 2 / np.sqrt(np.bincount(run))[run]

    def errors(logs: FloatArray) -> FloatArray:
        costs, factors = logs[: prior.size], logs[prior.size :]
        relative = np.log(activities @ (prior * np.exp(costs)) / cores) + factors[run]
        return np.concatenate([weight * relative / NOISE, costs, factors / MACHINE])

    found = least_squares(errors, np.zeros(prior.size + names.size)).x
    return np.asarray(prior * np.exp(found[: prior.size]))


def fit_background(runs: Sequence[Path], split_file: Path, say: Callable[[str], None]) -> None:
    """Fit the costs to runs, and say them and, for each run, by how much workers' measured use is off.

    Raises
    ------
    UsageError
        When a run is not of the tuning set that ``split_file`` names.
    """
    split = read_split(split_file)
    activities, cores, names = [], [], []
    for path in find_runs(runs):
        if split.part(path.parent.name) != "tuning":
            raise UsageError(f"{path}: not of the tuning set", f"see {split_file}")
        run = Run(path)
        for number in run.finished_steps:
            try:
                done, used = step(run, number)
            except ModelDeclined as why:
                say(f"{path} step {number}: {why}")
                continue
            activities.append(done)
            cores.append(used)
            names += [path.parent.name] * len(used)
    costs = fit(np.concatenate(activities), np.concatenate(cores), names)
    for name, cost in zip(PRIOR, costs, strict=True):
        say(f"{name} = {cost:.3g}")
    ratio = np.concatenate(cores) / (np.concatenate(activities) @ costs)
    for name in dict.fromkeys(names):
        mine = ratio[np.array(names) == name]
        say(f"{name}: measured over fitted {mine.min():.2f} to {mine.max():.2f}")
