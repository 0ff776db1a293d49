"""The shipped experiments of the thesis's topologies say something: their steps move the answer.

Limits are those that were asked of the experiments; measured values are the archived runs'.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.experiments.loading import load
from harness.runs import Run
from harness.topologies.thesis import THESIS

RUNS = Path(__file__).resolve().parents[1] / "reports" / "runs"
LEAST_GUESS_PCT = {"all-in-one": 30, "windowed": 30}
"""Median error of no-change; 20 elsewhere."""
NAMES = [topology.name for topology in THESIS]


def newest(name: str) -> Run:
    return Run(max((RUNS / name).iterdir()))


def summary(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.path / "summary.json").read_text(encoding="utf-8"))
    return found


def median_pct(run: Run, model: str, measure: str) -> float:
    """Return the median error of the mean over pairs of different steps, all of them judged."""
    wanted = {"model": model, "protocol": "ours", "measure": measure, "statistic": "mean"}
    (row,) = (e for e in summary(run)["errors"] if wanted.items() <= e.items())
    assert row["judged"] == row["pairs"] == 20
    return float(row["median_abs_error_pct"])


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_archived_run_is_of_the_shipped_file_and_valid(name: str) -> None:
    run, shipped = newest(name), load(name)
    measured = load(run.path / "experiment.yaml")
    assert (measured.topology, measured.workload, measured.steps) == (
        shipped.topology,
        shipped.workload,
        shipped.steps,
    )
    assert summary(run)["verdict"] == "valid"
    assert summary(run)["cluster_kind"] == "local"


@pytest.mark.parametrize("name", NAMES)
def test_executors_workers_and_rate_change_and_a_pair_at_one_rate_moves(name: str) -> None:
    run = newest(name)
    steps = [(run.interval(i), run.plan(i).asked) for i in range(len(run.finished_steps))]
    assert len(steps) >= 5
    for changed in (
        lambda i, asked: i.rate_tps,
        lambda i, asked: asked.executors,
        lambda i, asked: asked.workers,
    ):
        assert any(changed(*one) != changed(*other) for one, other in pairwise(steps))
    moved = [
        max(a.mean_ms, b.mean_ms) / min(a.mean_ms, b.mean_ms)
        for (a, _), (b, _) in pairwise(steps)
        if a.rate_tps == b.rate_tps
    ]
    assert max(moved) > 1.15


@pytest.mark.parametrize("name", NAMES)
def test_a_guess_errs_and_the_composite_model_does_not(name: str) -> None:
    run = newest(name)
    least = LEAST_GUESS_PCT.get(name, 20)
    assert median_pct(run, "no-change", "ground_truth_latency_ms") > least
    assert median_pct(run, "no-change", "complete_latency_ms") > least
    assert median_pct(run, "composite", "ground_truth_latency_ms") < 10
