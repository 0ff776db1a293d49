"""``import harness``: archived runs opened in Python, as a notebook does."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import harness
from harness.app import opened_run
from harness.errors import UsageError
from harness.plans import PhysicalPlan
from harness.protocols import Estimate

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "reports" / "runs" / "noise-floor" / "20261121T181833Z"


@pytest.fixture(scope="module")
def run() -> harness.OpenedRun:
    return harness.load_run(RUN)


def test_the_examples_in_the_docstrings_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for module in (harness, opened_run):
        results = doctest.testmod(module)
        assert results.attempted > 0
        assert results.failed == 0


def test_names_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, harness; assert not {'pandas', 'numpy', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match="has no attribute 'load_runs'"):
        harness.load_runs  # noqa: B018


def test_steps_and_tables_are_the_files(run: harness.OpenedRun) -> None:
    assert run.steps.index.tolist() == [0, 1, 2, 3]
    table = pq.read_table(RUN / "steps/02/latency.parquet")
    latency = run.latency(2)
    assert len(latency) == table.num_rows
    judged = latency[latency["in_interval"]]["ground_truth_ms"]
    assert judged.mean() == pytest.approx(run.steps.loc[2, "mean_ms"], rel=1e-9)  # interval.json's
    assert isinstance(run.plan(2), PhysicalPlan)
    assert "noise-floor" in run._repr_html_()


def test_a_prediction_of_the_source_plan_by_no_change_is_what_was_measured(run: harness.OpenedRun) -> None:
    answer = harness.predict(run, "no-change", source=1, proposed=run.plan(1))
    wanted = ("ground_truth_latency_ms", "mean", "")
    (mean,) = [e for e in answer.estimates if (e.measure, e.statistic, e.subject) == wanted]
    assert isinstance(mean, Estimate)
    assert mean.value == pytest.approx(run.steps.loc[1, "mean_ms"], rel=1e-9)


def test_runs_are_searched_by_their_columns() -> None:
    everything = harness.search_runs(ROOT / "reports" / "runs")
    assert len(everything) == len(list((ROOT / "reports" / "runs").glob("*/*/environment.json")))
    assert everything["started"].is_monotonic_decreasing
    valid = harness.search_runs(ROOT / "reports" / "runs", verdict="valid", experiment="noise-floor")
    assert valid["path"].tolist() == [str(RUN)]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda run: harness.load_run(ROOT / "docs"), "docs: not a run directory"),
        (lambda run: run.latency(9), "no finished step 9"),
        (lambda run: run.errors, "errors.parquet: is not there"),
        (lambda run: run.figure("nothing"), "nothing: no such figure"),
        (lambda run: harness.predict(run, "nothing", 0, 1), "unknown model 'nothing'"),
        (lambda run: harness.search_runs(ROOT / "nowhere"), "no such folder"),
        (lambda run: harness.search_runs(ROOT, colour="red"), "colour: no such column"),
    ],
)
def test_a_mistake_is_one_line(run: harness.OpenedRun, ask: object, says: str) -> None:
    assert callable(ask)
    with pytest.raises(UsageError, match=says) as refused:
        ask(run)
    assert "\n" not in str(refused.value)


@pytest.mark.deep
def test_a_figure_is_drawn(run: harness.OpenedRun) -> None:
    figure = run.figure("latency-by-step")
    assert figure.axes
