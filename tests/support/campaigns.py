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
    experiment = capturing.known(Experiment.model_validate(settings), cluster.homes, jars())
    name = experiment.name
    run = measured_with.kept(Run.create(folder, name, files(experiment), environment()), experiment)
    stores = access(experiment).stores()
    submission = NamedSubmission(name, folder / "submission", first_id=0)
    topology = carry_out_on(experiment, run, cluster, submission, stores, watch)
    cluster.nimbus.kill(topology)
    return run
