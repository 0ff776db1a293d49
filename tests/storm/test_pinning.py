"""A topology's placement: asked under a new generation each time, in force only where all of it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from made_runs import PLAN, placed

from harness.plans import AskedPlacement, PhysicalPlan
from harness.storm.pinned_plans import remove_command
from harness.storm.pinning import Pinning


class Folder:
    """The texts of plan files by topology."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def pin(self, topology: str, text: str) -> None:
        self.texts[topology] = text

    def unpin(self, topology: str) -> None:
        del self.texts[topology]


def asked(plan: PhysicalPlan) -> AskedPlacement:
    return AskedPlacement(by="test", workers={e.label: e.worker.label for e in plan.executors})


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_every_placement_has_a_generation_of_its_own(folder: Folder) -> None:
    pinning = Pinning(folder, "t")
    for generation, first in ((1, 0), (2, 1)):
        placement = asked(placed(PLAN, 2, first=first))
        pinning.ask(placement)
        assert json.loads(folder.texts["t"]) == {"generation": generation, "executors": placement.workers}
    pinning.ask(None)
    assert folder.texts == {}
    pinning.ask(None)  # there is none to take away


def test_a_file_that_an_earlier_command_left_is_taken_away(folder: Folder) -> None:
    folder.texts["t"] = "left"
    Pinning(folder, "t").ask(None)
    assert folder.texts == {}


def test_a_placement_is_in_force_when_status_and_plan_say_so(folder: Folder) -> None:
    plan, other = placed(PLAN, 2), placed(PLAN, 2, first=1)
    pinning, size = Pinning(folder, "t"), len(plan.executors)
    assert pinning.in_force("", lambda: plan)
    pinning.ask(asked(other))
    pinning.ask(asked(plan))
    whole = f"plan 2: {size} of {size} executors placed"
    assert pinning.in_force(whole, lambda: plan)
    assert not pinning.in_force(whole, lambda: other)  # the status is there before the assignment
    for early in (
        "",
        f"plan 1: {size} of {size} executors placed",
        f"plan 2: {size - 1} of {size} executors placed",
        f"plan 2 waits: the topology has no executor a[3-3]; plan 1: {size} of {size} executors placed",
    ):
        assert not pinning.in_force(early, lambda: plan)


def test_a_command_removes_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    for name in ("t.json", "u.json"):
        (tmp_path / "with space" / name).write_text("{}")
    for _ in range(2):  # a file that is not there is fine
        subprocess.run(["sh", "-c", remove_command(str(tmp_path / "with space"), "t")], check=True)
    assert [p.name for p in (tmp_path / "with space").iterdir()] == ["u.json"]
