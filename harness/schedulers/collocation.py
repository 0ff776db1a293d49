"""ALBIC: pairs of groups that talk much are brought together one by one, while loads stay even.

Madsen, Zhou and Cao, III.B.2. Each invocation keeps what is collocated as units, splits units that are too
large, collocates one more pair, and balances the units by the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from harness.errors import SchedulerDeclined
from harness.schedulers.balancing import BalanceWeights, balance_groups
from harness.schedulers.band_search import SearchEffort
from harness.schedulers.groups import GroupProblem, SendingGroups
from harness.schedulers.loads import BoolArray, FloatArray, IntArray
from harness.schedulers.partitioning import partition_graph

SMALLER = 0.5
"""Factor on the most load of a unit where loads came out too uneven; step 4 does not say it."""


@dataclass(frozen=True)
class CollocationLimits:
    """Parameters of ALBIC.

    Attributes
    ----------
    score_factor : float
        sF: a pair counts if it has more than sF times the sender's mean traffic to a downstream group.
    max_partition_load : float
        maxPL: most load of a unit, in points.
    max_load_distance : float
        maxLD: load distance beyond which units are made smaller.
    seed : int
        Of the partitioning, and of which of several pairs with equally much traffic is taken.
    """

    score_factor: float
    max_partition_load: float
    max_load_distance: float
    seed: int = 0


@dataclass(frozen=True)
class Collocated:
    """Outcome of an invocation.

    Attributes
    ----------
    allocation : array of int (groups)
    load_distance, bound : float
        As ``Balanced``; the bound is for the units.
    pair : tuple of int, optional
        Groups newly brought together; None where no pair is left that pays, or none can be paid.
    units : int
        Units that were balanced.
    """

    allocation: IntArray
    load_distance: float
    bound: float
    pair: tuple[int, int] | None
    units: int


def scored_pairs(traffic: FloatArray, downstream: IntArray, score_factor: float) -> BoolArray:
    """Return which pairs of groups, sender by receiver, can contribute to collocation: step 1.

    Parameters
    ----------
    traffic : array (groups, groups)
        out(g_i, g_j).
    downstream : array of int (groups)
        Groups downstream of each.
    """
    mean = traffic.sum(axis=1) / np.maximum(downstream, 1)
    return np.asarray((traffic > mean[:, None] * score_factor) & (traffic > 0))


def collocation_factor(traffic: FloatArray, allocation: IntArray) -> float:
    """Return the share of the traffic that stays on a node.

    >>> collocation_factor(np.array([[0, 3.0], [1.0, 0]]), np.array([0, 1]))
    0.0
    """
    total = float(traffic.sum())
    same = allocation[:, None] == allocation[None, :]
    return float(traffic[same].sum() / total) if total > 0 else 1.0


def collocation_note(groups: SendingGroups, allocation: IntArray) -> str:
    """Return the share of traffic that stays on a node, of now beside an allocation's, in words."""
    both = (groups.problem.allocation, allocation)
    before, after = (collocation_factor(groups.traffic_tps, a) for a in both)
    return f"{before:.1%} -> {after:.1%} of traffic stays on a node"


def collocate_groups(
    problem: GroupProblem,
    traffic: FloatArray,
    downstream: IntArray,
    limits: CollocationLimits,
    weights: BalanceWeights | None = None,
    effort: SearchEffort | None = None,
) -> Collocated:
    """Run one invocation of ALBIC.

    Raises
    ------
    SchedulerDeclined
        When not even single groups can be allocated within the constraints.
    """
    scored = scored_pairs(traffic, downstream, limits.score_factor)
    together = problem.allocation[:, None] == problem.allocation[None, :]
    sets = _join_pairs(problem.loads.size, np.argwhere(scored & together))
    candidates = _ranked_pairs(traffic, scored & ~together, limits.seed)
    most = limits.max_partition_load
    best: Collocated | None = None
    while True:
        units = _split_sets(problem, traffic, sets, most, limits.seed)
        outcome = _solve_units(problem, units, candidates, weights, effort)
        if best is None or outcome.load_distance < best.load_distance:
            best = outcome
        if best.load_distance <= limits.max_load_distance or all(u.size == 1 for u in units):
            return best
        most *= SMALLER  # step 4


def _join_pairs(groups: int, pairs: NDArray[np.intp]) -> list[IntArray]:
    """Return the unions of pairs that share a group, single groups included: step 2."""
    parent = np.arange(groups)

    def root(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = int(parent[group])
        return group

    for i, j in pairs:
        parent[root(int(j))] = root(int(i))
    members: dict[int, list[int]] = {}
    for group in range(groups):
        members.setdefault(root(group), []).append(group)
    return [np.array(m, dtype=np.int64) for _, m in sorted(members.items())]


def _split_sets(
    problem: GroupProblem, traffic: FloatArray, sets: Sequence[IntArray], most_load: float, seed: int
) -> list[IntArray]:
    """Split sets until each part costs less than the budget and has less load than allowed: step 2."""
    units: list[IntArray] = []
    for members in sets:
        if members.size == 1:
            units.append(members)
            continue
        loads, costs = problem.loads[members], problem.costs[members]
        by_cost = costs.sum() / max(problem.max_migration_cost, 1e-9)
        by_load = loads.sum() / most_load
        parts = min(max(ceil(max(by_cost, by_load)), 1), members.size)
        inner = traffic[np.ix_(members, members)]
        while True:
            part = partition_graph(inner, costs if by_cost > by_load else loads, parts, seed=seed)
            cost = np.bincount(part, weights=costs, minlength=parts).max()
            load = np.bincount(part, weights=loads, minlength=parts).max()
            if (cost < problem.max_migration_cost and load < most_load) or parts == members.size:
                break
            parts = min(parts + max(parts // 8, 1), members.size)
        units += [members[part == p] for p in range(parts) if (part == p).any()]
    return units


def _ranked_pairs(traffic: FloatArray, candidates: BoolArray, seed: int) -> list[tuple[int, int]]:
    """Return pairs that are apart, those with most traffic first; equals in an order drawn: step 3."""
    pairs = np.argwhere(candidates)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(pairs)), -traffic[candidates]))
    return [(int(i), int(j)) for i, j in pairs[order[:50]]]


def _solve_units(
    problem: GroupProblem,
    units: list[IntArray],
    candidates: Sequence[tuple[int, int]],
    weights: BalanceWeights | None,
    effort: SearchEffort | None,
) -> Collocated:
    """Bring together the first pair that can be paid, and balance the units: steps 3 and 4."""
    unit_of = np.empty(problem.loads.size, dtype=np.int64)
    for number, members in enumerate(units):
        unit_of[members] = number
    node_loads = problem.node_loads(problem.allocation)
    for i, j in candidates:
        node = _meeting_node(problem, units, unit_of, node_loads, i, j)
        moved = units[unit_of[i]] if problem.allocation[i] != node else units[unit_of[j]]
        cost = float(problem.costs[moved].sum())
        if cost > problem.max_migration_cost or problem.leaving[node]:
            continue
        try:
            return _balance_units(problem, units, unit_of, (i, j, node, cost), weights, effort)
        except SchedulerDeclined:
            continue
    return _balance_units(problem, units, unit_of, None, weights, effort)


def _meeting_node(
    problem: GroupProblem, units: list[IntArray], unit_of: IntArray, node_loads: FloatArray, i: int, j: int
) -> int:
    """Return where a pair is brought together: the three cases of step 3."""
    first, second = int(problem.allocation[i]), int(problem.allocation[j])
    in_set = units[unit_of[i]].size > 1, units[unit_of[j]].size > 1
    if in_set == (True, False):  # case 2
        return first
    if in_set == (False, True):
        return second
    return first if node_loads[first] <= node_loads[second] else second  # cases 1 and 3


def _balance_units(
    problem: GroupProblem,
    units: list[IntArray],
    unit_of: IntArray,
    meeting: tuple[int, int, int, float] | None,
    weights: BalanceWeights | None,
    effort: SearchEffort | None,
) -> Collocated:
    home = np.array([problem.allocation[members[0]] for members in units], dtype=np.int64)
    loads = np.array([problem.loads[members].sum() for members in units])
    costs = np.array([problem.costs[members].sum() for members in units])
    budget = problem.max_migration_cost
    if meeting is not None:
        i, j, node, cost = meeting
        for group in (i, j):  # held on the node: no budget pays for moving it
            home[unit_of[group]] = node
            costs[unit_of[group]] = np.inf
        budget -= cost
    of_units = replace(problem, loads=loads, costs=costs, allocation=home, max_migration_cost=budget)
    balanced = balance_groups(of_units, weights, effort)
    return Collocated(
        allocation=balanced.allocation[unit_of],
        load_distance=balanced.load_distance,
        bound=balanced.bound,
        pair=None if meeting is None else (meeting[0], meeting[1]),
        units=len(units),
    )
