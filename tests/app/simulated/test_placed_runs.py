"""Steps with scheduler, from and placement on the simulator cluster: in force, recorded, or declined."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.judge import checks
from harness.analysis.judge.predicting import observation
from harness.analysis.judge.samples import Samples
from harness.analysis.spark.inputs import read_raw
from harness.app.planning import check_placements
from harness.app.simulated.campaign import carry_out
from harness.commands.running import verdict_lines
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import files, load
from harness.experiments.placement_file import placement_text
from harness.machine.environment import describe
from harness.runs import Run
from harness.schedulers import make_scheduler

HEAD = """\
name: placed
topology: {name: fields-to-fields, load_aware: false, tasks: 4, ackers: 2}
workload: {rate_tps: 100}
cluster: {kind: simulator, nodes: 2, slots_per_node: 2}
measure:
  burn_in: {least_s: 4, most_s: 4, drift_pct: 90}
  interval: {least_s: 10, most_s: 10, looks: 1, precision_pct: 50}
steps:
"""
BY_HAND = {
    "bolt-a[3-4]": "node-1:6700",
    "bolt-a[5-6]": "node-2:6800",
    "bolt-b[7-10]": "node-1:6700",
    "sender[11-14]": "node-2:6801",
    "spout[15-18]": "node-2:6800",
}
"""Four tasks a component in the order of the names, after two ackers."""


def experiment_of(folder: Path, plan: str, more: str = "") -> Experiment:
    (folder / "by-hand.yaml").write_text(placement_text(BY_HAND))
    path = folder / "placed.yaml"
    path.write_text(f"{HEAD}{more}  plan:\n{plan}")
    return load(path)


def played(folder: Path, plan: str, more: str = "") -> tuple[Run, Experiment]:
    experiment = experiment_of(folder, plan, more)
    check_placements(experiment)
    run = Run.create(
        folder / "runs", experiment.name, files(experiment), describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(experiment, run, lambda _: None)
    return run, experiment


@pytest.fixture(scope="module")
def run_of_four(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Experiment]:
    return played(
        tmp_path_factory.mktemp("four"),
        "    - {executors: 2, workers: 4}\n"
        "    - {executors: 2, workers: 4, scheduler: {name: aniello-offline, alpha: 0.5}}\n"
        "    - {executors: 2, workers: 4, scheduler: traffic-cut, from: 0}\n"
        "    - {placement: by-hand.yaml}\n",
    )


def test_each_plan_in_force_is_the_asked_one(run_of_four: tuple[Run, Experiment]) -> None:
    run, experiment = run_of_four
    assert run.finished_steps == (0, 1, 2, 3)
    assert run.plan(0).placement is None
    source = observation(run, experiment, 0)
    nodes, query_plan = run.plan(0).start.nodes, experiment.topology.query_plan()
    questions = ((1, make_scheduler({"name": "aniello-offline", "alpha": 0.5}), None),)
    for step, scheduler, seen in (*questions, (2, make_scheduler("traffic-cut"), source)):
        proposal = scheduler.propose(query_plan, run.plan(0).asked, nodes, seen)
        assert run.plan(step).start.executors == proposal.plan.executors
    for step, by, read in ((1, "aniello-offline", None), (2, "traffic-cut", 0), (3, "placement", None)):
        asked = run.plan(step).placement
        assert asked is not None
        assert (asked.by, asked.source) == (by, read)
        assert asked.differences(run.plan(step).start) == ()
        assert run.plan(step).asked == run.plan(step).start.configuration()


def test_a_placement_by_hand_is_completed_by_the_ackers(run_of_four: tuple[Run, Experiment]) -> None:
    """Two ackers on the first two of the three workers in use."""
    run, _ = run_of_four
    asked = run.plan(3).placement
    assert asked is not None
    assert asked.workers == {**BY_HAND, "__acker[1-1]": "node-1:6700", "__acker[2-2]": "node-2:6800"}
    assert run.plan(3).asked.workers == 3


def test_all_of_it_is_judged_as_asked(run_of_four: tuple[Run, Experiment]) -> None:
    record = read_raw(run_of_four[0].path)
    as_asked = {c.step: c.status for c in checks.run_checks(record, {}) if c.check == "plan-as-asked"}
    assert as_asked == dict.fromkeys(range(4), "valid")
    plan = record.steps[2].plan  # the same numbers as step 1's
    elsewhere = replace(record.steps[2], plan=plan.model_copy(update={"start": record.steps[1].plan.start}))
    status, detail = checks.STEP_CHECKS["plan-as-asked"](elsewhere, Samples())
    assert status == "invalid"
    assert re.search(r"\[\d+-\d+\]: node-\d:\d+ asked, node-\d:\d+ applied", detail)


def test_a_scheduler_that_fails_declines_its_step_and_no_other(tmp_path: Path) -> None:
    run, _ = played(
        tmp_path,
        "    - {executors: 2, workers: 4}\n"
        "    - {executors: 2, workers: 4, scheduler: 'faulty_schedulers:Raising', from: 0}\n"
        "    - {executors: 2, workers: 4, scheduler: 'faulty_schedulers:Listing', from: 0}\n"
        "    - {executors: 2, workers: 4, scheduler: 'faulty_schedulers:Astray', from: 0}\n"
        "    - {executors: 2, workers: 4, scheduler: even, from: 2}\n"
        "    - {executors: 2, workers: 4, scheduler: even, from: 0}\n",
    )
    assert run.finished_steps == (0, 5)
    reasons = {step: declined.reason for step, declined in run.declined_steps.items()}
    assert reasons == {
        1: "scheduler faulty_schedulers:Raising failed with ZeroDivisionError: no executors at all",
        2: "scheduler faulty_schedulers:Listing has no plan: it answered nonsense: returned a list, not a"
        " Proposal with a plan",
        3: "scheduler faulty_schedulers:Astray has no plan: it answered nonsense: worker node-9:1 is in no"
        " slot that exists and is free",
        4: "it reads step 2, which has no measurement (it was declined)",
    }
    results = checks.run_checks(read_raw(run.path), {})
    (whole,) = (c for c in results if c.check == "all-steps")
    assert (whole.status, whole.detail) == ("valid", "2 of 6 steps finished, 4 declined (1, 2, 3, 4)")
    listed = [{"check": c.check, "step": c.step, "status": c.status, "detail": c.detail} for c in results]
    lines = verdict_lines({"verdict": "valid", "checks": listed})
    assert f"  step 4 was declined: {reasons[4]}" in lines


def test_the_newest_repeat_is_read_and_one_that_is_not_valid_declines(tmp_path: Path) -> None:
    plan = "    - {executors: 2, workers: 4}\n    - {executors: 2, workers: 4, scheduler: even, from: 0}\n"
    run, experiment = played(tmp_path, plan, "  repeats: 2\n  order: shuffled\n")
    read = [run.plan(n).placement for n in (1, 3)]
    assert [placement.source for placement in read if placement is not None] == [0, 2]
    for file in run.step_path(3).iterdir():
        file.unlink()
    run.step_path(3).rmdir()
    quality = run.step_path(2) / "quality.json"
    unsteady = run.quality(2).model_copy(
        update={"steady": run.quality(2).steady.model_copy(update={"ok": False, "detail": "drift of 40 %"})}
    )
    quality.write_text(unsteady.model_dump_json())
    carry_out(experiment, run, lambda _: None)
    assert run.finished_steps == (0, 1, 2)
    assert run.declined_steps[3].reason == "it reads step 2, which is not valid: steady: drift of 40 %"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("{executors: 1, scheduler: evn}", "steps.plan.1: unknown scheduler 'evn': use one of even"),
        ("{executors: 1, scheduler: {name: random, sead: 3}}", "steps.plan.1: scheduler 'random' has no"),
        ("{executors: 1, scheduler: {seed: 3}}", "steps.plan.1: a scheduler has no name"),
        ("{executors: 1, scheduler: {name: random, seed: x}}", "steps.plan.1: scheduler 'random': seed"),
        ("{executors: 1, scheduler: traffic-cut}", "traffic-cut needs the measurements of a running step"),
        ("{executors: 1, scheduler: albic}", "add from: the position of an earlier step"),
    ],
)
def test_what_cannot_be_planned_is_said_by_the_check(tmp_path: Path, step: str, says: str) -> None:
    experiment = experiment_of(tmp_path, f"    - {{executors: 1}}\n    - {step}\n")
    with pytest.raises(UsageError) as raised:
        check_placements(experiment)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        (
            {**BY_HAND, "bolt-b[7-9]": "node-1:6700"},
            "no executor bolt-b[7-10]; bolt-b has bolt-b[7-8]",
        ),
        (
            {**BY_HAND, "__acker[1-2]": "node-1:6700"},
            "no executor __acker[1-2]; __acker has __acker[1",
        ),
        (
            {**BY_HAND, "spout[15-18]": "node-2:6700"},
            "spout[15-18]: there is no worker node-2:6700",
        ),
    ],
)
def test_a_placement_of_unknown_executors_or_workers_is_said_by_the_check(
    tmp_path: Path, placement: dict[str, str], says: str
) -> None:
    plan = "    - {executors: 1}\n    - {placement: by-hand.yaml}\n"
    (tmp_path / "placed.yaml").write_text(f"{HEAD}  plan:\n{plan}")
    (tmp_path / "by-hand.yaml").write_text(placement_text(placement))
    with pytest.raises(UsageError) as raised:
        check_placements(load(tmp_path / "placed.yaml"))
    assert str(raised.value).startswith("steps.plan.1.placement: ")
    assert says in str(raised.value)
