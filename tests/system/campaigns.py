"""Runs a small experiment on the shared cluster, for the tests that look at what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness.backends.kafka import Topics
from harness.backends.local import LocalCluster
from harness.backends.metrics_receiver import MetricsReceiver
from harness.campaigning import environment, jars, schedule
from harness.deployment import StormDeployment
from harness.experiments.campaign import Campaign
from harness.experiments.config import Experiment
from harness.experiments.contracts import Watcher
from harness.experiments.loading import files
from harness.runs import Run
from harness.workload.load import KafkaLoad


def carry_out(settings: Mapping[str, object], cluster: LocalCluster, folder: Path, watch: Watcher) -> Run:
    """Measure every step and return the run."""
    experiment = Experiment.model_validate(settings)
    name = experiment.name
    run = Run.create(folder, name, files(experiment), environment())
    with Topics(cluster.bootstrap) as topics:
        topics.create(f"{name}-in")
        topics.create(f"{name}-out")
    with (
        MetricsReceiver() as metrics,
        KafkaLoad(
            cluster.bootstrap,
            f"{name}-in",
            f"{name}-out",
            partial(schedule, experiment.workload),
            "x" * 64,
            group=name,
        ) as load,
    ):
        deployment = StormDeployment(experiment, cluster, name, load, metrics, jars(), folder / "submission")
        Campaign(experiment, run, deployment, load, metrics.store, watch).carry_out()
    cluster.nimbus.kill(name)
    return run
