"""Steps with tuner on the simulator cluster: what is proposed is in force and recorded, or the step declined.

Expected executors are the tuner's own answer to the observation of the step that it reads.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.analysis.judge.predicting import observation
from harness.app.planning import check_placements
from harness.app.simulated.campaign import carry_out
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import files, load
from harness.machine.environment import describe
from harness.runs import Run
from harness.tuning import make_tuner

HEAD = """\
name: tuned
topology: {name: fields-to-fields, load_aware: false, tasks: 4, ackers: 2}
workload: {rate_tps: 100}
cluster: {kind: simulator, nodes: 2, slots_per_node: 2}
measure:
  burn_in: {least_s: 4, most_s: 4, drift_pct: 90}
  interval: {least_s: 10, most_s: 10, looks: 1, precision_pct: 50}
steps:
  plan:
    - {executors: 2, workers: 4}
"""


def experiment_of(folder: Path, *steps: str) -> Experiment:
    path = folder / "tuned.yaml"
    path.write_text(HEAD + "".join(f"    - {step}\n" for step in steps))
    return load(path)


def played(folder: Path, *steps: str) -> tuple[Run, Experiment]:
    experiment = experiment_of(folder, *steps)
    check_placements(experiment)
    run = Run.create(
        folder / "runs", experiment.name, files(experiment), describe("simulator", {"storm": "2.8.3"})
    )
    carry_out(experiment, run, lambda _: None)
    return run, experiment


def test_what_a_tuner_proposes_is_in_force_and_every_decision_is_kept(tmp_path: Path) -> None:
    run, experiment = played(
        tmp_path,
        "{tuner: {name: ds2, utilisation: 0.5}, from: 0, rate_tps: 150}",
        "{tuner: ds2, from: 1, scheduler: traffic-cut}",
    )
    assert run.finished_steps == (0, 1, 2)
    for step, source, tuner, rate_tps in (
        (1, 0, make_tuner("ds2", {"utilisation": 0.5}), 150.0),
        (2, 1, make_tuner("ds2"), 100.0),
    ):
        expected = tuner.propose(observation(run, experiment, source), rate_tps)
        asked = run.plan(step).asked
        assert {name: asked.executors[name] for name in expected.executors} == expected.executors
        assert run.plan(step).start.configuration() == asked
        assert run.interval(step).rate_tps == rate_tps
        kept = json.loads((run.step_path(step) / "tuning.json").read_text())
        assert (kept["step"], kept["rate_tps"]) == (source, rate_tps)
        (proposal,) = kept["proposals"]
        assert proposal["tuner"] == "ds2"
        assert proposal["executors"] == expected.executors
        assert proposal["decisions"] == [d.model_dump(mode="json") for d in expected.decisions]
        assert proposal["predicted"]["model"] == "composite"
    assert not (run.step_path(0) / "tuning.json").exists()
    placement = run.plan(2).placement
    assert placement is not None
    assert (placement.by, placement.source) == ("traffic-cut", 1)
    assert run.interval(1).configuration.startswith("spec-1/ds2@150/")


def test_a_tuner_without_a_usable_answer_declines_its_step_and_no_other(tmp_path: Path) -> None:
    run, _ = played(
        tmp_path,
        "{tuner: {name: 'made_tuners:OwnTuner', mood: bad}, from: 0}",
        "{tuner: {name: 'made_tuners:OwnTuner', mood: declining}, from: 0}",
        "{tuner: {name: 'made_tuners:OwnTuner', mood: greedy}, from: 0}",
        "{tuner: {name: 'made_tuners:OwnTuner', mood: batching}, from: 0}",
        "{tuner: ds2, from: 1}",
        "{tuner: {name: 'made_tuners:OwnTuner'}, from: 0}",
    )
    assert run.finished_steps == (0, 6)
    assert {step: declined.reason for step, declined in run.declined_steps.items()} == {
        1: "tuner made_tuners:OwnTuner has no proposal: the tuner failed with ZeroDivisionError: no luck",
        2: "tuner made_tuners:OwnTuner has no proposal: not today",
        3: "tuner made_tuners:OwnTuner proposed what cannot be had: 5 executors of bolt-a are more than its"
        " 4 tasks",
        4: "tuner made_tuners:OwnTuner proposed what cannot be had: batching: there is no component 'sauce';"
        " there are spout, bolt-a, bolt-b, sender",
        5: "it reads step 1, which has no measurement (it was declined)",
    }


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("{tuner: ds3, from: 0}", "steps.plan.1: unknown tuner 'ds3'"),
        ("{tuner: {name: ds2, utilization: 1}, from: 0}", "tuner 'ds2' has no parameter 'utilization'"),
        ("{tuner: {utilisation: 1}, from: 0}", "steps.plan.1: tuner: it has no name"),
        ("{tuner: ds2}", "tuner: it reads a measured step: add from"),
        ("{tuner: ds2, from: 1}", "from: 1 is the step itself"),
        ("{tuner: ds2, from: 0, executors: 2}", "tuner and executors: give one of them"),
        ("{tuner: ds2, from: 0, workers: 2}", "tuner and workers: give one of them"),
        ("{from: 0}", "the key 'executors' is missing"),
    ],
)
def test_what_cannot_be_tuned_is_said_by_the_check(tmp_path: Path, step: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_placements(experiment_of(tmp_path, step))
    assert says in str(raised.value)


def test_batch_sizes_are_played_as_a_step_has_them(tmp_path: Path) -> None:
    """A flush of 40 ms at 25 messages/s a task: every tuple of the spout waits, none of the other step's."""
    batching = "batching: {spout: {size: 50, flush_ms: 40}}"
    head = HEAD.replace("tasks: 4, ackers: 2", f"tasks: 4, ackers: 2, {batching}")
    (tmp_path / "tuned.yaml").write_text(head + "    - {tuner: {name: 'made_tuners:OwnTuner'}, from: 0}\n")
    experiment = load(tmp_path / "tuned.yaml")
    run = Run.create(tmp_path / "runs", "tuned", files(experiment), describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, run, lambda _: None)
    assert [dict(run.plan(step).batching or {}).keys() for step in (0, 1)] == [{"spout"}, set()]
    assert run.interval(0).mean_ms > 20 + run.interval(1).mean_ms
    assert run.quality(0).ledger_counts["lost"] == 0
