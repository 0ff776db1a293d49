"""Placements by hand: executors that are named stay, Storm's own that are left out are dealt evenly."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import nodes_of, one_each, topology

from harness.errors import SchedulerDeclined
from harness.plans import TopologyConfiguration
from harness.protocols import Proposal
from harness.schedulers.by_hand import place_by_hand
from harness.schedulers.conformance import SchedulingQuestion, answer_faults
from harness.schedulers.placement import number_executors

CHAIN = topology((("a", "b"), ("b", "c")), tasks=3)
NODES = nodes_of((2, 2))
SLOTS = [f"{n.name}:{port}" for n in NODES for port in n.slots]


@given(st.data(), st.integers(0, 9), st.integers(0, 3))
def test_left_out_executors_are_dealt_evenly_to_the_workers_in_use(
    data: st.DataObject, ackers: int, consumers: int
) -> None:
    own = {k: n for k, n in (("acker", ackers), ("metrics_m", consumers)) if n}
    asked = one_each(CHAIN, 4, **own)
    executors = number_executors(CHAIN, asked, {})
    kept_out = data.draw(st.sets(st.sampled_from([e for e in executors if e.own]))) if own else set()
    named = {e.label: data.draw(st.sampled_from(SLOTS)) for e in executors if e not in kept_out}
    plan = place_by_hand(named, CHAIN, asked, NODES)
    assert answer_faults(Proposal(plan), SchedulingQuestion(CHAIN, asked, NODES, None)) == ""
    where = {e.label: e.worker.label for e in plan.executors}
    assert named.items() <= where.items()
    dealt = Counter(where[e.label] for e in kept_out)
    used = set(named.values())
    assert set(dealt) <= used
    assert max(dealt.values(), default=0) - min(dealt[worker] for worker in used) <= 1


def by_hand(**changes: str) -> dict[str, str]:
    labels = ("a[2-4]", "b[5-7]", "c[8-10]")
    return dict.fromkeys(labels, SLOTS[0]) | changes


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        (by_hand() | {"a[2-3]": SLOTS[0]}, r"there is no executor a\[2-3\]; a has a\[2-4\]"),
        (by_hand() | {"d[2-3]": SLOTS[0]}, r"there is no executor d\[2-3\]$"),
        (
            by_hand() | {"b[5-7]": "node-1:6702"},
            r"b\[5-7\]: there is no worker node-1:6702; there are node-1",
        ),
        (by_hand() | {"b[5-7]": "node-9:6700"}, "there is no worker node-9:6700"),
        ({"a[2-4]": SLOTS[0], "b[5-7]": SLOTS[1]}, r"executor c\[8-10\] has no worker"),
        ({}, r"executor a\[2-4\] has no worker"),
    ],
)
def test_a_placement_that_does_not_fit_is_declined(workers: dict[str, str], says: str) -> None:
    asked = TopologyConfiguration(executors={"__acker": 1, "a": 1, "b": 1, "c": 1}, workers=1)
    with pytest.raises(SchedulerDeclined, match=says):
        place_by_hand(workers, CHAIN, asked, NODES)
