"""The run directory: whole or not at all, and refused when it is not ours to read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_records import S, interval, ledger, quality, step_plan

from harness.errors import HarnessError, UsageError
from harness.machine.seals import broken
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.plans import Component, PhysicalPlan, QueryPlan, TopologyConfiguration
from harness.runs import Interval, Rejected, Run, StepFiles, directory, read_table
from harness.schemas import ADAPTATION, LATENCY, METRICS, SCHEMA_VERSION


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "00"
    with pytest.raises(RuntimeError), folder_atomically(target) as folder:  # noqa: PT012
        (folder / "a").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with folder_atomically(target) as folder:
        (folder / "a").write_text("whole")
        assert not target.exists()
    assert (target / "a").read_text() == "whole"


def test_runs_of_one_name_that_begin_in_one_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    monkeypatch.setattr(directory, "utc_now", lambda: now)
    names = [Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {}).path.name for _ in range(3)]
    assert names == ["20261231T235959Z", "20270101T000000Z", "20270101T000001Z"]


def test_a_half_written_step_is_not_a_finished_one(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {})
    run.step_path(0).mkdir()
    (run.path / "steps" / ".01.partial").mkdir()
    assert run.finished_steps == (0,)


def step() -> StepFiles:
    """A step that was asked for at 100 s, up at 107 s and measured from 127 to 167 s."""
    plan = PhysicalPlan(
        query_plan=QueryPlan(name="t", components=(Component(name="a", role="spout", tasks=1),), streams=()),
        nodes=(),
        executors=(),
    )
    asked = TopologyConfiguration(executors={"a": 1}, workers=1)
    return StepFiles(
        step_plan(plan, asked=asked),
        quality(ledger=ledger()),
        lambda done_ns: interval(done_ns=done_ns),
        LATENCY.empty_table(),
        METRICS.empty_table(),
    )


def test_a_step_that_was_written_is_read_back(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {})
    files = step()
    written = run.write_step(0, files, lambda: 200 * S)
    assert written == interval(done_ns=200 * S)
    assert (run.plan(0), run.interval(0), run.quality(0)) == (files.plan, written, files.quality)


def test_an_attempt_without_a_mean_is_read_back() -> None:
    """Where nothing came out there is no mean, and the half-width has no bound."""
    why = "burn-in: nothing came out"
    rejected = Rejected(reason=why, mean_ms=math.nan, half_width_ms=math.inf, machine_busy_pct=None)
    written = interval(attempt=2, rejected=(rejected,))
    (read,) = Interval.model_validate_json(written.model_dump_json()).rejected
    assert read.mean_ms is not None
    assert math.isnan(read.mean_ms)
    assert read.half_width_ms == math.inf


def test_a_step_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A file stands where the step's temporary folder would be."""
    run = Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {})
    (run.path / "steps").rmdir()
    (run.path / "steps").write_text("")
    with pytest.raises(HarnessError, match=f"step 0 cannot be written to {run.path}/steps: ") as e:
        run.write_step(0, step())
    assert e.value.exit_status == 1


def test_a_file_is_replaced_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        Run(tmp_path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text(json.dumps({"schema": SCHEMA_VERSION + 1}))
    with pytest.raises(UsageError, match="newer than this harness reads"):
        Run(tmp_path)


def test_a_run_is_measured_by_one_at_a_time(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {})
    other = Run(run.path)
    with run.exclusively(), pytest.raises(UsageError, match="another harness"), other.exclusively():
        pass
    with Run(run.path).exclusively():
        pass


def test_a_broken_verdict_is_named(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "e", {"experiment.yaml": "name: e\n"}, {})
    assert run.verdict == "not reported"
    (run.path / "verdict.json").write_text("[]")
    with pytest.raises(UsageError, match=r"verdict\.json: holds no verdict"):
        assert run.verdict


@pytest.mark.parametrize("name", ["plan", "interval", "quality"])
def test_a_damaged_file_of_a_step_is_named(tmp_path: Path, name: str) -> None:
    run = Run.create(tmp_path, "made", {"experiment.yaml": ""}, {"started": "2026-01-02T03:04:05+00:00"})
    run.step_path(0).mkdir(parents=True)
    damaged = run.step_path(0) / f"{name}.json"
    with pytest.raises(UsageError, match=f"{name}.json: cannot be read: No such file"):
        getattr(run, name)(0)
    damaged.write_text("{")
    with pytest.raises(UsageError, match=f"{name}.json: not what a run's {name}.json is: Invalid JSON"):
        getattr(run, name)(0)


@pytest.mark.parametrize("rows_a_group", [1, 3, 100])
def test_rows_that_are_not_asked_for_are_left_out_while_the_file_is_read(
    rows_a_group: int, tmp_path: Path
) -> None:
    """Whatever row groups a file has; in the first of one or three rows none is asked for."""
    kept = [False, False, False, True, False, True, True]
    table = pa.table({"kept": kept, "n": range(7)}, pa.schema([("kept", pa.bool_()), ("n", pa.int64())]))
    for rows in (table, table.slice(0, 0)):
        pq.write_table(rows, tmp_path / "a.parquet", row_group_size=rows_a_group)
        assert read_table(tmp_path / "a.parquet", where="kept").equals(rows.filter(rows["kept"]))


def test_the_periods_of_a_step_that_adapts_are_sealed_with_its_files(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "quick", {}, {})
    run.write_step(0, replace(step(), adaptation=ADAPTATION.empty_table()))
    assert broken(run.step_path(0)) == ()
    (run.step_path(0) / "adaptation.parquet").unlink()
    assert broken(run.step_path(0)) == ("adaptation.parquet is missing",)
