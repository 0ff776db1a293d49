"""The folder of a submitted topology, made of an archived run's first step: plan, settings, metrics."""

from __future__ import annotations

from pathlib import Path

from harness.app.submitted.folder import SubmittedFacts, SubmittedTopology
from harness.experiments.clusters import FoundNode, Running
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.runs import Run

ARCHIVE = Path(__file__).resolve().parents[2] / "reports" / "runs"
STEP = 0


def archived() -> Run:
    """Return a run whose steps differ in executors and workers."""
    return Run(next((ARCHIVE / "loaded-workers").iterdir()))


def left_running(folder: Path, name: str = "words", url: str = "http://127.0.0.1:9") -> SubmittedTopology:
    """Write what ``harness submit`` would have written, had it submitted the run's topology.

    Nobody listens at the cluster's addresses.
    """
    run = archived()
    plan, interval = run.plan(STEP).start, run.interval(STEP)
    found = tuple(
        FoundNode(name=n.name, address=n.address, slots=n.slots, cores=n.cores, here=True) for n in plan.nodes
    )
    shape = Running(nimbus="127.0.0.1:9", kafka="127.0.0.1:9", nodes=len(found), found=found)
    given = load(run.path / "experiment.yaml").model_dump(mode="json")
    store = {"store": "influxdb", "url": url, "org": "harness", "bucket": "harness"}
    given |= {"name": name, "cluster": shape.model_dump(mode="json"), "metrics": store}
    experiment = Experiment.model_validate(given)
    facts = SubmittedFacts(
        topology=f"{name}-of-storm",
        at_epoch_ms=interval.start_epoch_ms,
        cluster=shape,
        storm_version="2.8.3",
        settings=experiment.storm_settings(),
    )
    return SubmittedTopology.create(folder / name, experiment, facts, plan)
