"""Where a step's executors go, when the cluster is not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.app.planning import StepPlanner
from harness.errors import ClusterError, StepDeclined
from harness.experiments.config import Experiment
from harness.experiments.loading import expand_steps, load
from harness.runs import Run


def placed_on_a_node_that_is_not_there(tmp_path: Path) -> Experiment:
    experiment = load("quick")
    labels = [f"{c.name}[1-1]" for c in experiment.topology.query_plan().components]
    (tmp_path / "p.yaml").write_text("".join(f'"{label}": "node-9:6700"\n' for label in labels))
    return load("quick", [f"steps.plan=[{{placement: {tmp_path / 'p.yaml'}}}]"])


def test_a_step_without_a_plan_is_declined_for_good_only_on_a_whole_cluster(tmp_path: Path) -> None:
    experiment = placed_on_a_node_that_is_not_there(tmp_path)
    (step,) = expand_steps(experiment)
    nodes = experiment.cluster.worker_nodes()
    run = Run.create(tmp_path, "quick", {}, {})
    with pytest.raises(StepDeclined):
        StepPlanner(experiment, run, lambda: nodes)(step)
    with pytest.raises(ClusterError, match=f"{nodes[0].name} is gone, and step 0 has no plan") as stopped:
        StepPlanner(experiment, run, lambda: nodes, lambda: nodes[:1])(step)
    assert "resume" in stopped.value.hint
