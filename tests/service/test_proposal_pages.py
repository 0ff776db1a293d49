"""Experiment files of an original and what was proposed for it: each is one by the rules of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.plans import BatchSize
from harness.runs import Run
from harness.service import building
from harness.service.proposal_pages import SchedulerAnswer, TunerAnswer, measuring_files, tuned_file

ARCHIVE = Path(__file__).resolve().parents[2] / "reports" / "runs"
STEP = 1


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(next((ARCHIVE / "noise-floor").iterdir()))


def tuned(batching: dict[str, BatchSize]) -> TunerAnswer:
    return TunerAnswer(
        tuner="DS2 of ours",
        status="ok",
        reason="",
        executors={"spout": 1, "bolt-a": 3, "bolt-b": 2, "sender": 1},
        workers=2,
        batching=batching,
        predicted=None,
        decisions=(),
    )


def counts(experiment: Experiment) -> list[object]:
    return [step.executors for step in experiment.steps.plan]


def test_a_tuners_proposal_is_measured_beside_the_original(run: Run) -> None:
    """What was asked of the cluster had its ackers, too; a file names components only."""
    proposal = tuned({"bolt-a": BatchSize(size=8)})
    both, original, proposed = map(building.checked, measuring_files(run, STEP, None, proposal))
    asked = run.plan(STEP).asked
    now = {name: asked.executors[name] for name in proposal.executors}
    assert counts(original) == [now]
    assert counts(proposed) == [proposal.executors]
    assert counts(both) == [now, proposal.executors]
    assert [step.batching for step in both.steps.plan] == [None, proposal.batching]
    assert len({both.name, original.name}) == 2
    assert proposed.name == "noise-floor-ds2-of-ours"
    assert {step.rate_tps for step in both.steps.plan} == {run.interval(STEP).rate_tps}


def test_another_rate_is_that_of_both(run: Run) -> None:
    files = measuring_files(run, STEP, 42.0, tuned({}))
    assert [s.rate_tps for text in files for s in building.checked(text).steps.plan] == [42.0] * 4


def test_a_schedulers_plan_reads_the_original_of_its_own_run(run: Run) -> None:
    answer = SchedulerAnswer(
        scheduler="even",
        status="ok",
        reason="",
        predicted={},
        limits=(),
        executors_moved=1,
        workers_restarted=1,
    )
    (both,) = map(building.checked, measuring_files(run, STEP, None, answer))
    assert [(step.placed_by, step.source) for step in both.steps.plan] == [("", None), ("even", 0)]


def test_a_graph_is_handed_to_a_tuner() -> None:
    experiment = load("quick")
    found = building.checked(tuned_file(experiment, "ds2"))
    first, second = found.steps.plan
    assert first.executors == experiment.steps.plan[0].executors
    assert (second.tuned_by, second.source, second.rate_tps) == ("ds2", 0, first.rate_tps)
    assert found.name == "quick-ds2"


def test_a_first_step_that_says_no_executors_is_refused() -> None:
    steps = [{"executors": 1}, {"tuner": "ds2", "from": 0}]
    experiment = load("quick").model_copy()
    plan = tuple(type(experiment.steps.plan[0]).model_validate(step) for step in reversed(steps))
    steps_alone = experiment.steps.model_copy(update={"plan": plan})
    with pytest.raises(UsageError, match="says no executors"):
        tuned_file(experiment.model_copy(update={"steps": steps_alone}), "ds2")
