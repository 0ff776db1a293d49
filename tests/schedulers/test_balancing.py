"""Balancing against problems solved by hand, by trying every allocation, and by another solver."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from harness.errors import SchedulerDeclined
from harness.schedulers.balancing import balance_groups
from harness.schedulers.band_search import SearchEffort, search_allocation
from harness.schedulers.groups import GroupProblem, distance_bound, equal_nodes
from harness.schedulers.milp import MoveColumns, downhill_columns, solve_milp

W1, W2 = 100.0, 1.0
QUICK = SearchEffort(bands=8, steps=20_000, rounds=2)
NO_LIMIT = {"most_nodes": 100_000, "most_iterations": 1_000_000}


def on_the_first(budget: float, loads: tuple[float, ...] = (4, 3, 2, 1), nodes: int = 2) -> GroupProblem:
    return equal_nodes(np.array(loads, dtype=float), np.zeros(len(loads), dtype=np.int64), nodes, budget)


def all_columns(problem: GroupProblem) -> MoveColumns:
    """Every move of a group that can be paid to another node that stays."""
    elsewhere = problem.allocation[:, None] != np.arange(problem.capacity.size)[None, :]
    payable = problem.costs <= problem.max_migration_cost
    return MoveColumns(*np.nonzero(elsewhere & ~problem.leaving[None, :] & payable[:, None]))


@pytest.mark.parametrize(
    ("budget", "distance"),
    [(0, 5.0), (1, 1.0), (2, 0.0), (4, 0.0)],  # next-systems 3.1, worked by hand
)
def test_four_groups_on_one_of_two_nodes(budget: float, distance: float) -> None:
    balanced = balance_groups(on_the_first(budget))
    assert balanced.load_distance == pytest.approx(distance, abs=1e-9)
    assert balanced.bound <= distance + 1e-9


@pytest.mark.parametrize(("budget", "distance"), [(0, 5.0), (1, 1.0), (2, 0.0)])
def test_the_program_alone_solves_four_groups(budget: float, distance: float) -> None:
    problem = on_the_first(budget)
    answer = solve_milp(problem, all_columns(problem), None, w1=W1, w2=W2, **NO_LIMIT)
    assert answer.proved
    assert answer.allocation is not None
    assert problem.load_distance(answer.allocation) == pytest.approx(distance, abs=1e-6)


def test_constraint_five_makes_a_problem_infeasible() -> None:
    """Three nodes, all on the first: load 10, mean 3.33, and d would have to be 6.67."""
    problem = on_the_first(0, nodes=3)
    answer = solve_milp(problem, all_columns(problem), None, w1=W1, w2=W2, **NO_LIMIT)
    assert answer.infeasible
    with pytest.raises(SchedulerDeclined, match="constraint 5"):
        balance_groups(problem)


def test_a_mean_that_is_rounded_up_cannot_be_reached() -> None:
    """Loads 4, 3, 2 on two nodes: mean 4.5 is rounded to 5, so 5 and 4 are one away."""
    problem = on_the_first(3, (4, 3, 2))
    rounded = GroupProblem(**{**problem.__dict__, "round_mean": True})
    assert balance_groups(problem).load_distance == pytest.approx(0.5)
    assert balance_groups(rounded).load_distance == pytest.approx(1.0)


def test_a_node_that_leaves_is_emptied() -> None:
    """Mean over the two nodes that stay is 5; loads 4 + 1 and 3 + 2 leave the third empty."""
    problem = GroupProblem(
        loads=np.array([4.0, 3, 2, 1]),
        costs=np.ones(4),
        allocation=np.array([0, 1, 2, 2]),
        capacity=np.ones(3),
        leaving=np.array([False, False, True]),
        max_migration_cost=2,
    )
    balanced = balance_groups(problem)
    assert problem.node_loads(balanced.allocation).tolist() == [5, 5, 0]


def test_a_larger_node_gets_more() -> None:
    """Capacities 1 and 3, load 8: two points a unit of capacity."""
    problem = GroupProblem(
        loads=np.ones(8),
        costs=np.ones(8),
        allocation=np.zeros(8, dtype=np.int64),
        capacity=np.array([1.0, 3.0]),
        leaving=np.zeros(2, dtype=bool),
        max_migration_cost=8,
    )
    balanced = balance_groups(problem, effort=QUICK)
    assert np.bincount(balanced.allocation).tolist() == [2, 6]


@st.composite
def problems(draw: st.DrawFn, most_groups: int = 6) -> GroupProblem:
    nodes = draw(st.integers(2, 3))
    groups = draw(st.integers(2, most_groups))
    loads = draw(st.lists(st.integers(1, 30), min_size=groups, max_size=groups))
    costs = draw(st.lists(st.integers(1, 3), min_size=groups, max_size=groups))
    places = draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    capacity = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=nodes, max_size=nodes))
    leaving = np.zeros(nodes, dtype=bool)
    leaving[-1] = draw(st.booleans())
    return GroupProblem(
        loads=np.array(loads, dtype=float),
        costs=np.array(costs, dtype=float),
        allocation=np.array(places, dtype=np.int64),
        capacity=np.array(capacity),
        leaving=leaving,
        max_migration_cost=draw(st.integers(0, 8)),
    )


def allowed(problem: GroupProblem) -> list[np.ndarray]:
    """Every allocation within the budget that puts nothing new on a node that leaves."""
    found = []
    for places in product(range(problem.capacity.size), repeat=problem.loads.size):
        allocation = np.array(places)
        moved_there = problem.leaving[allocation] & (allocation != problem.allocation)
        if problem.migration_cost(allocation) <= problem.max_migration_cost and not moved_there.any():
            found.append(allocation)
    return found


@settings(max_examples=40)
@given(problem=problems())
def test_no_allocation_is_below_the_bound_and_the_program_is_the_best_of_all(problem: GroupProblem) -> None:
    every = allowed(problem)
    best = min(problem.load_distance(a) for a in every)
    assert distance_bound(problem) <= best + 1e-6
    feasible = [a for a in every if problem.load_distance(a) <= problem.mean + 1e-9]
    answer = solve_milp(problem, all_columns(problem), None, w1=W1, w2=W2, **NO_LIMIT)
    assert answer.infeasible == (not feasible)
    if feasible:
        objective = min(problem.objective(a, W1, W2) for a in feasible)
        assert answer.allocation is not None
        reached = problem.objective(answer.allocation, W1, W2)
        assert reached == pytest.approx(objective, rel=1e-3, abs=0.05)
        searched = search_allocation(problem, QUICK)
        assert best - 1e-9 <= problem.load_distance(searched) <= problem.load_distance(problem.allocation)
        assert problem.migration_cost(searched) <= problem.max_migration_cost


@settings(max_examples=15)
@given(problem=problems(most_groups=8))
def test_another_solver_on_the_program_as_printed_agrees(problem: GroupProblem) -> None:
    """scipy's milp on x_ik, d, d_u, d_l of constraints (1) to (5), written down from the paper."""
    groups, nodes = problem.loads.size, problem.capacity.size
    size = groups * nodes + 3
    x = np.arange(groups * nodes).reshape(nodes, groups)
    rows, low, high = [], [], []

    def add(terms: dict[int, float], least: float, most: float) -> None:
        row = np.zeros(size)
        for column, value in terms.items():
            row[column] += value
        rows.append(row)
        low.append(least)
        high.append(most)

    d, du, dl = size - 3, size - 2, size - 1
    for k in range(groups):
        add({int(x[i, k]): 1.0 for i in range(nodes)}, 1, 1)  # eq. 1
    elsewhere = {
        int(x[i, k]): float(problem.costs[k])
        for i in range(nodes)
        for k in range(groups)
        if problem.allocation[k] != i
    }
    add(elsewhere, 0, problem.max_migration_cost)  # eq. 2
    for i in range(nodes):
        terms = {int(x[i, k]): float(problem.loads[k] / problem.capacity[i]) for k in range(groups)}
        add({**terms, d: -1, du: 1}, -np.inf, problem.mean)  # eq. 3
        if not problem.leaving[i]:
            add({**terms, d: 1, dl: -1}, problem.mean, np.inf)  # eq. 4
    cost = np.zeros(size)
    cost[[d, du, dl]] = W1, -W2, -W2
    upper = np.concatenate([np.ones(groups * nodes), [problem.mean, np.inf, np.inf]])  # eq. 5
    for i in np.flatnonzero(problem.leaving):  # nothing new on a node that leaves
        upper[x[i][problem.allocation != i]] = 0.0
    integrality = np.concatenate([np.ones(groups * nodes), np.zeros(3)])
    printed = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), low, high),
        bounds=Bounds(np.zeros(size), upper),
        integrality=integrality,
    )
    ours = solve_milp(problem, all_columns(problem), None, w1=W1, w2=W2, **NO_LIMIT)
    assert ours.infeasible == (printed.status == 2)
    if not ours.infeasible:
        assert ours.allocation is not None
        reached = problem.objective(ours.allocation, W1, W2)
        assert reached == pytest.approx(printed.fun, rel=1e-3, abs=0.05)


def skewed(nodes: int, groups: int, budget: float, seed: int) -> GroupProblem:
    """Loads balanced in the last period (heaviest first), each times a log-normal factor of 0.25; mean 60."""
    rng = np.random.default_rng(seed)
    loads = rng.lognormal(0, 0.9, groups)
    allocation, total = np.zeros(groups, dtype=np.int64), np.zeros(nodes)
    for group in np.argsort(-loads):
        allocation[group] = int(np.argmin(total))
        total[allocation[group]] += loads[group]
    loads = loads * rng.lognormal(0, 0.25, groups)
    return equal_nodes(loads * (60 * nodes / loads.sum()), allocation, nodes, budget)


@pytest.mark.parametrize(
    ("nodes", "groups", "budget", "most"),
    # 003 claims a distance below 1 % at the first size; the limits of a median series here are lower
    [(20, 300, 20, 0.6), (20, 300, 60, 0.6), (60, 3000, 150, 0.05)],
)
def test_loads_of_the_papers_size_become_even_within_the_budget(
    nodes: int, groups: int, budget: float, most: float
) -> None:
    distances = []
    for seed in range(5):
        problem = skewed(nodes, groups, budget, seed)
        allocation = search_allocation(problem)
        assert problem.migration_cost(allocation) <= budget
        distances.append(problem.load_distance(allocation))
    assert np.median(distances) <= most


def test_the_program_improves_on_a_search_that_was_cut_short() -> None:
    problem = skewed(4, 40, 4, 1)
    poor = problem.allocation
    answer = solve_milp(problem, downhill_columns(problem, 4000), poor, w1=W1, w2=W2, **NO_LIMIT)
    assert answer.allocation is not None
    assert problem.objective(answer.allocation, W1, W2) < problem.objective(poor, W1, W2)
    assert problem.load_distance(answer.allocation) >= distance_bound(problem) - 1e-9


def test_the_same_question_has_the_same_answer() -> None:
    problem = skewed(20, 300, 10, 3)
    first, again = (search_allocation(problem, QUICK) for _ in range(2))
    assert first.tolist() == again.tolist()
