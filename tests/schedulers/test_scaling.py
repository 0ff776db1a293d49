"""Algorithm 1 of Madsen, Zhou and Cao with scaling: oracles by hand, and properties of any decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from budgets import budget
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scheduling import nodes_of, observation, placed, topology

from harness.errors import SchedulerDeclined
from harness.plans import WorkerNode
from harness.protocols import NodeAmounts, Resource, Scheduler
from harness.schedulers import make_scheduler
from harness.schedulers.balancing import empty_leaving
from harness.schedulers.groups import GroupProblem, equal_nodes
from harness.schedulers.scaling import (
    PlannedPeriod,
    ScaledNodes,
    ScaleLimits,
    Scaling,
    decide_scaling,
    plan_period,
)

NAMES = tuple("abcdefgh")


def decided(
    loads: list[float],
    places: list[int],
    nodes: int,
    limits: ScaleLimits,
    spare: dict[str, float] | None = None,
    leaving: tuple[int, ...] = (),
) -> Scaling:
    here = np.array(places, dtype=np.int64)
    problem = equal_nodes(np.array(loads), here, nodes, 1.0)
    problem = replace(problem, leaving=np.isin(np.arange(nodes), leaving))
    return decide_scaling(
        problem, NAMES[:nodes], here, {"s": 1.0, "t": 1.0} if spare is None else spare, limits
    )


@pytest.mark.parametrize(
    ("load", "spare", "added"),
    [
        # two nodes of 78 each: none above 80
        (39.0, None, ()),
        # 82 each: 164 over three are 55
        (41.0, None, ("s",)),
        # 130 each: 260 over three are 87, over four 65
        (65.0, None, ("s", "t")),
        # the first is four times as large: 260 over 6 are 43
        (65.0, {"s": 4.0, "t": 1.0}, ("s",)),
        # 200 each: even four have 100 each, and there are no more
        (100.0, None, ("s", "t")),
    ],
)
def test_the_fewest_nodes_come_that_bring_the_mean_below_the_limit(
    load: float, spare: dict[str, float] | None, added: tuple[str, ...]
) -> None:
    found = decided([load] * 4, [0, 0, 1, 1], 2, ScaleLimits(80, 10, 1, 8), spare)
    assert found == Scaling(added=added, reason=found.reason)
    assert found.changes is bool(added)


def test_no_more_nodes_come_than_are_allowed_or_there() -> None:
    most = decided([65.0] * 4, [0, 0, 1, 1], 2, ScaleLimits(80, 10, 1, 3))
    assert most.added == ("s",)
    none = decided([65.0] * 4, [0, 0, 1, 1], 2, ScaleLimits(80, 10, 1, 2))
    assert none == Scaling(reason="a would be at 130 %, above 80, and there are 2 nodes, the most allowed")
    assert not decided([65.0] * 4, [0, 0, 1, 1], 2, ScaleLimits(80, 10, 1, 8), {}).changes


def test_a_mark_is_taken_back_before_a_node_is_added() -> None:
    """c is to leave: 130 and 130 on a and b, so 260 over three are 87 and over four 65."""
    found = decided([65.0] * 4, [0, 0, 1, 1], 3, ScaleLimits(80, 10, 1, 8), leaving=(2,))
    assert (found.unmarked, found.added, found.marked) == (("c",), ("s",), ())
    one = decided([50.0] * 4, [0, 0, 1, 1], 3, ScaleLimits(80, 10, 1, 8), leaving=(2,))
    assert (one.unmarked, one.added) == (("c",), ())


@pytest.mark.parametrize(
    ("loads", "places", "marked", "reason"),
    [
        # 20, 30 and 40: without a, 45 each; the least load has to move
        ([20, 30, 40], [0, 1, 2], ("a",), "mean 30 %, below 50: a is to leave"),
        # equal: the last one
        ([30, 30, 30], [0, 1, 2], ("c",), "mean 30 %, below 50: c is to leave"),
        # 60, 60 and 20: whoever goes, one of the others has 80, which is not above 80
        ([60, 60, 20], [0, 1, 2], ("c",), "mean 47 %, below 50: c is to leave"),
        # 60, 60 and 25: 85 in any case, though the mean of two is 72.5
        ([60, 60, 25], [0, 1, 2], (), "mean 48 %, below 50: without c, b would be at 85 %, above 80"),
    ],
)
def test_a_node_is_marked_where_the_others_can_be_balanced_without_it(
    loads: list[float], places: list[int], marked: tuple[str, ...], reason: str
) -> None:
    found = decided(loads, places, 3, ScaleLimits(80, 50, 1, 3))
    assert found.marked == marked
    assert found.reason.replace("without c, a", "without c, b") == reason


def test_one_node_at_a_time_is_emptied_and_never_the_last() -> None:
    assert decided([10.0] * 3, [0, 1, 2], 3, ScaleLimits(80, 50, 3, 3)) == Scaling()
    assert decided([10.0] * 3, [0, 1, 2], 3, ScaleLimits(80, 50, 1, 3), leaving=(2,)) == Scaling()
    assert decided([10.0], [0], 1, ScaleLimits(80, 50, 1, 3)) == Scaling()


def test_the_potential_plan_decides_and_not_the_one_in_force() -> None:
    """100 and 0 in force is too much for a; 50 and 50 is not, and no node comes."""
    problem = equal_nodes(np.array([50.0, 50.0]), np.zeros(2, dtype=np.int64), 2, 1.0)
    limits = ScaleLimits(80, 10, 1, 3)
    assert decide_scaling(problem, NAMES[:2], problem.allocation, {"s": 1.0}, limits).added == ("s",)
    assert decide_scaling(problem, NAMES[:2], np.array([0, 1]), {"s": 1.0}, limits) == Scaling()


@st.composite
def questions(draw: st.DrawFn) -> tuple[GroupProblem, dict[str, float], ScaleLimits]:
    nodes = draw(st.integers(1, 5))
    groups = draw(st.integers(1, 8))
    number = st.floats(0.0, 120.0, allow_subnormal=False)
    loads = np.array(draw(st.lists(number, min_size=groups, max_size=groups)))
    places = np.array(draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups)))
    leaving = np.zeros(nodes, dtype=bool)
    if nodes > 1 and draw(st.booleans()):
        leaving[draw(st.integers(0, nodes - 1))] = True
    capacity = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=nodes, max_size=nodes)))
    problem = replace(equal_nodes(loads, places, nodes, 3.0), leaving=leaving, capacity=capacity)
    spare = {f"s{i}": draw(st.sampled_from([0.5, 1.0])) for i in range(draw(st.integers(0, 3)))}
    out_pct, in_pct = draw(st.sampled_from([(80, 50), (80, 79), (60, 0)]))
    least = draw(st.integers(1, nodes))
    return problem, spare, ScaleLimits(out_pct, in_pct, least, draw(st.integers(nodes, nodes + 2)))


@settings(max_examples=budget(60), deadline=None)
@given(question=questions())
def test_whatever_is_decided_keeps_its_limits(
    question: tuple[GroupProblem, dict[str, float], ScaleLimits],
) -> None:
    problem, spare, limits = question
    names = NAMES[: problem.capacity.size]
    assume(problem.loads.sum() > 1)
    found = decide_scaling(problem, names, problem.allocation, spare, limits)
    loads, stays = problem.node_loads(problem.allocation), ~problem.leaving
    came = len(found.added) + len(found.unmarked)
    assert not (came and found.marked)
    assert bool(came) <= bool(loads[stays].max() > limits.out_pct)
    assert len(names) + len(found.added) <= limits.most
    assert set(found.added) <= set(spare)
    assert set(found.unmarked) <= {n for n, gone in zip(names, problem.leaving, strict=True) if gone}
    assert bool(found.added) <= (set(found.unmarked) == {names[i] for i in np.flatnonzero(problem.leaving)})
    if found.marked:
        (marked,) = found.marked
        assert not problem.leaving.any()
        assert len(names) - 1 >= limits.least
        rest = problem.capacity[[n != marked for n in names]].sum()
        assert problem.loads.sum() / problem.capacity.sum() < limits.in_pct
        assert problem.loads.sum() / rest <= limits.out_pct * (1 + 1e-9)


@settings(max_examples=budget(60), deadline=None)
@given(question=questions())
def test_leaving_nodes_are_emptied_within_the_budget(
    question: tuple[GroupProblem, dict[str, float], ScaleLimits],
) -> None:
    """Three groups may move: of those on a leaving node min(3, all) do, and no other."""
    problem, _, _ = question
    assume(not problem.leaving.all())
    emptied = empty_leaving(problem, problem.allocation)
    before = problem.leaving[problem.allocation]
    assert (emptied != problem.allocation).sum() == min(3, before.sum())
    assert not problem.leaving[emptied[emptied != problem.allocation]].any()
    assert (emptied == problem.allocation)[~before].all()


PAIR = topology((("a", "b"),), {"a": 1, "b": 5})
NODES = nodes_of([1, 1, 1], cores=[1, 1, 1])
LIMITS = ScaleLimits(80, 50, 1, 3)


def period(
    cores: float | dict[int, float],
    places: list[int],
    marked: tuple[str, ...] = (),
    there: tuple[WorkerNode, ...] = NODES[:2],
    scheduler: str = "balance",
    limits: ScaleLimits = LIMITS,
) -> PlannedPeriod:
    """Six executors that use so many cores, each or by task, on nodes of one core by number."""
    labels = ["a[1-1]", *(f"b[{t}-{t}]" for t in range(2, 7))]
    workers = {label: f"node-{at}:6700" for label, at in zip(labels, places, strict=True)}
    used = cores if isinstance(cores, dict) else dict.fromkeys(range(1, 7), cores)
    source = observation(placed(PAIR, there, workers), {(1, 2): 10.0}, used)
    spare = tuple(n for n in NODES if n not in there)
    asked: Scheduler = make_scheduler(scheduler)
    return plan_period(
        asked, source, ScaledNodes(there, marked, spare, 1), limits, Resource.CPU, NodeAmounts()
    )


def on(planned: PlannedPeriod) -> list[int]:
    """Executors on each of the three nodes."""
    names = [e.worker.node for e in planned.proposal.plan.executors]
    return [names.count(n.name) for n in NODES]


@pytest.mark.parametrize("scheduler", ["balance", "albic", "flux", "cola", "even"])
def test_a_node_comes_and_gets_its_share(scheduler: str) -> None:
    """6 x 0.3 cores on two nodes: 90 each. Three have 60 each."""
    found = period(0.3, [1, 1, 1, 2, 2, 2], scheduler=scheduler)
    assert found.scaling.added == ("node-3",)
    assert on(found) == [2, 2, 2]
    assert [n.name for n in found.proposal.plan.nodes] == ["node-1", "node-2", "node-3"]


def test_balance_spares_a_node() -> None:
    """120 and 60 in force; 90 and 90 would be above 80 as well, but 6 x 0.25 cores become 75 and 75."""
    found = period(0.25, [1, 1, 1, 1, 2, 2])
    assert not found.scaling.changes
    assert on(found) == [3, 3, 0]
    assert found.load_distance_pct == pytest.approx((25.0, 0.0))


@pytest.mark.parametrize("scheduler", ["balance", "albic", "flux", "cola", "even"])
def test_a_node_is_marked_and_emptied_in_the_same_period(scheduler: str) -> None:
    """6 x 0.1 cores on three nodes: 20 each, and 30 on two. A balancing scheduler may move ten."""
    found = period(
        0.1, [1, 1, 2, 2, 3, 3], there=NODES, scheduler=scheduler, limits=ScaleLimits(80, 50, 2, 3)
    )
    assert found.scaling.marked == ("node-3",)
    assert found.drains
    assert on(found) == [3, 3, 0]
    assert not found.ended


def test_a_marked_node_that_is_empty_ends_and_one_that_is_not_is_emptied_further() -> None:
    limits = ScaleLimits(80, 50, 2, 3)
    empty = period(0.1, [1, 1, 1, 2, 2, 2], marked=("node-3",), there=NODES, limits=limits)
    assert empty.ended == ("node-3",)
    assert [n.name for n in empty.proposal.plan.nodes] == ["node-1", "node-2"]
    assert not empty.drains
    left = period(0.1, [1, 1, 1, 2, 2, 3], marked=("node-3",), there=NODES, limits=limits)
    assert (left.ended, left.drains, on(left)) == ((), True, [3, 3, 0])


def test_an_executor_without_load_leaves_too() -> None:
    """20 and 20 already: the program itself has no reason to move the one that adds nothing."""
    cores = {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.0, 6: 0.0}
    found = period(
        cores, [1, 1, 2, 2, 3, 3], marked=("node-3",), there=NODES, limits=ScaleLimits(80, 50, 2, 3)
    )
    assert on(found)[2] == 0
    assert found.load_distance_pct == pytest.approx((0.0, 0.0))


class Stubborn:
    """Puts everything on the node that is to leave."""

    def for_period(self, leaving: tuple[str, ...], resource: Resource, amounts: NodeAmounts) -> Stubborn:
        del resource, amounts
        self.leaving = leaving
        return self

    def propose(self, query_plan, configuration, nodes, source=None):  # type: ignore[no-untyped-def]
        from harness.protocols import Proposal  # noqa: PLC0415

        labels = {e.label: f"{self.leaving[0]}:6700" for e in source.plan.executors}
        return Proposal(placed(query_plan, nodes, labels))


def test_a_plan_that_fills_a_leaving_node_is_refused() -> None:
    labels = ["a[1-1]", *(f"b[{t}-{t}]" for t in range(2, 7))]
    workers = {label: f"node-{1 + (i > 2)}:6700" for i, label in enumerate(labels)}
    source = observation(placed(PAIR, NODES[:2], workers), {(1, 2): 1.0}, dict.fromkeys(range(1, 7), 0.1))
    nodes = ScaledNodes(NODES[:2], ("node-2",), (), 1)
    with pytest.raises(SchedulerDeclined, match=r"nonsense: a\[1-1\] comes to a node that is to leave"):
        plan_period(Stubborn(), source, nodes, LIMITS, Resource.CPU, NodeAmounts())
