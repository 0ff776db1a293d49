"""COLA: all groups anew, in as few parts as keep every node to its load.

Khandekar and others, *COLA: Optimizing Stream Processing Applications via Graph Partitioning*, Middleware
2009, as Madsen, Zhou and Cao compare ALBIC with it. It has no public code: the rule is the one that they cite
it for.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from harness.schedulers.collocation import collocation_note
from harness.schedulers.executor_groups import ExecutorBalancer
from harness.schedulers.groups import GroupMoves, GroupProblem, SendingGroups
from harness.schedulers.loads import FloatArray, IntArray
from harness.schedulers.partitioning import partition_graph


class ColaScheduler(ExecutorBalancer):
    """Groups are placed from scratch, with little traffic between nodes; what that moves is not looked at.

    Attributes
    ----------
    max_migration_cost : float
        None is set. Where one is, an allocation that costs more is declined.
    slack : float
        By how much a node may be above the mean load, relative. The paper's value is not known.
    seed : int
    """

    by_traffic: ClassVar[bool] = True
    max_migration_cost: Annotated[float, Field(ge=0)] = float("inf")
    slack: Annotated[float, Field(ge=0)] = 0.05
    seed: int = 0

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Place all groups that can move anew."""
        problem = groups.problem
        allocation = cola_allocation(problem, groups.traffic_tps, slack=self.slack, seed=self.seed)
        problem.require_feasible(allocation)
        return GroupMoves(
            allocation, (collocation_note(groups, allocation), problem.distance_note(allocation))
        )


def cola_allocation(
    problem: GroupProblem, traffic: FloatArray, *, slack: float = 0.05, seed: int = 0
) -> IntArray:
    """Return COLA's allocation: from scratch, the fewest cuts that let every node keep to its load.

    All groups that can move begin as one unit. Units are put on nodes, the largest first, each on the node
    with most room. While they do not fit, the unit with the most load is cut in two by a balanced partition
    with little traffic between the halves. The cost of migration is not looked at.

    Parameters
    ----------
    problem : GroupProblem
    traffic : array (groups, groups)
        Tuples a second from group (row) to group (column).
    slack : float
        By how much a node may be above the mean, relative.
    seed : int
        Of the partitions.

    Returns
    -------
    array of int (groups)
        A node for each. A node on which what cannot move is above the limit by itself gets no more.
    """
    units = [np.flatnonzero(problem.movable)]
    stay = np.flatnonzero(~problem.leaving)
    fixed = _fixed_loads(problem)
    limit = np.maximum(problem.mean * (1 + slack), fixed[stay] / problem.capacity[stay])
    while True:
        allocation = _pack_units(problem, units, stay, fixed)
        over = (problem.node_loads(allocation)[stay] > limit * (1 + 1e-12)).any()
        several = [u for u, members in enumerate(units) if members.size > 1]
        if not over or not several:
            return allocation
        members = units.pop(max(several, key=lambda u: _load(problem, units[u])))
        part = partition_graph(traffic[np.ix_(members, members)], problem.loads[members], 2, seed=seed)
        halves = [members[part == 0], members[part == 1]]
        if not all(h.size for h in halves):
            halves = [members[:1], members[1:]]
        units += halves


def _fixed_loads(problem: GroupProblem) -> FloatArray:
    """Return the load of what cannot move, by node."""
    fixed = ~problem.movable
    at = problem.allocation[fixed]
    sums = np.bincount(at, weights=problem.loads[fixed], minlength=problem.capacity.size)
    return np.asarray(sums, dtype=np.float64)


def _load(problem: GroupProblem, members: IntArray) -> float:
    return float(problem.loads[members].sum())


def _pack_units(problem: GroupProblem, units: list[IntArray], stay: IntArray, fixed: FloatArray) -> IntArray:
    """Return where units come to beside what cannot move."""
    allocation, used = problem.allocation.copy(), fixed.copy()
    for members in sorted(units, key=lambda m: (-_load(problem, m), int(m[0]) if m.size else 0)):
        share = (used[stay] + _load(problem, members)) / problem.capacity[stay]
        node = int(stay[np.argmin(share)])
        allocation[members] = node
        used[node] += _load(problem, members)
    return allocation
