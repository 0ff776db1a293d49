"""Archived runs are judged as the runs that they were made of: same checks, same errors, to the last bit."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from altered_runs import REPORTS, copy
from click.testing import CliRunner
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.analyse import analyse
from harness.analysis.judge.raw_steps import UNREAD, are_read
from harness.analysis.judge.rescoring import rescore
from harness.app.archiving import ARCHIVED, archive
from harness.cli import main
from harness.errors import UsageError
from harness.machine import seals
from harness.models import MODELS as ALL_MODELS
from harness.regression import baseline
from harness.runs import Run, read_latency, read_table
from harness.schemas import LATENCY, METRICS, Metric
from harness.schemas.derivable import NEEDED, left_out

ROOT = REPORTS.parent
MODELS = ("no-change", "linear")
RUNS = sorted(p.parent for p in (REPORTS / "runs").glob("*/*/environment.json"))
UNSEALED = [p for p in RUNS if not list(p.glob(f"steps/*/{seals.SEAL}"))]
"""Of a sealed run a copy with other files is an edited one, and is judged as that."""
LEAST = [p for p in RUNS if p.parent.name in ("noise-floor", "loaded-window-10", "loaded-window-sliding")]
"""A chain, windows of a count and sliding ones: the smallest runs of each kind."""


def texts(table: pq.Table, name: str) -> list[str]:
    found: list[str] = table[name].cast("string").to_pylist()
    return found


@pytest.fixture(scope="module", params=["fields-to-fields", "windowed", "join-split"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two short steps, burn-in included, with a seal in each step."""
    steps = [FakeStep(1, seconds=10, burn_in_s=6), FakeStep(2, seconds=10, burn_in_s=6)]
    path = tmp_path_factory.mktemp("archiving") / "e" / "20260102T030405Z"
    run = Run(build(path, FakeRun(topology=request.param, steps=steps)))
    for step in run.finished_steps:
        add_an_unread_field(run.step_path(step) / "metrics.parquet")
        seals.seal(run.step_path(step))
    return run


def add_an_unread_field(path: Path) -> None:
    """Add squares of CPU times beside the counts of executes, as a real cluster reports them."""
    table = pq.read_table(path)
    counts = [
        pc.equal(table[c].cast("string"), v) for c, v in (("measurement", "service"), ("field", "count"))
    ]
    frame = table.filter(pc.and_(*counts)).to_pandas().assign(field="cpu_sumsq_ns2", value=1e12)
    more = pa.Table.from_pandas(frame, schema=METRICS, preserve_index=False)
    pq.write_table(pa.concat_tables([table.cast(METRICS), more]).unify_dictionaries(), path)


@pytest.fixture(scope="module")
def small(whole: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(archive(whole, tmp_path_factory.mktemp("archive")))


def test_an_archived_run_is_scored_as_before(whole: Run, small: Run) -> None:
    before, after = rescore([whole.path, small.path], MODELS)
    assert after == before
    assert all(step.rows for step in after.steps)


@pytest.mark.deep
@pytest.mark.parametrize("whole", ["join-split"], indirect=True)  # windows and two sinks
def test_spark_judges_an_archived_run_as_before(whole: Run, small: Run, tmp_path: Path) -> None:
    judged = []
    for run in (whole, small):
        there = Path(shutil.copytree(run.path, tmp_path / str(len(judged)) / "e" / run.path.name))
        shutil.copy(whole.path / "predictions.parquet", there)
        analyse(there)
        verdict = json.loads((there / "verdict.json").read_text())
        judged.append((pq.read_table(there / "errors.parquet"), verdict))
    (errors, verdict), (errors_after, verdict_after) = judged
    assert errors.num_rows > 0
    assert errors_after.equals(errors)
    assert verdict_after == verdict


def test_only_what_follows_from_the_rest_is_left_out_and_it_comes_back(whole: Run, small: Run) -> None:
    for step in whole.finished_steps:
        file = small.step_path(step) / "latency.parquet"
        dropped = left_out(pq.read_schema(file))
        assert {"ground_truth_ms", "left_ns"} <= set(dropped) <= set(NEEDED)
        assert set(pq.read_schema(file).names) == set(LATENCY.names) - set(dropped)
        before = read_table(whole.step_path(step) / "latency.parquet")
        before = before.filter(before["in_interval"])
        after = read_latency(small.step_path(step))
        assert after.column_names == before.column_names
        for name in before.column_names:
            if name in ("path", "sink"):
                assert texts(after, name) == texts(before, name)
            else:
                assert after[name].combine_chunks().equals(before[name].combine_chunks()), name
        for some in (["message_id", "scheduled_ms"], ["ground_truth_ms"], ["sent_ns", "path"], ["child"]):
            assert read_latency(small.step_path(step), some).equals(after.select(some))


def test_what_was_left_out_is_recorded_by_file_and_count(whole: Run, small: Run) -> None:
    said = json.loads((small.path / ARCHIVED).read_text())["left_out"]
    for step in whole.finished_steps:
        for name in ("latency.parquet", "metrics.parquet"):
            key = f"steps/{step:02d}/{name}"
            before, after = (pq.read_metadata(run.path / key).num_rows for run in (whole, small))
            assert said[key]["rows"] == before - after > 0
            assert said[key]["sha256"] == seals.sha256(whole.path / key)
        assert seals.broken(small.step_path(step)) == ()
        sealed = json.loads((small.step_path(step) / seals.SEAL).read_text())
        assert sealed["left_out"]["metrics.parquet"] == said[f"steps/{step:02d}/metrics.parquet"]["sha256"]
    assert said["predictions.parquet"] == {"files": 1}


def test_of_the_burn_in_there_is_only_what_is_drawn_or_tells_an_edge(whole: Run, small: Run) -> None:
    """Four buckets a series before the interval and after it; received and emitted tuples all along."""
    for step in small.finished_steps:
        start_ms = small.interval(step).start_epoch_ms
        before, after = (read_table(run.step_path(step) / "metrics.parquet") for run in (whole, small))
        early = after.filter(pc.less_equal(after["bucket_end_ms"], start_ms))
        services = early.filter(pc.equal(early["measurement"].cast("string"), "service"))
        for task in set(services["task"].to_pylist()):
            ends = services.filter(pc.equal(services["task"], task))["bucket_end_ms"].to_numpy()
            assert len(np.unique(ends)) <= 4
        assert texts(before, "measurement").count("received") == texts(after, "measurement").count("received")


def test_no_model_and_no_check_names_a_field_that_is_left_out() -> None:
    """Fields are named by ``MetricField`` alone; times between arrivals tile, and are not summed up."""
    named = {f"MetricField.{f.name}" for fields in UNREAD.values() for f in fields} - {"MetricField.SUM_NS"}
    named.add(f"Metric.{Metric.INTERARRIVAL.name}")
    rooms = ("analysis", "models", "schedulers", "tuning", "forecasts", "regression", "experiments")
    found: dict[str, set[str]] = {}
    for path in (p for room in rooms for p in (ROOT / "harness" / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if mine := {name for name in named if re.search(rf"\b{re.escape(name)}\b", text)}:
            found[path.name] = mine
    assert found.pop("raw_steps.py") == named
    assert found == {"bucket_tiling.py": {"Metric.INTERARRIVAL"}}


def test_fields_that_are_not_read_are_left_out(whole: Run, small: Run) -> None:
    before, after = (read_table(run.step_path(0) / "metrics.parquet") for run in (whole, small))
    assert not pc.all(are_read(before)).as_py()
    assert pc.all(are_read(after)).as_py()


def test_a_copy_names_no_folder_of_the_machine_that_measured(whole: Run, tmp_path: Path) -> None:
    there = Path(shutil.copytree(whole.path, tmp_path / "e" / whole.path.name))
    environment = json.loads((there / "environment.json").read_text())
    said = environment | {"arguments": ["run", "--runs", "/srv/runs"]}
    (there / "environment.json").write_text(json.dumps(said, indent=2))
    copied = archive(Run(there), tmp_path / "archive")
    kept = json.loads((copied / "environment.json").read_text())
    assert kept == said | {"arguments": ["run", "--runs", "runs"]}


def test_a_step_that_was_changed_is_not_archived(whole: Run, tmp_path: Path) -> None:
    there = Path(shutil.copytree(whole.path, tmp_path / "e" / whole.path.name))
    (there / "steps" / "01" / "plan.json").write_text(
        (there / "steps" / "01" / "plan.json").read_text() + " "
    )
    with pytest.raises(UsageError, match=r"plan\.json was changed"):
        archive(Run(there), tmp_path / "archive")
    assert not any((tmp_path / "archive").rglob("*.parquet"))


def test_the_command_says_how_large_the_copy_is_and_refuses_a_second_one(
    whole: Run, small: Run, tmp_path: Path
) -> None:
    done = CliRunner().invoke(main, ["archive", str(whole.path), "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout.splitlines()[-1])
    assert made["run"] == str(tmp_path / "e" / whole.path.name)
    assert made["size_bytes"] == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    again = CliRunner().invoke(main, ["archive", str(whole.path), "--out", str(tmp_path)])
    assert (again.exit_code, again.output.count("\n")) == (2, 1)
    assert "is there already" in again.output
    twice = CliRunner().invoke(main, ["archive", str(small.path), "--out", str(tmp_path / "other")])
    assert (twice.exit_code, twice.output.count("\n")) == (2, 1)
    assert "was archived before" in twice.output


def same_scores(path: Path, models: Sequence[str], tmp_path: Path) -> None:
    """A run and a copy of it with every column written out are scored alike."""
    written_out = copy(path, tmp_path)
    assert left_out(pq.read_schema(written_out / "steps/00/latency.parquet")) == ()
    before, after = rescore([written_out, path], models)
    assert after == before


@pytest.mark.parametrize("path", LEAST, ids=lambda p: p.parent.name)
def test_an_archived_run_is_scored_as_with_every_column_written_out(path: Path, tmp_path: Path) -> None:
    same_scores(path, MODELS, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("path", UNSEALED, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_each_archived_run_is_scored_as_with_every_column_written_out(path: Path, tmp_path: Path) -> None:
    """By every model where the run is one of the smallest: all of them read the same observation."""
    same_scores(path, tuple(ALL_MODELS) if path in LEAST else MODELS, tmp_path)


def test_the_archives_contents_are_those_that_the_baseline_was_made_of() -> None:
    """Rows of each valid run's interval, counted before the archive was cut: the baseline has them."""
    nights = {n.run: n for n in baseline.read(REPORTS / "baseline.json")}
    compared = 0
    for path in RUNS:
        if (night := nights.get(path.name)) is None:
            continue
        for step, score in zip(Run(path).finished_steps, night.steps, strict=True):
            assert pq.read_metadata(path / f"steps/{step:02d}/latency.parquet").num_rows == score.rows
            compared += 1
    assert compared > 50


@pytest.mark.deep
def test_a_run_of_the_archive_is_judged_again_to_the_same(tmp_path: Path) -> None:
    (path,) = (p for p in RUNS if p.parent.name == "noise-floor")
    there = Path(shutil.copytree(path, tmp_path / path.parent.name / path.name))
    before = {p: p.read_bytes() for p in there.rglob("*") if p.is_file() and p.name != "summary.json"}
    done = CliRunner().invoke(main, ["rescore", str(there), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["verdicts"] == {str(there): "valid"}
    after = {p: p.read_bytes() for p in there.rglob("*") if p.is_file() and p.name != "summary.json"}
    verdict = there / "verdict.json"
    assert json.loads(before.pop(verdict))["verdict"] == json.loads(after.pop(verdict))["verdict"]
    assert after == before
