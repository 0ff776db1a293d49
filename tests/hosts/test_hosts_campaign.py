"""An experiment on the provisioned hosts, and what happens when one of them disappears in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hosts import ROOT, Provisioned, harness

from harness.runs import Run

pytestmark = pytest.mark.system

SHORT = (
    "topology.tasks=4",
    "measure.burn_in.least_s=10",
    "measure.burn_in.most_s=15",
    "measure.burn_in.drift_pct=90",
    "measure.interval.least_s=12",
    "measure.interval.most_s=12",
    "measure.interval.looks=1",
    "measure.interval.precision_pct=50",
    "workload.rate_tps=50",
    "steps.plan=[{executors: 1, workers: 4}, {executors: 2, workers: 4}]",
)


def arguments(provisioned: Provisioned, runs: Path) -> list[str]:
    options = [f"--set={option}" for option in (*SHORT, f"cluster={provisioned.file}")]
    return ["run", "quick", "--runs", str(runs), *options]


def test_an_experiment_runs_on_the_hosts(provisioned: Provisioned, tmp_path: Path) -> None:
    done = harness(*arguments(provisioned, tmp_path))
    assert done.status in (0, 3, 4), done.err  # whether it is precise is not what is tested
    run = Run(tmp_path / "quick" / os.listdir(tmp_path / "quick")[0])
    assert run.environment["cluster_kind"] == "remote"
    assert run.finished_steps == (0, 1)
    for step in run.finished_steps:
        quality = run.quality(step)
        assert quality.plan_as_asked.ok, quality.plan_as_asked.detail
        assert quality.plan_unchanged.ok, quality.plan_unchanged.detail
        assert quality.ledger["balanced"], quality.ledger["reason"]
        latency = pq.read_table(run.step_path(step) / "latency.parquet").to_pandas()
        # one broker stamps input and output; and namespaces share their machine's clock
        inside = latency[latency["in_interval"]]
        assert inside["broker_ms"].notna().all()
        assert inside["ground_truth_ms"].notna().all()
        assert (inside["ground_truth_ms"] <= inside["broker_ms"] + 1.0).all()  # a stamp is in whole ms
    used = {e.worker.node for e in run.plan(1).end.executors}
    assert used == {"node-1", "node-2"}


def test_a_host_that_disappears_in_a_step_ends_the_run_which_can_go_on(
    provisioned: Provisioned, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "harness", *arguments(provisioned, tmp_path)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if " measure" in line:
                provisioned.kill("node-2")
                break
        rest = run.stderr.read()
    assert run.returncode == 1
    error = next(line for line in rest.splitlines() if line.startswith("error: "))
    assert f"host node-2 of cluster {provisioned.cluster.name} is gone" in error
    assert "harness run --resume" in rest
    assert "Traceback" not in rest
    again = provisioned.provision()
    assert again.status == 0, again.err
    folder = next((tmp_path / "quick").iterdir())
    resumed = harness("run", "--resume", str(folder))
    assert resumed.status in (0, 3, 4), resumed.err
    assert Run(folder).finished_steps == (0, 1)
