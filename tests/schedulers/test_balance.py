"""The balancing scheduler on plans of a few executors whose best places are worked out by hand."""

from __future__ import annotations

import pytest
from scheduling import nodes_of, observation, one_each, placed, topology

from harness.errors import SchedulerDeclined, UsageError
from harness.plans import PhysicalPlan
from harness.protocols import Observation
from harness.schedulers import make_scheduler
from harness.schedulers.plan_costs import cost_plan

TOPOLOGY = topology((("a", "b"),), {"a": 1, "b": 4})
NODES = nodes_of([2, 2, 2], cores=[1, 1, 1])
CONFIGURATION = one_each(TOPOLOGY, 4)


def source(places: dict[int, str], cores: dict[int, float], nodes=NODES) -> Observation:  # type: ignore[no-untyped-def]
    labels = {t: f"{'a' if t == 1 else 'b'}[{t}-{t}]" for t in places}
    plan = placed(TOPOLOGY, nodes, {labels[t]: w for t, w in places.items()})
    return observation(plan, {(1, t): 10.0 for t in range(2, 6)}, cores)


def where(plan: PhysicalPlan) -> dict[int, str]:
    return {e.first_task: e.worker.node for e in plan.executors}


LOPSIDED = source(
    {1: "node-1:6700", 2: "node-1:6700", 3: "node-1:6701", 4: "node-2:6700", 5: "node-3:6700"},
    {1: 0.2, 2: 0.2, 3: 0.2, 4: 0.1, 5: 0.2},
)
"""Loads 60, 10 and 20 % of a core; mean 30."""


def test_one_migration_goes_where_it_helps_most() -> None:
    """60, 10, 20 becomes 40, 30, 20: distance 10, and no other single move is better."""
    asked = {"name": "balance", "max_migration_cost": 1}
    proposal = make_scheduler(asked).propose(TOPOLOGY, CONFIGURATION, NODES, LOPSIDED)
    costs = cost_plan(proposal.plan, LOPSIDED)
    assert costs.load_distance_pct == pytest.approx(10.0)
    assert costs.executors_moved == 1
    assert "load distance 30.00 -> 10.00 points" in proposal.notes[-1]


def test_a_quota_is_a_capacity() -> None:
    """node-3 may use 0.1 of 2.1 cores: its share of the load is 0.043, so the executor there leaves."""
    nodes = (*NODES[:2], NODES[2].model_copy(update={"cpu_quota_cores": 0.1}))
    proposal = make_scheduler("balance").propose(TOPOLOGY, CONFIGURATION, nodes, LOPSIDED)
    assert "node-3" not in where(proposal.plan).values()
    assert proposal.notes[0].endswith("of 4 workers have executors")


def test_a_node_marked_for_removal_is_emptied_or_said_to_be_left() -> None:
    asked = {"name": "balance", "leaving": ["node-1"]}
    proposal = make_scheduler(asked).propose(TOPOLOGY, CONFIGURATION, NODES, LOPSIDED)
    assert "node-1" not in where(proposal.plan).values()
    # Mean 45 over two nodes, 60 to move by at most two executors of 20: node-1 keeps one.
    asked |= {"max_migration_cost": 2}
    proposal = make_scheduler(asked).propose(TOPOLOGY, CONFIGURATION, NODES, LOPSIDED)
    assert list(where(proposal.plan).values()).count("node-1") == 1
    assert any("node-1 is to leave and still has 1 executors" in note for note in proposal.notes)


def test_executors_of_a_node_that_is_gone_move_first() -> None:
    left = NODES[1:]
    configuration = one_each(TOPOLOGY, 2)
    proposal = make_scheduler("balance").propose(TOPOLOGY, configuration, left, LOPSIDED)
    assert set(where(proposal.plan).values()) == {"node-2", "node-3"}


@pytest.mark.parametrize("name", ["balance", "albic", "flux", "cola"])
@pytest.mark.parametrize("budget", [0, 2])
def test_a_killed_node_with_more_executors_than_may_move_is_infeasible(name: str, budget: int) -> None:
    asked = {"name": name, "max_migration_cost": budget}
    words = f"3 executors are on slots that are gone, and {budget} may move"
    with pytest.raises(SchedulerDeclined, match=words):
        make_scheduler(asked).propose(TOPOLOGY, one_each(TOPOLOGY, 2), NODES[1:], LOPSIDED)


def test_no_budget_and_a_node_over_twice_the_mean_is_infeasible() -> None:
    lopsided = source(dict.fromkeys(range(1, 6), "node-1:6700"), dict.fromkeys(range(1, 6), 0.1))
    asked = {"name": "balance", "max_migration_cost": 0}
    with pytest.raises(
        SchedulerDeclined, match=r"constraint 5\): the largest deviation is 33.3, the mean 16.7"
    ):
        make_scheduler(asked).propose(TOPOLOGY, CONFIGURATION, NODES, lopsided)


def test_fewer_workers_than_nodes_in_use_is_declined() -> None:
    with pytest.raises(SchedulerDeclined, match="uses 3 worker nodes, and 2 workers are asked for"):
        make_scheduler("balance").propose(TOPOLOGY, one_each(TOPOLOGY, 2), NODES, LOPSIDED)


def test_weights_that_leave_no_minimum_are_refused() -> None:
    with pytest.raises(UsageError, match="w1 2 must be more than twice w2 1"):
        make_scheduler({"name": "balance", "w1": 2, "w2": 1})
