"""Distances of plans: counted by hand on a chain of three components, and a metric on random plans."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling import nodes_of, placed, topology

from harness.plans import Executor, PhysicalPlan, Worker
from harness.schedulers.plan_distance import PlanDistance, PlanWanted, nearest, plan_distance

CHAIN = topology((("a", "b"), ("b", "c")), {"a": 1, "b": 2, "c": 1})
NODES = nodes_of([2, 2])
NOW = placed(
    CHAIN,
    NODES,
    {"a[1-1]": "node-1:6700", "b[2-2]": "node-1:6701", "b[3-3]": "node-2:6700", "c[4-4]": "node-2:6700"},
)


def chain(**elsewhere: str) -> PhysicalPlan:
    return placed(CHAIN, NODES, {e.label: e.worker.label for e in NOW.executors} | elsewhere)


def test_a_connection_of_another_kind_counts_as_its_share_of_a_stream() -> None:
    """a to b[2-2] crosses no worker any more, one of two connections of the first of two streams: 1 in 4.

    b[2-2] to c stays between nodes. A worker less than three: log2(3 / 2).
    """
    moved = chain(**{"b[2-2]": "node-1:6700"})
    found = plan_distance(PlanWanted(placed=moved), NOW)
    assert found == PlanDistance(workers=pytest.approx(math.log2(1.5)), connections=0.25)


def test_nodes_and_workers_of_other_names_are_the_same_plan() -> None:
    other = {"node-1": "node-2", "node-2": "node-1"}
    mirrored = chain(**{e.label: f"{other[e.worker.node]}:{13401 - e.worker.port}" for e in NOW.executors})
    assert plan_distance(PlanWanted(placed=mirrored), NOW) == PlanDistance()


def test_counts_and_rates_count_by_doublings_and_what_nobody_wants_is_not_far() -> None:
    """Two tasks of b in one executor, where there were two: one doubling."""
    one = Executor(component="b", first_task=2, last_task=3, worker=Worker(node="node-1", port=6701))
    fewer = NOW.model_copy(update={"executors": (NOW.executors[0], one, NOW.executors[3])})
    found = plan_distance(PlanWanted(placed=fewer, rate_tps=400), NOW, 100)
    assert (found.executors, found.rate) == (1.0, 2.0)
    assert plan_distance(PlanWanted(workers=6), NOW, 100) == PlanDistance(workers=1.0)
    assert plan_distance(PlanWanted(rate_tps=400), NOW) == PlanDistance()
    assert plan_distance(PlanWanted(), NOW, 100) == PlanDistance()
    assert plan_distance(PlanWanted(rate_tps=400), NOW, 0).total == math.inf


def test_ackers_of_another_number_shift_all_tasks_and_change_no_connection() -> None:
    """Storm numbers its own tasks first."""
    shifted = tuple(
        e.model_copy(update={"first_task": e.first_task + 2, "last_task": e.last_task + 2})
        for e in NOW.executors
    )
    ackers = tuple(
        Executor(component="__acker", first_task=t, last_task=t, worker=NOW.executors[0].worker)
        for t in (1, 2)
    )
    other = NOW.model_copy(update={"executors": ackers + shifted})
    assert plan_distance(PlanWanted(placed=NOW), other).total == 0
    assert plan_distance(PlanWanted(placed=other), NOW).total == 0


def test_the_first_of_those_that_are_as_near_is_taken() -> None:
    far, near = PlanDistance(executors=1.0), PlanDistance(rate=0.5)
    assert nearest([far, near, near]) == 1


@st.composite
def plans(draw: st.DrawFn) -> PhysicalPlan:
    """b's two tasks in one executor or two, all of them anywhere on two nodes of two slots."""
    spans = draw(st.sampled_from([((2, 3),), ((2, 2), (3, 3))]))
    labelled = [("a", 1, 1), *(("b", *span) for span in spans), ("c", 4, 4)]
    slots = [Worker(node=n.name, port=port) for n in NODES for port in n.slots]
    executors = tuple(
        Executor(component=c, first_task=first, last_task=last, worker=draw(st.sampled_from(slots)))
        for c, first, last in labelled
    )
    return NOW.model_copy(update={"executors": executors})


rates = st.floats(1, 1e4)


@given(plans(), plans(), plans(), rates, rates, rates)
def test_it_is_a_distance(
    one: PhysicalPlan,
    two: PhysicalPlan,
    three: PhysicalPlan,
    one_tps: float,
    two_tps: float,
    three_tps: float,
) -> None:
    """Symmetric, 0 to itself, and no way round is shorter: it is a sum of distances."""

    def between(p: PhysicalPlan, p_tps: float, q: PhysicalPlan, q_tps: float) -> float:
        return plan_distance(PlanWanted(placed=p, rate_tps=p_tps), q, q_tps).total

    there = between(one, one_tps, two, two_tps)
    assert between(one, one_tps, one, one_tps) == 0
    assert there == pytest.approx(between(two, two_tps, one, one_tps))
    assert there <= between(one, one_tps, three, three_tps) + between(three, three_tps, two, two_tps) + 1e-9
