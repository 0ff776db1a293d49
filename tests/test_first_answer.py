"""The shipped experiments of the thesis's topologies say something: their steps move the answer.

Limits are those that were asked of the experiments; measured values are the archived runs'.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.experiments.loading import load
from harness.runs import Interval, Run
from harness.topologies.thesis import THESIS

RUNS = Path(__file__).resolve().parents[1] / "reports" / "runs"
LEAST_GUESS_PCT = {"all-in-one": 30, "windowed": 30}
"""Median error of no-change; 20 elsewhere."""
NAMES = [topology.name for topology in THESIS]
JUDGED_IN = {
    **dict.fromkeys(("composite", "storm-tracer", "jackson", "no-change"), "ground_truth_latency_ms"),
    "caladrius": "throughput_tps",
}
"""Models by what they answer: caladrius knows no latency."""


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


@pytest.mark.parametrize("name", [*NAMES, "two-inputs"])
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
    assert len(run.finished_steps) >= 5
    assert [run.quality(i).saturated for i in run.finished_steps if run.quality(i).saturated] == []
    intervals = [run.interval(i) for i in run.finished_steps]
    asked = [run.plan(i).asked for i in run.finished_steps]
    assert len({i.rate_tps for i in intervals}) > 1
    assert len({a.workers for a in asked}) > 1
    assert any(one.executors != other.executors for one, other in pairwise(asked))
    means_ms = [sorted((one.mean_ms, other.mean_ms)) for one, other in same_rate(intervals)]
    assert max(high / low for low, high in means_ms) > 1.15


def same_rate(intervals: list[Interval]) -> Iterator[tuple[Interval, Interval]]:
    return ((one, other) for one, other in combinations(intervals, 2) if one.rate_tps == other.rate_tps)


@pytest.mark.parametrize("name", NAMES)
def test_a_guess_errs_and_the_composite_model_does_not(name: str) -> None:
    run = newest(name)
    least = LEAST_GUESS_PCT.get(name, 20)
    assert median_pct(run, "no-change", "ground_truth_latency_ms") > least
    assert median_pct(run, "no-change", "complete_latency_ms") > least
    assert median_pct(run, "composite", "ground_truth_latency_ms") < 10


def test_a_graph_of_eight_components_was_measured_and_every_model_answered() -> None:
    """Two spouts, a join and two sinks; each model answers all pairs in its own measure."""
    run, shipped = newest("two-inputs"), load("two-inputs")
    components = load(run.path / "experiment.yaml").topology.query_plan().components
    roles = Counter(component.role for component in components)
    assert len(components) == 8
    assert (roles["spout"], roles["join"], roles["sender"]) == (2, 1, 2)
    assert set(shipped.models) == JUDGED_IN.keys()
    rows = [e for e in summary(run)["errors"] if (e["protocol"], e["statistic"]) == ("ours", "mean")]
    judged = {(e["model"], e["measure"]): (e["judged"], e["pairs"]) for e in rows}
    assert {model: judged[model, measure] for model, measure in JUDGED_IN.items()} == dict.fromkeys(
        JUDGED_IN, (12, 12)
    )
