"""Two commands that judge one run at the same time: the second is refused, and nothing of it is shared."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from altered_runs import ALL_IN_ONE

from harness.analysis.analyse import analyse, write
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.results import Results
from harness.errors import UsageError
from harness.machine.whole_files import own_folder
from harness.runs import Run, judged_alone


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ALL_IN_ONE, tmp_path / "all-in-one" / ALL_IN_ONE.name))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


HOLDER = """
import sys, time
from pathlib import Path
from harness.machine.whole_files import own_folder
from harness.runs import judged_alone
with judged_alone(Path(sys.argv[1])), own_folder(Path(sys.argv[1]), "analysis") as folder:
    (folder / "verdict.json").write_text("half")
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_report_is_refused_in_one_line_and_disturbs_nothing(run_path: Path) -> None:
    """The first is another process that holds the run, as a report does while it computes."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        before = contents(run_path)
        says = "another harness is judging this run: wait until it has ended"
        predict_said = _refusal(lambda: predict(Run(run_path), ("no-change",)))
        assert predict_said == f"{run_path}: {says}"
        second = subprocess.run(
            [sys.executable, "-m", "harness", "predict", str(run_path), "--model", "no-change"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        assert second.stderr.splitlines()[-1] == f"error: {run_path}: {says}"
        assert contents(run_path) == before
        first.send_signal(signal.SIGKILL)
    # of one that was killed neither the lock is left, nor, once another judges the run, its folder
    assert list(run_path.glob(".analysis.*.partial"))
    predict(Run(run_path), ("no-change",))
    assert (run_path / "predictions.parquet").is_file()
    assert not list(run_path.glob(".*.partial"))


def test_a_second_analysis_is_refused_before_spark_starts(run_path: Path) -> None:
    predict(Run(run_path), ("no-change",))
    before = contents(run_path)
    with judged_alone(run_path):
        assert "another harness is judging this run" in _refusal(lambda: analyse(run_path))
    assert contents(run_path) == before


def _refusal(command: object) -> str:
    assert callable(command)
    with pytest.raises(UsageError) as refused:
        command()
    return str(refused.value)


def test_folders_of_two_processes_are_two(tmp_path: Path) -> None:
    with own_folder(tmp_path, "analysis") as one, own_folder(tmp_path, "analysis") as other:
        assert one != other
        (one / "a").write_text("mine")
    assert list(tmp_path.iterdir()) == []


def test_outputs_replaced_half_way_have_no_verdict(run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two replacements: no verdict of another analysis stands beside the new errors."""
    (run_path / "verdict.json").write_text('{"verdict": "valid"}')
    real, moved = os.replace, list[str]()

    def killed(source: Path, target: Path) -> None:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(Path(target).name)
        real(source, target)

    predict(Run(run_path), ("no-change",))
    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write(_Nothing(), run_path, _write_pages)  # type: ignore[arg-type]
    assert moved == ["errors.parquet", "summary.json"]
    assert not (run_path / "verdict.json").exists()


class _Nothing:
    """What is written of an analysis, without the analysis."""

    def __init__(self) -> None:
        self.pairs = pa.table({"a": [1]})
        self.summary = {"verdict": "invalid"}
        self.checks = ()


def _write_pages(_results: Results, folder: Path) -> None:
    (folder / "figures").mkdir()
    (folder / "report.html").write_text("")
