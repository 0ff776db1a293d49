"""The most even allocation within a budget: local search, then the program from there, the better kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.schedulers.band_search import SearchEffort, search_allocation
from harness.schedulers.groups import GroupProblem, distance_bound
from harness.schedulers.loads import IntArray
from harness.schedulers.milp import downhill_columns, solve_milp

MOST_COLUMNS = 4000
"""Moves that a program is made of. Beyond that a search is better than what HiGHS comes to in seconds."""
MOST_NODES = 1
"""Branches of the program: the root alone, whose bounds and cuts say most."""
MOST_ITERATIONS = 40_000
"""Simplex iterations of the program."""
NEAR = 1e-3
"""Share of the mean: nearer than that to the bound, nothing is left to find."""


@dataclass(frozen=True)
class BalanceWeights:
    """Weights of the program's objective, ``w1 d - w2 (d_u + d_l)``.

    Attributes
    ----------
    w1, w2 : float
        w1 > 2 w2: raising d by one lets d_u and d_l grow by one each.
    """

    w1: float = 100.0
    w2: float = 1.0


@dataclass(frozen=True)
class Balanced:
    """An allocation with how good it is.

    Attributes
    ----------
    allocation : array of int (groups)
    load_distance : float
        Points of a node.
    bound : float
        Proved: no allocation within the budget has a smaller load distance.
    by : str
        ``search`` or ``program``: who found the allocation.
    """

    allocation: IntArray
    load_distance: float
    bound: float
    by: str


def balance_groups(
    problem: GroupProblem,
    weights: BalanceWeights | None = None,
    effort: SearchEffort | None = None,
) -> Balanced:
    """Return the most even allocation that search and program find.

    Raises
    ------
    SchedulerDeclined
        When no allocation within the budget satisfies constraint (5).

    Examples
    --------
    Four groups of loads 4, 3, 2 and 1 on the first of two nodes, and one migration:

    >>> from harness.schedulers.groups import equal_nodes
    >>> problem = equal_nodes(np.array([4.0, 3, 2, 1]), np.zeros(4, dtype=np.int64), 2, 1.0)
    >>> balance_groups(problem).load_distance
    1.0
    """
    weights = weights or BalanceWeights()
    bound = distance_bound(problem)
    allocation, by = search_allocation(problem, effort), "search"
    columns = downhill_columns(problem, MOST_COLUMNS + 1)
    close = problem.load_distance(allocation) <= bound + NEAR * problem.mean
    if not close and 0 < columns.groups.size <= MOST_COLUMNS:
        answer = solve_milp(
            problem,
            columns,
            allocation,
            w1=weights.w1,
            w2=weights.w2,
            most_nodes=MOST_NODES,
            most_iterations=MOST_ITERATIONS,
        )
        objectives = [
            problem.objective(a, weights.w1, weights.w2)
            for a in (allocation, answer.allocation)
            if a is not None
        ]
        if answer.allocation is not None and objectives[1] < objectives[0] - 1e-9 * weights.w1:
            allocation, by = answer.allocation, "program"
    problem.require_feasible(allocation)
    return Balanced(allocation, problem.load_distance(allocation), bound, by)


def empty_leaving(problem: GroupProblem, allocation: IntArray) -> IntArray:
    """Return an allocation with the groups that are left on leaving nodes moved, as far as the budget allows.

    The program drains such a node by its load alone, so a group without any would stay for ever. The heaviest
    go first, each to the node that stays with the least load.

    Examples
    --------
    A group without load is alone on the second of two nodes, which is to leave:

    >>> from dataclasses import replace
    >>> from harness.schedulers.groups import equal_nodes
    >>> problem = equal_nodes(np.array([4.0, 0]), np.array([0, 1]), 2, 1.0)
    >>> empty_leaving(replace(problem, leaving=np.array([False, True])), problem.allocation).tolist()
    [0, 0]
    """
    emptied = allocation.copy()
    left = np.flatnonzero(problem.leaving[allocation])
    budget = problem.max_migration_cost * (1 + 1e-9) - problem.migration_cost(allocation)
    for group in sorted(left, key=lambda g: (-problem.loads[g], problem.costs[g], g)):
        if problem.movable[group] and problem.costs[group] <= budget:
            loads = np.where(problem.leaving, np.inf, problem.node_loads(emptied))
            emptied[group] = int(np.argmin(loads + problem.loads[group] / problem.capacity))
            budget -= problem.costs[group]
    return emptied
