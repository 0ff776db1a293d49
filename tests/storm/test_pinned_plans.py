"""Plan files and statuses; expected statuses are those that the scheduler's JUnit tests have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plans import Component, Executor, PhysicalPlan, QueryPlan, Worker, WorkerNode
from harness.storm.pinned_plans import (
    PlanStatus,
    placement,
    plan_status,
    plan_text,
    write_command,
    write_plan,
)

names = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=20)


@given(st.dictionaries(names, names, min_size=1), st.integers(0, 2**40))
def test_a_plan_file_is_read_as_it_was_meant(workers: dict[str, str], generation: int) -> None:
    assert json.loads(plan_text(generation, workers)) == {"generation": generation, "executors": workers}


def test_a_command_writes_what_a_local_write_does(tmp_path: Path) -> None:
    text = plan_text(7, {"it's a 'bolt'[1-1]": "node-1:6700", "ü$HOME": "n:1"})
    (tmp_path / "with space").mkdir()
    write_plan(tmp_path, "t", text)
    command = write_command(str(tmp_path / "with space"), "t", text)
    subprocess.run(["sh", "-c", command], check=True)
    assert (tmp_path / "with space" / "t.json").read_bytes() == (tmp_path / "t.json").read_bytes()
    assert [p.name for p in (tmp_path / "with space").iterdir()] == ["t.json"]


def test_a_physical_plan_is_named_by_its_labels() -> None:
    node = WorkerNode(name="node-1", address="127.0.0.2", host="h", cores=2, slots=(6700,))
    plan = PhysicalPlan(
        query_plan=QueryPlan(name="q", components=(Component(name="a", role="other", tasks=3),), streams=()),
        nodes=(node,),
        executors=tuple(
            Executor(component=c, first_task=f, last_task=t, worker=Worker(node="node-1", port=6700))
            for c, f, t in (("__acker", 1, 1), ("a", 2, 4))
        ),
    )
    assert placement(plan) == {"__acker[1-1]": "node-1:6700", "a[2-4]": "node-1:6700"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plan 7: 3 of 3 executors placed", PlanStatus(7, 3, 3, "")),
        (
            "plan 7: 2 of 3 executors placed; node-3:6900 waits: there is no node node-3",
            PlanStatus(7, 2, 3, "node-3:6900 waits: there is no node node-3"),
        ),
        (
            "plan file t-1.json waits: it is not JSON: it ends too soon; plan 7: 3 of 3 executors placed",
            PlanStatus(7, 3, 3, "plan file t-1.json waits: it is not JSON: it ends too soon"),
        ),
        ("plan 8 waits: the topology has no executor b[2-3]; nothing is moved", None),
        ("no plan: placed by Storm's own scheduler", None),
        ("", None),
    ],
)
def test_what_a_status_says(text: str, expected: PlanStatus | None) -> None:
    assert plan_status(text) == expected


def test_a_plan_is_in_force_when_it_is_that_one_whole() -> None:
    assert PlanStatus(7, 3, 3, "").whole(7)
    assert not PlanStatus(7, 3, 3, "").whole(8)
    assert not PlanStatus(7, 2, 3, "node-3:6900 waits: there is no node node-3").whole(7)
    assert not PlanStatus(7, 3, 3, "plan 8 waits: there is no node node-9").whole(8)
