"""What a shell completes, asked as bash asks it: through the variable that its completion script sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from harness.backends.hosts.state import clusters_folder
from harness.cli import main
from harness.experiments.config import Experiment
from harness.models import MODELS

ROOT = Path(__file__).resolve().parents[2]
RUN = "noise-floor/20261121T181833Z"


def completions(*words: str, incomplete: str) -> list[str]:
    asked = ShellComplete(main, {}, "harness", "_HARNESS_COMPLETE")
    return [item.value for item in asked.get_completions(list(words), incomplete)]


def test_bash_is_answered() -> None:
    asked = {"COMP_WORDS": "harness run loaded-r", "COMP_CWORD": "2", "_HARNESS_COMPLETE": "bash_complete"}
    command = [str(Path(sys.executable).with_name("harness"))]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["plain,loaded-ramp", "file,loaded-r"]


def test_experiments_are_those_of_the_list() -> None:
    found = completions("check", incomplete="")[:-1]
    folder = ROOT / "configs" / "experiments"
    assert found == sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))


@pytest.mark.parametrize("command", ["report", "predict", "watch", "plans", "schedule", "tune", "bundle"])
def test_runs_are_completed_below_a_typed_folder(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "reports")
    assert completions(command, incomplete="runs/noise") == [f"runs/{RUN}"]
    assert completions(command, incomplete=f"runs/{RUN.split('/', maxsplit=1)[0]}/2026") == [f"runs/{RUN}"]


def test_runs_of_the_working_folder_come_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = ("20260101T000000Z", "20260301T000000Z", "20260201T000000Z")
    for start in starts:
        folder = tmp_path / "runs" / "quick" / start
        folder.mkdir(parents=True)
        (folder / "environment.json").touch()
    monkeypatch.chdir(tmp_path)
    assert completions("run", "--resume", incomplete="") == [
        f"runs/quick/{start}" for start in sorted(starts, reverse=True)
    ]


def test_models_are_the_shipped_ones_though_none_is_imported() -> None:
    assert set(completions("predict", "RUN", "--model", incomplete="")) >= set(MODELS)
    assert set(Experiment.model_fields["models"].default) == set(MODELS)


def test_clusters_are_those_that_were_provisioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert clusters_folder().is_relative_to(tmp_path)
    (clusters_folder() / "three").mkdir(parents=True)
    (clusters_folder() / "three" / "cluster.json").touch()
    assert completions("deprovision", incomplete="") == ["three"]
    assert completions("cluster", "status", incomplete="th") == ["three"]
