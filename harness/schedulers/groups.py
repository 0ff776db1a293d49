"""Groups of keys, or executors, on nodes: the problem of Madsen, Zhou and Cao as a value.

*Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine*, III.B. A load is in percentage
points of a node; nodes may differ, which the paper leaves out: a group loads a node by its load over the
node's capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import QueryPlan
from harness.schedulers.loads import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class GroupProblem:
    """Groups, the nodes that they are on, and how much may be moved.

    Attributes
    ----------
    loads : array (groups)
        Percentage points of a node of capacity 1.
    costs : array (groups)
        Cost of a group's migration, e.g. alpha times the bytes of its state; 1 for each counts migrations.
        Infinite for what cannot move.
    allocation : array of int (groups)
        Node of each group now: q of the paper.
    capacity : array (nodes)
        1 for every node in the paper.
    leaving : array of bool (nodes)
        Nodes marked for removal: B of the paper.
    max_migration_cost : float
        What all migrations together may cost.
    round_mean : bool
        Whether the mean is rounded up to whole points, as the paper has it. A perfect balance is then up to
        one point away from it.
    """

    loads: FloatArray
    costs: FloatArray
    allocation: IntArray
    capacity: FloatArray
    leaving: BoolArray
    max_migration_cost: float
    round_mean: bool = False

    @property
    def mean(self) -> float:
        """Load of a node when all is even: the whole load over the capacity that stays."""
        mean = float(self.loads.sum() / self.capacity[~self.leaving].sum())
        return float(np.ceil(mean)) if self.round_mean else mean

    @property
    def movable(self) -> BoolArray:
        """True for each group that can move, at whatever cost."""
        return np.isfinite(self.costs)

    def node_loads(self, allocation: IntArray) -> FloatArray:
        """Return the load of each node, in points of that node."""
        sums = np.bincount(allocation, weights=self.loads, minlength=self.capacity.size)
        return np.asarray(sums / self.capacity)

    def migration_cost(self, allocation: IntArray) -> float:
        """Return what it costs to come to an allocation: the left side of constraint (2)."""
        return float(self.costs[allocation != self.allocation].sum())

    def deviations(self, allocation: IntArray) -> tuple[float, float]:
        """Return by how much the fullest node is above the mean, and the emptiest that stays below it."""
        loads = self.node_loads(allocation) - self.mean
        return float(loads.max()), float(-loads[~self.leaving].min())

    def load_distance(self, allocation: IntArray) -> float:
        """Return d: the largest deviation from the mean, of a node that is leaving only upwards."""
        return max(*self.deviations(allocation), 0.0)

    def distance_note(self, allocation: IntArray) -> str:
        """Return the load distance of now beside an allocation's, in words."""
        before, after = (self.load_distance(a) for a in (self.allocation, allocation))
        return f"load distance {before:.2f} -> {after:.2f} points"

    def objective(self, allocation: IntArray, w1: float, w2: float) -> float:
        """Return ``w1 d - w2 (d_u + d_l)`` with the best ``d``, ``d_u`` and ``d_l`` for an allocation."""
        above, below = self.deviations(allocation)
        distance = max(above, below, 0.0)
        return w1 * distance - w2 * ((distance - above) + (distance - below))

    def require_feasible(self, allocation: IntArray) -> None:
        """Refuse an allocation over the budget or against constraint (5), mean - d >= 0.

        Raises
        ------
        SchedulerDeclined
        """
        cost = self.migration_cost(allocation)
        if np.isinf(cost):
            raise SchedulerDeclined("what cannot move would move")
        if cost > self.max_migration_cost * (1 + 1e-9):
            raise SchedulerDeclined(f"migrations cost {cost:g}, over the {self.max_migration_cost:g} allowed")
        distance = self.load_distance(allocation)
        if distance > self.mean * (1 + 1e-9):
            raise SchedulerDeclined(
                f"no migrations of {self.max_migration_cost:g} keep every node below twice the mean load"
                f" (constraint 5): the largest deviation is {distance:.3g}, the mean {self.mean:.3g}"
            )


@dataclass(frozen=True)
class SendingGroups:
    """A problem whose groups send to each other.

    Attributes
    ----------
    problem : GroupProblem
    traffic_tps : array (groups, groups)
        Tuples a second from group (row) to group (column).
    downstream : array of int (groups)
        Groups of the components that subscribe to each group's (``count_downstream``).
    labels : tuple of str (groups)
        Names for notes.
    """

    problem: GroupProblem
    traffic_tps: FloatArray
    downstream: IntArray
    labels: tuple[str, ...]


class GroupMoves(NamedTuple):
    """A proposed allocation.

    Attributes
    ----------
    allocation : array of int (groups)
    notes : tuple of str
        Its traffic and load beside those of now, a line each.
    """

    allocation: IntArray
    notes: tuple[str, ...]


def count_downstream(query_plan: QueryPlan, components: Sequence[str]) -> IntArray:
    """Return the number of groups in the components that subscribe to each group's component.

    Parameters
    ----------
    components : sequence of str (groups)
        Component of each group; one that is not in the query plan has no subscribers.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> ends = tuple(Component(name=c, role="other", tasks=1) for c in "ab")
    >>> way = Stream(source="a", target="b", grouping="shuffle")
    >>> count_downstream(QueryPlan(name="two", components=ends, streams=(way,)), ["a", "b", "b"]).tolist()
    [2, 0, 0]
    """
    groups = Counter(components)
    targets = {c.name: {s.target for s in query_plan.outputs(c.name)} for c in query_plan.components}
    return np.array([sum(groups[t] for t in targets.get(c, ())) for c in components], dtype=np.int64)


def mark_leaving(names: Sequence[str], leaving: Sequence[str]) -> BoolArray:
    """Return which nodes are marked for removal.

    Raises
    ------
    SchedulerDeclined
        When a marked node is none of these, or all of them are marked.

    Examples
    --------
    >>> mark_leaving(["node-1", "node-2"], ["node-2"]).tolist()
    [False, True]
    """
    for name in leaving:
        if name not in names:
            raise SchedulerDeclined(f"{name} is marked for removal and is no worker node with slots")
    marked = np.array([name in leaving for name in names])
    if marked.all():
        raise SchedulerDeclined("every worker node is marked for removal")
    return marked


def equal_nodes(
    loads: FloatArray, allocation: IntArray, nodes: int, max_migration_cost: float
) -> GroupProblem:
    """Return the paper's problem: equal nodes, all of which stay, and migrations counted.

    Examples
    --------
    Four groups on the first of two nodes:

    >>> problem = equal_nodes(np.array([4.0, 3, 2, 1]), np.zeros(4, dtype=np.int64), 2, 1.0)
    >>> problem.mean, problem.load_distance(problem.allocation)
    (5.0, 5.0)
    >>> problem.load_distance(np.array([1, 0, 0, 0]))
    1.0
    """
    return GroupProblem(
        loads=loads,
        costs=np.ones(loads.size),
        allocation=allocation,
        capacity=np.ones(nodes),
        leaving=np.zeros(nodes, dtype=bool),
        max_migration_cost=max_migration_cost,
    )


def distance_bound(problem: GroupProblem) -> float:
    """Return a proved lower bound of the load distance within the budget.

    For a distance d, each node above ``mean + d`` must send away at least its excess. Each node that stays
    and is below ``mean - d`` must get at least the load that the node lacks. The cheapest way to do both is
    a bound of the cost; d is found by bisection. Groups may be cut in that bound, but where all groups cost
    alike, whole numbers of groups are counted.
    """
    loads = problem.node_loads(problem.allocation)
    low, high = 0.0, problem.load_distance(problem.allocation)
    if _least_cost(problem, loads, low) <= problem.max_migration_cost * (1 + 1e-9):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if _least_cost(problem, loads, middle) <= problem.max_migration_cost * (1 + 1e-9):
            high = middle
        else:
            low = middle
    return low


def _least_cost(problem: GroupProblem, node_loads: FloatArray, distance: float) -> float:
    """Return what migrations cost at least that bring every node within a distance."""
    slack = 1e-12 * max(problem.mean, 1.0)
    alike = bool(np.ptp(problem.costs) == 0)
    excess = (node_loads - problem.mean - distance) * problem.capacity
    lack = np.where(problem.leaving, 0.0, (problem.mean - distance - node_loads) * problem.capacity)
    sent = 0.0
    for node in np.flatnonzero(excess > slack):
        mine = problem.allocation == node
        sent += _cheapest_cover(problem.loads[mine], problem.costs[mine], float(excess[node]), alike)
    got = 0.0
    for node in np.flatnonzero(lack > slack):
        others = problem.allocation != node
        got += _cheapest_cover(problem.loads[others], problem.costs[others], float(lack[node]), alike)
    return max(sent, got)


def _cheapest_cover(loads: FloatArray, costs: FloatArray, amount: float, alike: bool) -> float:
    """Return the least cost of groups that weigh an amount together, the last of them cut if costs differ."""
    free = costs <= 0
    amount -= float(loads[free].sum())
    loads, costs = loads[~free], costs[~free]
    order = np.argsort(-loads / costs, kind="stable")
    weight, cost = np.cumsum(loads[order]), np.cumsum(costs[order])
    if amount <= 0:
        return 0.0
    at = int(np.searchsorted(weight, amount * (1 - 1e-12)))
    if at >= weight.size:
        return float("inf")
    if alike:
        return float(cost[at])
    before = float(weight[at - 1]) if at else 0.0
    return float((cost[at - 1] if at else 0.0) + costs[order[at]] * (amount - before) / loads[order[at]])
