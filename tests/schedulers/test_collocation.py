"""ALBIC's steps on groups whose sets, pairs and places are worked out by hand, and 003's claims of runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from balancing_baselines import both_choices_node_loads
from scheduling import nodes_of, observation, one_each, placed, topology

from harness.errors import SchedulerDeclined
from harness.schedulers import make_scheduler
from harness.schedulers.band_search import SearchEffort
from harness.schedulers.cola import cola_allocation
from harness.schedulers.collocation import (
    CollocationLimits,
    collocate_groups,
    collocation_factor,
    scored_pairs,
)
from harness.schedulers.flux import FluxScheduler, flux_allocation
from harness.schedulers.groups import GroupProblem, SendingGroups, equal_nodes
from harness.schedulers.partitioning import partition_graph
from harness.schedulers.plan_costs import cost_plan

QUICK = SearchEffort(bands=8, steps=20_000, rounds=1)
LIMITS = CollocationLimits(score_factor=1.5, max_partition_load=1000.0, max_load_distance=1000.0)


def pairs(size: int, weights: dict[tuple[int, int], float]) -> np.ndarray:
    traffic = np.zeros((size, size))
    for (i, j), weight in weights.items():
        traffic[i, j] = weight
    return traffic


def test_step_1_a_pair_counts_above_its_senders_mean_times_the_factor() -> None:
    """Group 0 sends 8 and 2 to two groups: the mean is 5, and only 8 is above 1.5 times that."""
    traffic = pairs(3, {(0, 1): 8.0, (0, 2): 2.0})
    scored = scored_pairs(traffic, np.array([2, 0, 0]), 1.5)
    assert np.argwhere(scored).tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("places", "weights", "expected"),
    [
        # case 1: neither is in a set; node 1 has the smaller load (group 3 is on node 0)
        ([0, 1, 1, 0], {(0, 1): 9.0}, 1),
        # case 2: group 1 is in a set with group 2 on node 0: group 0 comes to it, though node 1 has less load
        ([1, 0, 0, 0], {(0, 1): 9.0, (1, 2): 9.0}, 0),
    ],
)
def test_step_3_says_where_a_pair_meets(
    places: list[int], weights: dict[tuple[int, int], float], expected: int
) -> None:
    problem = equal_nodes(np.array([1.0, 1.0, 0.5, 2.0]), np.array(places), 2, 3.0)
    traffic = pairs(4, weights)
    outcome = collocate_groups(problem, traffic, np.array([3, 3, 3, 3]), LIMITS, effort=QUICK)
    assert outcome.pair == (0, 1)
    assert outcome.allocation[[0, 1]].tolist() == [expected, expected]


def test_step_2_what_is_together_moves_as_one() -> None:
    """Four groups in two sets on node 0: one whole set goes to the empty node."""
    problem = equal_nodes(np.ones(4), np.zeros(4, dtype=np.int64), 2, 4.0)
    traffic = pairs(4, {(0, 1): 9.0, (2, 3): 9.0})
    outcome = collocate_groups(problem, traffic, np.full(4, 3), LIMITS, effort=QUICK)
    assert outcome.units == 2
    assert outcome.pair is None
    assert outcome.load_distance == 0
    assert collocation_factor(traffic, outcome.allocation) == 1.0


def test_step_2_a_set_that_is_too_heavy_is_split_where_least_is_sent() -> None:
    """A chain of four with a weak link in the middle, all in one set; 2 of 4 points may be in a unit."""
    problem = equal_nodes(np.ones(4), np.zeros(4, dtype=np.int64), 2, 10.0)
    traffic = pairs(4, {(0, 1): 9.0, (1, 2): 2.0, (2, 3): 9.0})
    limits = replace(LIMITS, max_partition_load=2.5)
    outcome = collocate_groups(
        problem, traffic, np.ones(4, dtype=np.int64), replace(limits, score_factor=0.5), effort=QUICK
    )
    assert outcome.units == 2
    assert outcome.allocation[0] == outcome.allocation[1] != outcome.allocation[2] == outcome.allocation[3]


def test_step_4_units_become_smaller_until_loads_are_even_enough() -> None:
    """All in one set of load 4 that cannot be cut evenly as a whole: single groups balance 2 to 2."""
    problem = equal_nodes(np.ones(4), np.zeros(4, dtype=np.int64), 2, 10.0)
    traffic = pairs(4, {(0, 1): 9.0, (1, 2): 9.0, (2, 3): 9.0})
    limits = replace(LIMITS, score_factor=0.5, max_load_distance=0.1)
    outcome = collocate_groups(problem, traffic, np.ones(4, dtype=np.int64), limits, effort=QUICK)
    assert outcome.load_distance == 0.0
    assert outcome.units > 1


def one_to_one(nodes: int, per_node: int, seed: int) -> tuple[GroupProblem, np.ndarray, np.ndarray]:
    """003's second experiment in form: two operators, each group of the first feeds one of the second."""
    rng = np.random.default_rng(seed)
    half = nodes * per_node
    loads = rng.lognormal(0, 0.3, 2 * half)
    loads *= 60 * nodes / loads.sum()
    places = np.concatenate([np.arange(half) % nodes, (np.arange(half) + 1) % nodes])
    traffic = pairs(2 * half, {(k, half + k): 10.0 for k in range(half)})
    downstream = np.concatenate([np.full(half, half), np.zeros(half)]).astype(np.int64)
    return equal_nodes(loads, places, nodes, 4.0), traffic, downstream


def test_period_after_period_more_traffic_stays_on_a_node_and_loads_stay_even() -> None:
    """003: one pair a period, slowly, within the budget; COLA at once, with most groups migrated."""
    problem, traffic, downstream = one_to_one(4, 3, 1)
    cola = cola_allocation(problem, traffic)
    assert collocation_factor(traffic, cola) == 1.0
    assert problem.migration_cost(cola) > 4
    limits = replace(LIMITS, max_load_distance=5.0, max_partition_load=30.0)
    factors, now = [collocation_factor(traffic, problem.allocation)], problem
    for _ in range(12):
        outcome = collocate_groups(now, traffic, downstream, limits, effort=QUICK)
        assert now.migration_cost(outcome.allocation) <= 4
        now = replace(now, allocation=outcome.allocation)
        factors.append(collocation_factor(traffic, now.allocation))
    assert factors[0] == 0.0
    assert factors[-1] >= 0.9
    assert now.load_distance(now.allocation) <= 5.0


def test_flux_pairs_the_fullest_with_the_emptiest() -> None:
    """Loads 7, 5, 3, 1 by node. 7 and 1: the group of 4 narrows 6 to 2; 5 and 3: that of 1. 3, 4, 4, 5."""
    loads = np.array([4.0, 3, 4, 1, 3, 1])
    problem = equal_nodes(loads, np.array([0, 0, 1, 1, 2, 3]), 4, 2.0)
    assert flux_allocation(problem).tolist() == [3, 0, 1, 2, 2, 3]
    assert problem.load_distance(flux_allocation(problem)) == 1
    assert flux_allocation(replace(problem, max_migration_cost=1.0)).tolist() == [3, 0, 1, 1, 2, 3]


def test_flux_empties_each_node_that_leaves() -> None:
    """Two of three leave: the last has all, whatever is paired with what."""
    problem = equal_nodes(np.array([3.0, 2, 1, 1]), np.array([0, 0, 1, 2]), 3, 9.0)
    leaving = replace(problem, leaving=np.array([True, True, False]))
    groups = SendingGroups(leaving, np.zeros((4, 4)), np.zeros(4, dtype=np.int64), tuple("abcd"))
    assert FluxScheduler().move_groups(groups).allocation.tolist() == [2, 2, 2, 2]


def test_flux_evens_out_beside_an_empty_node_that_leaves() -> None:
    """4 and 0 stay, and the third, empty, takes no part: a move of 2 makes 2 and 2."""
    problem = equal_nodes(np.array([2.0, 2]), np.array([0, 0]), 3, 9.0)
    assert flux_allocation(replace(problem, leaving=np.array([False, False, True]))).tolist() == [1, 0]


def test_what_cannot_move_never_does() -> None:
    """Whatever budget there is: 9 of node-1's 10 are fixed."""
    problem = equal_nodes(np.array([9.0, 1]), np.array([0, 0]), 2, np.inf)
    fixed = replace(problem, costs=np.array([np.inf, 1]))
    assert flux_allocation(fixed).tolist() == [0, 1]
    with pytest.raises(SchedulerDeclined, match="what cannot move would move"):
        fixed.require_feasible(np.array([1, 0]))


def test_cola_cuts_no_more_than_helps_where_a_node_is_full_of_what_cannot_move() -> None:
    """8 fixed on node-1, mean 6: no cut makes that less, so the other four stay together on node-2."""
    problem = equal_nodes(np.array([8.0, 1, 1, 1, 1]), np.array([0, 0, 1, 0, 1]), 2, np.inf)
    fixed = replace(problem, costs=np.array([np.inf, 1, 1, 1, 1]))
    assert cola_allocation(fixed, np.zeros((5, 5))).tolist() == [0, 1, 1, 1, 1]


def test_cola_cuts_only_until_every_node_keeps_to_its_load() -> None:
    traffic = pairs(4, {(0, 1): 9.0, (1, 2): 1.0, (2, 3): 9.0})
    problem = equal_nodes(np.ones(4), np.array([0, 1, 0, 1]), 2, 0.0)
    allocation = cola_allocation(problem, traffic)
    assert allocation[0] == allocation[1] != allocation[2] == allocation[3]


def test_cola_leaves_where_they_are_groups_that_cannot_move() -> None:
    """60 on node-2 that stays there: mean 50, so all of the others, 40 in four, come to node-1."""
    problem = equal_nodes(np.array([10.0, 10, 10, 10, 60]), np.array([0, 1, 0, 1, 1]), 2, np.inf)
    fixed = replace(problem, costs=np.array([1, 1, 1, 1, np.inf]))
    allocation = cola_allocation(fixed, np.zeros((5, 5)), slack=0.2)
    assert allocation.tolist() == [0, 0, 0, 0, 1]
    fixed.require_feasible(allocation)


def test_both_choices_even_out_tuples_and_pay_for_merges() -> None:
    loads = np.full(40, 6.0)
    even = both_choices_node_loads(loads, np.zeros(40), 4)
    assert even.sum() == pytest.approx(240)
    assert np.abs(even - 60).max() < 6
    merged = both_choices_node_loads(loads, np.full(40, 2.0), 4)
    assert merged.sum() > 240
    assert np.abs(merged - merged.mean()).max() > np.abs(even - 60).max()


def test_a_partition_keeps_what_talks_together() -> None:
    """Two cliques of five with one edge between them."""
    clique = np.kron(np.eye(2), np.ones((5, 5))) * 10
    clique[0, 9] = 1.0
    part = partition_graph(clique, np.ones(10), 2)
    assert len(set(part[:5])) == len(set(part[5:])) == 1
    assert part[0] != part[9]


def test_albic_brings_the_pair_with_most_traffic_to_one_node() -> None:
    query_plan = topology((("a", "b"),), 2)
    nodes = nodes_of([2, 2])
    places = {
        "a[1-1]": "node-1:6700",
        "a[2-2]": "node-2:6700",
        "b[3-3]": "node-2:6700",
        "b[4-4]": "node-1:6700",
    }
    plan = placed(query_plan, nodes, places)
    traffic = {(1, 3): 90.0, (1, 4): 10.0, (2, 3): 10.0, (2, 4): 50.0}
    source = observation(plan, traffic, dict.fromkeys(range(1, 5), 0.2))
    asked = {"name": "albic", "max_migration_cost": 2, "max_load_distance": 30}
    proposal = make_scheduler(asked).propose(query_plan, one_each(query_plan, 2), nodes, source)
    node = {e.first_task: e.worker.node for e in proposal.plan.executors}
    assert node[1] == node[3]
    assert "brings together a[1-1] and b[3-3]" in proposal.notes[0]
    assert cost_plan(proposal.plan, source).between_nodes_tps == pytest.approx(10 + 10)
    assert cost_plan(proposal.plan, source).load_distance_pct == pytest.approx(0)
