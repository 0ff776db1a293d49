"""How commands end, whatever a user types: one line that says what is wrong, a status, a last line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["report"], "Missing argument 'RUN'."),
        (["reprot"], "No such command 'reprot'."),
        (["list", "--rusn", "runs"], "No such option"),
        (["check", "no-such-experiment"], "no-such-experiment: no such experiment"),
        (["run"], "give either an EXPERIMENT or --resume RUN"),
    ],
)
def test_wrong_usage_ends_with_status_2_and_its_last_line(typed: list[str], said: str) -> None:
    done = CliRunner().invoke(main, [*typed, "--json"])
    assert done.exit_code == 2
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["exit_status"], last["status"]) == (2, "failed")
    assert last["error"].startswith(said)
    assert said in done.stderr


def test_help_and_version_end_well() -> None:
    assert CliRunner().invoke(main, ["cluster", "--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["--version"]).exit_code == 0


def test_what_the_system_refuses_is_named_with_its_path(tmp_path: Path) -> None:
    occupied = tmp_path / "accuracy.md"
    occupied.mkdir()
    split = "reports/evaluation-split.yaml"
    done = CliRunner().invoke(main, ["accuracy", str(tmp_path), "--split", split, "--out", str(occupied)])
    assert done.exit_code == 2
    assert str(occupied) in done.stderr
    assert "Traceback" not in done.output
