"""The run directory: whole or not at all, and refused when it is not ours to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.runs import Run, folder_atomically, write_atomically
from harness.schemas import SCHEMA_VERSION


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


def test_a_half_written_step_is_not_a_finished_one(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "e", "name: e\n", {})
    run.step_path(0).mkdir()
    (run.path / "steps" / ".01.partial").mkdir()
    assert run.finished_steps == (0,)


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
