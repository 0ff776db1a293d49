"""Flux: the fullest node sends its largest fitting group to the emptiest, and so on in pairs.

Shah and others, *Flux: An Adaptive Partitioning Operator for Continuous Query Systems*, ICDE 2003, as Madsen,
Zhou and Cao compare their program with it. It has no public code: the rule is the one that they cite it for.
"""

from __future__ import annotations

import numpy as np

from harness.schedulers.balancing import empty_leaving
from harness.schedulers.executor_groups import ExecutorBalancer
from harness.schedulers.groups import GroupMoves, GroupProblem, SendingGroups
from harness.schedulers.loads import IntArray


class FluxScheduler(ExecutorBalancer):
    """Groups move from full nodes to empty ones, one for each pair of nodes and round.

    Notes
    -----
    Traffic is not looked at.
    """

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Move groups until the budget is spent or no pair of nodes gets closer."""
        problem = groups.problem
        allocation = empty_leaving(problem, flux_allocation(problem))
        return GroupMoves(allocation, (problem.distance_note(allocation),))


def flux_allocation(problem: GroupProblem) -> IntArray:
    """Return Flux's allocation: nodes are paired by load, and the largest group that narrows a pair moves.

    In each round the i-th most loaded node is paired with the i-th least loaded; rounds go on until the
    budget is spent or no pair gets closer. Nodes that leave send groups and get none.

    Examples
    --------
    >>> from harness.schedulers.groups import equal_nodes
    >>> problem = equal_nodes(np.array([4.0, 3, 2, 1]), np.zeros(4, dtype=np.int64), 2, 1.0)
    >>> flux_allocation(problem).tolist()
    [1, 0, 0, 0]
    """
    allocation = problem.allocation.copy()
    left = problem.max_migration_cost * (1 + 1e-9)
    while True:
        loads = np.where(problem.leaving, np.inf, problem.node_loads(allocation))
        order = np.argsort(-loads, kind="stable")
        occupied = np.bincount(allocation, minlength=loads.size) > 0
        order = order[occupied[order] | ~problem.leaving[order]]
        moved = False
        for rank in range(order.size // 2):
            group = _narrowing_group(problem, allocation, int(order[rank]), int(order[-1 - rank]), left)
            if group < 0:
                continue
            left -= problem.costs[group]
            allocation[group] = order[-1 - rank]
            moved = True
        if not moved:
            return allocation


def _narrowing_group(
    problem: GroupProblem, allocation: IntArray, source: int, target: int, left: float
) -> int:
    """Return the largest group whose move brings two nodes closer; -1 where none does or can be paid."""
    if problem.leaving[target]:
        return -1
    loads = problem.node_loads(allocation)
    at_home = (allocation == source) & (problem.allocation == source)
    mine = np.flatnonzero(at_home & problem.movable & (problem.costs <= left))
    if not mine.size:
        return -1
    size = problem.loads[mine]
    before = loads[source] - loads[target]
    after = before - size / problem.capacity[source] - size / problem.capacity[target]
    narrower = np.ones(mine.size, dtype=bool) if problem.leaving[source] else np.abs(after) < before - 1e-9
    if not narrower.any():
        return -1
    return int(mine[narrower][np.argmax(size[narrower])])
