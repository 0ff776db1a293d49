"""Baselines that 003 compares its program with: Flux, COLA, and the power of both choices.

Flux (Shah and others, ICDE 2003), COLA (Khandekar and others, Middleware 2009) and PoTC (Nasir and others,
ICDE 2015). Neither Flux nor COLA has public code; the rules below are those that the papers are cited for,
and where 003 says more about the baselines, its words.
"""

from __future__ import annotations

import numpy as np

from harness.schedulers.groups import GroupProblem
from harness.schedulers.loads import FloatArray, IntArray
from harness.schedulers.partitioning import partition_graph


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
    mine = np.flatnonzero(at_home & (problem.costs <= left))
    if not mine.size:
        return -1
    size = problem.loads[mine]
    before = loads[source] - loads[target]
    after = before - size / problem.capacity[source] - size / problem.capacity[target]
    narrower = np.ones(mine.size, dtype=bool) if problem.leaving[source] else np.abs(after) < before - 1e-9
    if not narrower.any():
        return -1
    return int(mine[narrower][np.argmax(size[narrower])])


def cola_allocation(
    problem: GroupProblem, traffic: FloatArray, *, slack: float = 0.05, seed: int = 0
) -> IntArray:
    """Return COLA's allocation: from scratch, the fewest cuts that let every node keep to its load.

    All groups begin as one unit. Units are put on nodes, the largest first, each on the node with most room.
    While they do not fit, the unit with the most load is cut in two by a balanced partition with little
    traffic between the halves. The cost of migration is not looked at.

    Parameters
    ----------
    traffic : array (groups, groups)
    slack : float
        By how much a node may be above the mean, relative.
    """
    units = [np.arange(problem.loads.size, dtype=np.int64)]
    stay = np.flatnonzero(~problem.leaving)
    limit = problem.mean * (1 + slack)
    while True:
        allocation = _pack_units(problem, units, stay)
        over = problem.node_loads(allocation)[stay].max() > limit
        several = [u for u, members in enumerate(units) if members.size > 1]
        if not over or not several:
            return allocation
        members = units.pop(max(several, key=lambda u: _load(problem, units[u])))
        part = partition_graph(traffic[np.ix_(members, members)], problem.loads[members], 2, seed=seed)
        halves = [members[part == 0], members[part == 1]]
        if not all(h.size for h in halves):
            halves = [members[:1], members[1:]]
        units += halves


def _load(problem: GroupProblem, members: IntArray) -> float:
    return float(problem.loads[members].sum())


def _pack_units(problem: GroupProblem, units: list[IntArray], stay: IntArray) -> IntArray:
    allocation = np.empty(problem.loads.size, dtype=np.int64)
    used = np.zeros(problem.capacity.size)
    for members in sorted(units, key=lambda m: (-_load(problem, m), int(m[0]))):
        share = (used[stay] + _load(problem, members)) / problem.capacity[stay]
        node = int(stay[np.argmin(share)])
        allocation[members] = node
        used[node] += _load(problem, members)
    return allocation


def both_choices_node_loads(
    loads: FloatArray, merge_loads: FloatArray, nodes: int, *, quanta: int = 20, seed: int = 0
) -> FloatArray:
    """Return node loads under the power of both choices, in points: a cost model, since nothing migrates.

    Each key group has two nodes, drawn once. Its tuples go to the less loaded of both as they come: here in
    ``quanta`` equal portions, groups taking turns. A group that both nodes have got tuples of must be
    merged, which loads its first node.

    Parameters
    ----------
    loads : array (groups)
    merge_loads : array (groups)
        Load of merging a group's two states.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(nodes, size=loads.size)
    second = (first + rng.integers(1, max(nodes, 2), size=loads.size)) % nodes
    used = np.zeros(nodes)
    got = np.zeros((loads.size, 2), dtype=bool)
    for _ in range(quanta):
        for group in range(loads.size):
            a, b = int(first[group]), int(second[group])
            one = used[a] <= used[b]
            used[a if one else b] += loads[group] / quanta
            got[group, 0 if one else 1] = True
    merged = got.all(axis=1)
    np.add.at(used, first[merged], merge_loads[merged])
    return used
