"""Going on with a run: the same experiment, machine and code, or a refusal that names what differs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.analysis.judge.checks import run_checks, unusable
from harness.analysis.spark.inputs import read_raw
from harness.app import measured_with
from harness.app.simulated.campaign import carry_out
from harness.errors import UsageError
from harness.experiments.loading import files, load, shipped_folders
from harness.experiments.provenance import PROVENANCE, Provenance, experiment_digests, of_step
from harness.machine.environment import describe
from harness.runs import Run

SHORT = [
    *("cluster.kind=simulator", "measure.burn_in.least_s=4", "measure.burn_in.most_s=6"),
    *("measure.interval.least_s=10", "measure.interval.most_s=10"),
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run of two steps."""
    experiment = load("quick", SHORT)
    folder = tmp_path_factory.mktemp("runs")
    run = Run.create(folder, "quick", files(experiment), describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, measured_with.kept(run, experiment), lambda _: None)
    return run.path


@pytest.fixture
def stopped(measured: Path, tmp_path: Path) -> Run:
    """A copy that was stopped after the first step."""
    path = tmp_path / "quick" / measured.name
    shutil.copytree(measured, path)
    shutil.rmtree(path / "steps" / "01")
    return Run(path)


def go_on(run: Run) -> Run:
    return measured_with.kept(run, load(run.path / "experiment.yaml"))


def refusal(run: Run) -> str:
    with pytest.raises(UsageError) as refused:
        go_on(run)
    return str(refused.value)


def test_a_run_goes_on_with_what_it_began_with(stopped: Run) -> None:
    experiment = load(stopped.path / "experiment.yaml")
    carry_out(experiment, go_on(stopped), lambda _: None)
    assert stopped.finished_steps == (0, 1)
    first, second = (of_step(stopped.step_path(i)) for i in (0, 1))
    assert first == second is not None
    found = {(c.check, c.step): c for c in run_checks(read_raw(stopped.path), {})}
    assert found["one-experiment", None].status == "valid"
    assert [found["seal", i].detail for i in (0, 1)] == ["", ""]


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("payload_bytes: 64", "payload_bytes: 60000", "workload.payload_bytes"),
        ("worker_heap_mb: 256", "worker_heap_mb: 512", "cluster.worker_heap_mb"),
    ],
)
def test_an_experiment_that_was_changed_is_refused_by_its_key(
    before: str, after: str, key: str, stopped: Run, figure: Callable[[str], None]
) -> None:
    yaml = stopped.path / "experiment.yaml"
    assert before in yaml.read_text()
    yaml.write_text(yaml.read_text().replace(before, after))
    assert f"step 0 was measured with another: experiment: {key}" in refusal(stopped)
    figure(f"experiment: {key}")


def test_models_may_be_asked_that_were_not_before(stopped: Run) -> None:
    yaml = stopped.path / "experiment.yaml"
    assert "- no-change\n" in yaml.read_text()
    yaml.write_text(yaml.read_text().replace("- no-change\n", ""))
    assert go_on(stopped).finished_steps == (0,)


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({"machine": {"cores": "64", "cpu": "another"}}, "another: machine: cores is "),
        ({"code": "0"}, "another: code: the harness's own is another"),
    ],
)
def test_another_machine_or_code_is_refused(
    update: dict[str, object], says: str, stopped: Run, figure: Callable[[str], None]
) -> None:
    kept = of_step(stopped.step_path(0))
    assert kept is not None
    (stopped.step_path(0) / PROVENANCE).write_text(kept.model_copy(update=update).model_dump_json())
    assert says in refusal(stopped)
    figure(says.removeprefix("another: "))


@pytest.mark.parametrize(
    ("overrides", "decides"),
    [
        ([], False),
        (["steps.plan=[{executors: 1}, {executors: 1, scheduler: model-guided, from: 0}]"], True),
        (["steps.plan=[{executors: 1}, {tuner: ds2, from: 0}]"], True),
        (["steps.plan=[{executors: 1, adapt: {tuner: ds2, period_s: 30}}]"], True),
        (["cluster.kind=simulator"], True),
    ],
)
def test_models_are_part_of_the_code_where_they_decide_the_plan_or_play_it(
    overrides: list[str], decides: bool
) -> None:
    found = measured_with.provenance(load("quick", overrides)).code
    assert found == measured_with.code(planned=decides) != measured_with.code(planned=not decides)


def test_the_code_that_decides_plans_is_that_of_models_tuners_and_forecasts() -> None:
    assert {"models", "tuning", "forecasts"} < {*measured_with.PLANNING}
    package = Path(measured_with.__file__).parents[1]
    assert all(any((package / room).rglob("*.py")) for room in measured_with.PLANNING)


def test_a_step_from_before_it_was_kept_is_refused_and_can_be_read(stopped: Run) -> None:
    (stopped.step_path(0) / PROVENANCE).unlink()
    assert "step 0 was measured before it was kept with what" in refusal(stopped)
    assert read_raw(stopped.path).steps[0].provenance is None


def test_an_experiment_that_was_changed_after_all_steps_makes_the_run_invalid(
    measured: Path, tmp_path: Path
) -> None:
    path = tmp_path / "quick" / measured.name
    shutil.copytree(measured, path)
    yaml = path / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("payload_bytes: 64", "payload_bytes: 4096"))
    found = {c.check: c for c in run_checks(read_raw(path), {})}
    assert found["one-experiment"].status == "invalid"
    assert found["one-experiment"].detail.endswith("after the steps were measured: workload.payload_bytes")


def test_a_step_of_another_run_is_found(measured: Path, tmp_path: Path) -> None:
    path = tmp_path / "quick" / measured.name
    shutil.copytree(measured, path)
    kept = path / "steps" / "01" / PROVENANCE
    other = Provenance.model_validate_json(kept.read_bytes()).model_copy(update={"code": "0"})
    kept.write_text(other.model_dump_json())
    record = read_raw(path)
    results = run_checks(record, {})
    found = {c.check: c for c in results}
    why = f"one-experiment: {found['one-experiment'].detail}"
    assert unusable(results, record.steps) == {0: ("invalid", why), 1: ("invalid", why)}
    assert found["one-experiment"].detail.startswith("step 1 was measured with another than step 0: code")


@pytest.mark.parametrize("path", sorted(p for f in shipped_folders() for p in f.glob("*.yaml")), ids=str)
def test_what_a_run_keeps_of_an_experiment_is_read_back_as_the_same(path: Path, tmp_path: Path) -> None:
    kept = files(load(path))
    for name, text in kept.items():
        (tmp_path / name).write_text(text)
    assert experiment_digests(files(load(tmp_path / "experiment.yaml"))) == experiment_digests(kept)
