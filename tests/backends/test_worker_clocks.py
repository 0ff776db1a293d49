"""Clocks of workers that can be moved: what is there for whom, and that a clock is set right again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from harness.backends import worker_clocks
from harness.backends.worker_clocks import LIBRARY, MOVED, movable, moved
from harness.errors import ClusterError, MissingTool


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    library = tmp_path / "library"
    library.touch()
    monkeypatch.setattr(worker_clocks, "library", lambda: library)
    return {name: tmp_path / "clocks" / name for name in ("node-1", "node-2")}


def test_only_the_named_nodes_have_it_while_the_block_lasts(folders: dict[str, Path]) -> None:
    folders["node-1"].mkdir(parents=True)  # a run that was killed left it
    with movable(folders, ["node-2"]):
        assert not folders["node-1"].exists()
        assert {f.name: f.read_text() for f in folders["node-2"].iterdir()} == {LIBRARY: "", MOVED: "+0\n"}
    assert not folders["node-2"].exists()


def test_a_clock_is_moved_and_set_right_again(folders: dict[str, Path]) -> None:
    with movable(folders, ["node-2"]):
        for by_s, says in ((-6, "-6\n"), (6, "+6\n")):
            with moved(folders["node-2"], by_s):
                assert (folders["node-2"] / MOVED).read_text() == says
            assert (folders["node-2"] / MOVED).read_text() == "+0\n"
        with (
            pytest.raises(ClusterError, match=r"node-1: its clock stays: .*node-1/moved_s"),
            moved(folders["node-1"], 6),
        ):
            pass


def test_a_clock_is_set_right_when_who_moved_it_is_killed(folders: dict[str, Path]) -> None:
    asker = """
import sys
from pathlib import Path
from harness.backends.worker_clocks import moved

with moved(Path(sys.argv[1]), -6):
    print("moved", flush=True)
    sys.stdin.read()
"""
    with movable(folders, ["node-1"]):
        command = [sys.executable, "-c", asker, str(folders["node-1"])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "moved\n"
            file = folders["node-1"] / MOVED
            assert file.read_text() == "-6\n"
            asking.kill()
        until(lambda: file.read_text() == "+0\n", "the clock is right")


def test_a_machine_without_the_library_is_told_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_clocks, "LIBRARY", "libnothing.so")
    with pytest.raises(MissingTool, match="libfaketime") as missing:
        worker_clocks.library()
    assert missing.value.hint == "apt-get install libfaketime"
