"""Runs found by their address."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from served import ARCHIVE

from harness.runs import Run
from harness.service.run_index import RunIndex, UnknownName


class Searching(RunIndex):
    """Counts how often all folders are searched."""

    searches = 0

    def runs(self) -> dict[tuple[str, str], Run]:
        self.searches += 1
        return super().runs()


def test_folders_are_searched_once_for_a_run_that_stays_and_again_for_one_that_moved(tmp_path: Path) -> None:
    address = "noise", "20260101T000000Z"
    place = tmp_path.joinpath("runs", *address)
    shutil.copytree(next((ARCHIVE / "noise-floor").iterdir()), place)
    index = Searching([tmp_path / "runs"])
    assert [index.run(*address).path for _ in range(3)] == [place] * 3
    assert index.searches == 1
    elsewhere = tmp_path.joinpath("runs", "kept", *address)
    elsewhere.parent.mkdir(parents=True)
    place.rename(elsewhere)
    assert index.run(*address).path == elsewhere
    shutil.rmtree(elsewhere)
    with pytest.raises(UnknownName, match="unknown run 'noise/20260101T000000Z'"):
        index.run(*address)


def test_no_address_leads_out_of_the_folders(tmp_path: Path) -> None:
    shutil.copytree(next((ARCHIVE / "noise-floor").iterdir()), tmp_path / "secret" / "run")
    index = RunIndex([tmp_path / "runs" / "deep"])
    for address in (("..", "secret"), ("../../secret", "run"), (str(tmp_path / "secret"), "run")):
        with pytest.raises(UnknownName):
            index.run(*address)
