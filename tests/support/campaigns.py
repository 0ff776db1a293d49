"""Runs a small experiment on the shared cluster, for the tests that look at what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.app import measured_with
from harness.app.campaigning import NamedSubmission, carry_out_on, environment, jars
from harness.app.clusters import access
from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.contracts import Watcher
from harness.experiments.loading import files
from harness.runs import Run
from harness.storm import capturing


def carry_out(settings: Mapping[str, object], cluster: LocalCluster, folder: Path, watch: Watcher) -> Run:
    """Measure every step and return the run."""
    experiment, run = begun(settings, cluster, folder)
    go_on(experiment, run, cluster, NamedSubmission(experiment.name, folder / "submission", 0), watch)
    return run


def begun(settings: Mapping[str, object], cluster: LocalCluster, folder: Path) -> tuple[Experiment, Run]:
    """Return an experiment and its run, of which nothing is measured yet."""
    experiment = capturing.known(Experiment.model_validate(settings), cluster.homes, jars())
    run = Run.create(folder, experiment.name, files(experiment), environment())
    return experiment, measured_with.kept(run, experiment)


def go_on(
    experiment: Experiment, run: Run, cluster: LocalCluster, submission: NamedSubmission, watch: Watcher
) -> None:
    """Measure the steps that a run does not have yet; its topology stays where one cannot be measured."""
    stores = access(experiment).stores()
    topology = carry_out_on(experiment, run, cluster, submission, stores, watch)
    cluster.nimbus.kill(topology)
