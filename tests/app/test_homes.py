"""Folders of clusters: one is removed by whoever comes next, but only when its process is gone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.app.homes import temporary_home

HOLD = """
import sys
from harness.app.homes import temporary_home
with temporary_home() as home:
    print(home, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_home_goes_with_its_block() -> None:
    with temporary_home() as home:
        (home / "data").write_text("x")
    assert not home.exists()


def test_a_killed_process_home_is_removed_by_the_next_and_a_live_ones_is_not() -> None:
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        other = Path(holder.stdout.readline().strip())
        with temporary_home() as home:
            assert home != other
            assert other.is_dir()
        holder.kill()
        holder.wait()
    assert other.is_dir()
    with temporary_home():
        assert not other.exists()
