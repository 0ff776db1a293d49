"""Key groups that move while a step is measured: when they are asked to, and when they have come.

The world is that of plans that change (``adapted_world``).
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from adapted_steps import S, judged, messages, move_rows
from adapted_world import AdaptedWorld, adapted_on

from harness.experiments.adapted_periods import AskedChange, PeriodDecision, adaptation_table, components_of
from harness.experiments.adapting import PeriodSeen
from harness.experiments.key_group_moves import GroupMove, moved_groups


def swaps(seen: PeriodSeen) -> PeriodDecision:
    """Move key groups 0 and 2 to the second task, where they are not there already."""
    if seen.tables == {"count": (1, 1, 1)}:
        return PeriodDecision("stays", "they are there", None, {})
    change = AskedChange(components_of(seen.plan), tables={"count": (1, 1, 1)})
    return PeriodDecision("applied", "apart", change, {})


def test_key_groups_alone_ask_for_no_plan_and_are_in_force_when_their_new_tasks_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Group 1 stays. States of 100 and 120 bytes, and 7 ms each (``move_rows``)."""
    world = AdaptedWorld(3.0)
    world.reports = move_rows(0, 2, version=1)
    periods = adapted_on(world, monkeypatch, swaps)
    assert (world.counts, world.done) == (None, [])
    assert [p.applied for p in periods] == [True, False, False]
    assert periods[0].in_force_ns - periods[0].asked_ns == pytest.approx(3 * S, abs=S)
    assert [m.move for m in periods[0].moved] == [GroupMove("count", 0, 1), GroupMove("count", 2, 1)]
    table = adaptation_table(periods, *messages()).to_pylist()
    moved = [(row["groups_moved"], row["moved_state_bytes"], row["group_pause_ms"]) for row in table]
    assert moved == [(2, 220, 7.0), (None, None, None), (None, None, None)]
    assert judged(periods, lost=(), twice=()).plan_as_decided.ok


@pytest.mark.parametrize(
    ("reports", "moved"), [(move_rows(0, version=1), [0]), (move_rows(0, 2, version=2), [])]
)
def test_key_groups_that_do_not_come_are_told(
    monkeypatch: pytest.MonkeyPatch, reports: pa.Table, moved: list[int]
) -> None:
    """One of two does, or both by another table. The ends of two periods pass meanwhile."""
    world = AdaptedWorld(1.0)
    world.reports = reports
    periods = adapted_on(world, monkeypatch, swaps)
    assert [(p.applied, p.in_force_ns) for p in periods] == [(True, 0), (False, 0)]
    assert [m.move.group for m in periods[0].moved] == moved
    finding = judged(periods, lost=(), twice=())
    assert not finding.plan_as_decided.ok
    assert "not in force after 60 s in period 0" in finding.plan_as_decided.detail


def test_a_report_without_all_of_its_fields_is_none() -> None:
    rows = move_rows(0, 2, version=1)
    whole = moved_groups(rows)
    assert [(m.move, m.state_bytes, m.pause_ms) for m in whole] == [
        (GroupMove("count", 0, 1), 100, 7.0),
        (GroupMove("count", 2, 1), 120, 7.0),
    ]
    assert moved_groups(rows.slice(0, rows.num_rows - 1)) == whole[:1]
