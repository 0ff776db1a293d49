"""When a rebalance is whole, and which workers are new: on states made by hand."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plans import TopologyConfiguration
from harness.storm.topology_state import (
    KNOWN_BY_S,
    OLD_WORKER_GONE_S,
    ExecutorState,
    Rebalance,
    Slot,
    TopologyState,
    WorkerStarts,
)

A: Slot = ("127.0.0.2", 6700)
B: Slot = ("127.0.0.3", 6800)
C: Slot = ("127.0.0.4", 6900)


def state(*executors: tuple[str, int, Slot, int | None], status: str = "ACTIVE") -> TopologyState:
    """Executors as (component, only task, slot, uptime of the worker, None before its first report)."""
    return TopologyState(
        id="t-1",
        status=status,
        executors=tuple(
            ExecutorState(
                component=component,
                first_task=task,
                last_task=task,
                address=slot[0],
                port=slot[1],
                worker_uptime_s=uptime_s or 0,
                up=uptime_s is not None,
            )
            for component, task, slot, uptime_s in executors
        ),
    )


def asked(workers: int, **executors: int) -> TopologyConfiguration:
    return TopologyConfiguration(executors=executors, workers=workers)


def now() -> float:
    return time.monotonic()


def test_a_worker_with_the_same_executors_keeps_running() -> None:
    before = state(("a", 1, A, 500), ("b", 2, B, 500))
    rebalance = Rebalance(before, asked(2, a=1, b=1), now())
    assert rebalance.whole(state(("a", 1, A, 501), ("b", 2, B, 501)))


def test_the_old_workers_report_is_not_the_new_ones() -> None:
    """From one worker with both to two with one each: slot A's last report holds all of its new executors."""
    before = state(("a", 1, A, 500), ("b", 2, A, 500))
    rebalance = Rebalance(before, asked(2, a=1, b=1), now())
    assert not rebalance.whole(state(("a", 1, A, 500), ("b", 2, B, None)))
    assert not rebalance.whole(half := state(("a", 1, A, 500), ("b", 2, B, 3)))
    assert rebalance.unheard(half) == {A}  # executor b is of a worker younger than the old one
    assert rebalance.whole(after := state(("a", 1, A, 2), ("b", 2, B, 4)))
    assert rebalance.unheard(after) == rebalance.unheard(before) == set()


def test_a_new_worker_once_seen_stays_new() -> None:
    before = state(("a", 1, A, 3), ("b", 2, A, 3))
    rebalance = Rebalance(before, asked(2, a=1, b=1), now())
    assert not rebalance.whole(state(("a", 1, A, 1), ("b", 2, B, None)))  # A is seen to be new here
    assert rebalance.whole(
        state(("a", 1, A, 9), ("b", 2, B, 2))
    )  # though it is older than the old one by now


def test_a_young_predecessors_frozen_report_is_told_from_a_live_one() -> None:
    before = state(("a", 1, A, 0), ("b", 2, A, 0))
    long_ago = now() - OLD_WORKER_GONE_S - 1
    rebalance = Rebalance(before, asked(2, a=1, b=1), long_ago)
    frozen = state(("a", 1, A, 4), ("b", 2, B, 3))
    assert not rebalance.whole(frozen)
    assert not rebalance.whole(frozen)
    assert rebalance.whole(state(("a", 1, A, 5), ("b", 2, B, 4)))


def test_reports_of_executors_that_moved_between_workers_are_the_old_workers(
    figure: Callable[[str], None],
) -> None:
    """From three workers to two, one task an executor before and after: the old reports are there at once."""
    before = state(("a", 1, A, 40), ("a", 2, B, 41), ("b", 3, C, 40), ("b", 4, A, 40), ("c", 5, B, 41))
    rebalance = Rebalance(before, asked(2, a=2, b=2, c=1), now())
    moved = [("a", 1, A), ("a", 2, B), ("b", 3, A), ("b", 4, B), ("c", 5, A)]
    told = {1: 40, 2: 41, 3: 40, 4: 40, 5: 41}
    assert not rebalance.whole(state(*((c, n, slot, told[n]) for c, n, slot in moved)))
    told |= {1: 3, 3: 3}  # the new worker on A tells of two of its three so far
    assert not rebalance.whole(state(*((c, n, slot, told[n]) for c, n, slot in moved)))
    told |= {1: 4, 3: 4, 5: 4}
    assert not rebalance.whole(state(*((c, n, slot, told[n]) for c, n, slot in moved)))
    told |= {2: 2, 4: 2}
    assert rebalance.whole(state(*((c, n, slot, told[n]) for c, n, slot in moved)))
    figure(
        f"{len(moved)} executors of a task, {len(before.slots())} to {len({s for *_, s in moved})} workers"
    )


def test_workers_of_a_node_that_keeps_all_must_know_where_the_others_went(
    monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    """Two executors of node B change places; node A's supervisor asks Nimbus every 10 s."""
    other: Slot = (B[0], B[1] + 1)
    before = state(("a", 1, A, 50), ("b", 2, B, 50), ("b", 3, other, 50))
    rebalance = Rebalance(before, asked(3, a=1, b=2), now())
    after = state(("a", 1, A, 51), ("b", 3, B, 1), ("b", 2, other, 1))
    assert not rebalance.whole(after)
    later = now() + KNOWN_BY_S
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert rebalance.whole(after)
    figure(f"whole after {KNOWN_BY_S:g} s")


def test_while_rebalancing_nothing_is_whole() -> None:
    before = state(("a", 1, A, 500))
    rebalance = Rebalance(before, asked(1, a=1), now())
    assert not rebalance.whole(state(("a", 1, A, 501), status="REBALANCING"))
    assert rebalance.whole(state(("a", 1, A, 502)))


def test_components_that_were_not_named_may_have_any_number() -> None:
    before = state(("a", 1, A, 500))
    rebalance = Rebalance(before, asked(1, a=1), now())
    assert rebalance.whole(state(("a", 1, A, 501), ("__acker", 2, A, 501)))


@given(
    start_s=st.floats(0, 1e5),
    looks=st.lists(
        st.tuples(st.floats(0, 0.9), st.sampled_from(["same", "soon", "late"]), st.floats(0, 1)),
        min_size=1,
        max_size=60,
    ),
)
def test_late_and_truncated_uptimes_are_one_start(
    start_s: float, looks: list[tuple[float, str, float]]
) -> None:
    """The same report again for any time, and reports up to half a minute late between those that are not."""
    starts, seen, age_s, reported_s, late_before = WorkerStarts(), set(), 0.0, 0, False
    for gap_s, kind, part in looks:
        age_s += gap_s
        late_s = part * (30.0 if kind == "late" and not late_before else 1.9)
        if kind != "same":
            fresh_s = max(reported_s, int(max(0.0, age_s - late_s)))
            late_before = late_s >= 1.9 and (fresh_s > reported_s or late_before)
            reported_s = fresh_s
        seen.add(starts.update({A: reported_s}, start_s + age_s)[A])
    assert len(seen) == 1


def test_a_young_worker_that_was_killed_is_a_new_start() -> None:
    # as on a cluster: the old report stays until the new worker's, which is older by then than the old was
    starts = WorkerStarts()
    seen = [
        starts.update({A: uptime_s}, now_s)[A]
        for now_s, uptime_s in ((100, 4), (101, 4), (105, 4), (107.5, 4), (108, 5), (108.5, 5), (109, 6))
    ]
    assert seen == [96, 96, 96, 96, 96, 96, 103]


def test_a_report_in_doubt_is_not_of_the_worker_that_is_known() -> None:
    """At 107.5 s a report of 4 s may be late, of the first worker, or a successor's; the next one tells."""
    starts = WorkerStarts()
    told = []
    for now_s, uptime_s in ((100, 2), (103.0, 5), (108.0, 6), (108.5, 6), (109.0, 7)):
        starts.update({A: uptime_s}, now_s)
        told.append(starts.reported_s[A])
    assert told == [2, 5, 5, 5, 7]


def test_a_restart_is_a_new_start() -> None:
    starts = WorkerStarts()
    first = starts.update({A: 100, B: 100}, 1000.0)
    second = starts.update({A: 4, B: 110}, 1010.0)
    assert second[A] != first[A]
    assert second[B] == first[B]


def test_a_restart_while_nobody_looked_is_a_new_start_however_old_the_worker_is_by_then() -> None:
    starts = WorkerStarts()
    assert starts.update({A: 10}, 1000.0)[A] == 990.0
    assert starts.update({A: 15}, 1030.0)[A] == 1015.0
