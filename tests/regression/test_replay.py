"""Archived runs scored again: a fault in a model or shifted data is caught, harmless changes are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import altered_runs
import faulty_models
import pytest
from altered_runs import ALL_IN_ONE, REPORTS
from click.testing import CliRunner

from harness.analysis.judge.resampling import resample
from harness.analysis.judge.rescoring import rescore
from harness.analysis.judge.scores import RunScores
from harness.cli import main
from harness.models import MODELS
from harness.protocols import Model
from harness.regression import baseline
from harness.regression.bundle import bundle, extract
from harness.regression.outputs import lines
from harness.regression.regress import regress

pytestmark = pytest.mark.deep

STALE = "where a model was changed on purpose: harness regress reports/runs/*/* --update"
ANOTHER_NIGHT = "20270101T000000Z"
FAULTS = {
    "right": "",
    "windows_too_long": "ground_truth_latency_ms mean",
    "service_doubled": "service_time_ms mean",
    "queues_too_long": "ground_truth_latency_ms mean",
    "no_answer": "ground_truth_latency_ms mean",
}
"""Models of ``faulty_models``, and in which errors each fault has to show."""


def test_the_archive_is_as_good_as_the_baseline_says(archive: dict[Path, RunScores]) -> None:
    nights = baseline.read(REPORTS / "baseline.json")
    known = [r for r in archive.values() if r.run in {n.run for n in nights}]
    assert {r.run for r in archive.values() if r.verdict == "valid"} <= {r.run for r in known}, STALE
    found = regress(nights, known)
    assert found.status == 0, "\n".join([STALE, *lines(found)])
    assert found.tested > 20 * len(known) > 0


def of_model(scored: RunScores, model: str, renamed: str = "") -> RunScores:
    """A run's scores with one model's errors only, perhaps under another name."""
    mine = [a for a in scored.accuracy if a.model == model]
    name = renamed or model
    accuracy = tuple(a.model_copy(update={"model": name}) for a in mine)
    return scored.model_copy(update={"accuracy": accuracy, "models": (name,)})


@pytest.fixture(scope="module")
def faulty(scored: RunScores) -> RunScores:
    """The same run, scored with every faulty model: one pass over the data for all of them."""
    return rescore([ALL_IN_ONE], [f"faulty_models:{name}" for name in FAULTS])[0]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_one_stage_is_caught_and_its_pairs_are_named(
    name: str, scored: RunScores, faulty: RunScores
) -> None:
    before = of_model(scored, "storm-tracer")
    found = regress([before], [of_model(faulty, f"faulty_models:{name}", "storm-tracer")])
    caught = {o.name: o for o in found.worse}
    if name == "right":
        assert found.status == 0, lines(found)
        return
    assert found.status == 1
    assert f"storm-tracer {FAULTS[name]}" in caught, lines(found)
    assert "->" in caught[f"storm-tracer {FAULTS[name]}"].detail
    assert {o.family for o in found.worse} == {"accuracy"}  # what was measured is as it was
    if name == "no_answer":
        assert any("no longer answers for 20 pairs" in o.detail for o in found.worse), lines(found)


@pytest.mark.parametrize(
    ("model", "kept", "status", "says"),
    [
        (MODELS["storm-tracer"], REPORTS / "baseline.json", 0, "no regression"),
        (faulty_models.service_doubled, REPORTS / "baseline.json", 1, "storm-tracer service_time_ms mean"),
        (MODELS["storm-tracer"], None, 4, "not enough data"),
    ],
    ids=["unchanged", "injected fault", "a baseline of one night as it was"],
)
def test_the_command_ends_with_its_verdict(
    model: Model,
    kept: Path | None,
    status: int,
    says: str,
    scored: RunScores,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODELS, "storm-tracer", model)
    if kept is None:
        kept = tmp_path / "baseline.json"
        baseline.write(kept, [scored.model_copy(update={"run": "20260101T000000Z"})])  # none was resampled
    asked = ["regress", str(ALL_IN_ONE), "--baseline", str(kept), "--model", "storm-tracer"]
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    shown = CliRunner().invoke(main, [*asked, "--junit", str(junit), "--markdown", str(markdown)])
    assert shown.exit_code == status, shown.output
    assert says in " ".join(shown.output.split())
    suites = list(ElementTree.parse(junit).getroot().iter("testsuite"))
    failures = sum(int(s.attrib["failures"]) for s in suites)
    assert (failures > 0) == (status == 1)
    assert says in markdown.read_text().replace("\\", "").lower()


def test_a_sealed_run_is_scored_elsewhere_as_it_was(scored: RunScores, tmp_path: Path) -> None:
    sealed, _ = bundle(ALL_IN_ONE, tmp_path / "run.zip")
    elsewhere = rescore([extract(sealed, tmp_path / "elsewhere")], ["storm-tracer"])
    found = regress([of_model(scored, "storm-tracer")], elsewhere)
    assert found.status == 0, lines(found)
    assert found.outcomes
    assert all(o.p is None for o in found.outcomes), "seen to be the same data"


def test_latencies_moved_in_one_step_are_caught_and_named(night_before: RunScores, tmp_path: Path) -> None:
    """In an archived run by its contents, and in a new night, which has none to compare, by what it says."""
    run = altered_runs.copy(ALL_IN_ONE, tmp_path)
    altered_runs.slower(run, step=3, factor=1.3)
    moved = rescore([run])[0]
    (edited,) = moved.edited
    assert edited.startswith("step 3: agreement: ")
    assert "the mean is " in edited

    archived = regress([night_before], [moved])
    data = [o for o in archived.worse if o.family == "data"]
    assert [o.name for o in data] == [f"step 3 ({night_before.labels[3]}) latency.parquet"]
    assert data[0].before is not None
    assert data[0].now == pytest.approx(1.3 * data[0].before, rel=1e-6)

    night = regress([night_before], [moved.model_copy(update={"run": ANOTHER_NIGHT})])
    measured = [o for o in night.worse if o.family == "measured"]
    assert any(o.name == "ground_truth_latency_ms mean" for o in measured), lines(night)
    assert {o.said for o in measured} == {"moved"}
    assert data[0].said == "worse"
    assert replace(measured[0], p=None).said == "worse"  # of a replay, which cannot have moved
    for o in measured:
        assert o.detail.startswith(f"step {night_before.labels[3]} "), lines(night)
        assert "," not in o.detail, lines(night)


def test_relabelled_executors_and_reordered_rows_change_nothing(scored: RunScores, tmp_path: Path) -> None:
    run = altered_runs.copy(ALL_IN_ONE, tmp_path)
    altered_runs.shuffled(run, seed=1)
    altered_runs.relabelled(run, by=100)
    found = regress([scored], rescore([run]))
    assert found.status == 0, lines(found)
    assert all(o.p is None for o in found.outcomes)  # seen to be the same data


def test_a_bootstrap_resample_of_the_same_data_is_no_regression(
    night_before: RunScores, tmp_path: Path
) -> None:
    run = resample(ALL_IN_ONE, tmp_path / "all-in-one" / ANOTHER_NIGHT, seed=1000)
    found = regress([night_before], rescore([run]))
    assert found.status == 0, lines(found)
    assert sum(o.p is not None for o in found.outcomes) > 50  # judged as another night
    again = next(o for o in found.outcomes if o.name == "ground_truth_latency_ms mean")
    assert again.before != again.now
