"""A step that a tuner proposes from a measured step, carried out on the cluster: a fresh submission.

Expected executors and batch sizes are the tuner's own answer to the observation of the step that it reads.
n is given so large that Aeolus batches the spout's output: a message takes longer than the gap between two.
The step that it reads has to be valid; a topology that makes its own messages has no schedule to keep.
"""

from __future__ import annotations

import json

import pytest
from campaigns import carry_out
from foreign_jars import compiled

from harness.analysis.judge.predicting import observation
from harness.app.planning import check_placements
from harness.backends.local.cluster import LocalCluster
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.machine.servers import ServerHomes
from harness.protocols import Observation
from harness.runs import Run
from harness.schemas import Metric, MetricField
from harness.tuning import make_tuner

pytestmark = pytest.mark.system

AEOLUS = {"message": {"n_us": 20_000, "s_ns_per_byte": 0, "origin": "given by the test"}, "flush_ms": 500}


@pytest.fixture(scope="module")
def tuned(cluster: LocalCluster, server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("tuned")
    settings = {
        "name": "tuned-steps",
        "models": ["no-change"],
        "topology": {
            "jar": str(compiled("Foreign.java", server_homes, folder)),
            "main": "Foreign",
            "args": ["{name}", "plain"],
            "ackers": 1,
        },
        "cluster": {"nodes": 2, "slots_per_node": 2},
        "measure": {
            "bucket_s": 1,
            "burn_in": {"least_s": 10, "most_s": 40, "drift_pct": 50},
            "interval": {"precision_pct": 100, "least_s": 15, "most_s": 15, "looks": 1},
        },
        "steps": {
            "plan": [{"executors": 2, "workers": 2}, {"tuner": {"name": "aeolus", **AEOLUS}, "from": 0}]
        },
    }
    check_placements(Experiment.model_validate(settings))
    return carry_out(settings, cluster, folder, lambda _: None)


def seen(run: Run, step: int) -> Observation:
    return observation(run, load(run.path / "experiment.yaml"), step)


def test_what_the_tuner_proposed_was_submitted_and_is_in_force(tuned: Run) -> None:
    assert tuned.finished_steps == (0, 1), tuned.declined_steps
    source = seen(tuned, 0)
    expected = make_tuner("aeolus", AEOLUS).propose(source, source.rate_tps)
    assert expected.batching["numbers"].size > 1
    plan = tuned.plan(1)
    assert {name: plan.asked.executors[name] for name in expected.executors} == expected.executors
    assert plan.start.configuration() == plan.asked
    assert plan.batching == expected.batching
    assert tuned.interval(1).submission == "fresh"
    kept = json.loads((tuned.step_path(1) / "tuning.json").read_text())
    assert kept["proposals"][0]["decisions"] == [d.model_dump(mode="json") for d in expected.decisions]


def test_its_tuples_travel_in_batches_of_that_size(tuned: Run) -> None:
    batched = seen(tuned, 1)
    size = batched.settings.batching["numbers"].size
    rows = batched.metrics
    mine = rows[(rows["measurement"] == Metric.BATCH) & (rows["component"] == "numbers")]
    sums = mine.groupby("field", observed=True)["value"].sum()
    assert sums[MetricField.CAPACITY] == size * sums[MetricField.MESSAGES]
    assert sums[MetricField.TUPLES] > sums[MetricField.MESSAGES]
