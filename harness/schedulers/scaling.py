"""Numbers of worker nodes: one period of the adaptation algorithm of Madsen, Zhou and Cao, scaling included.

*Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine*, III.A, algorithm 1. The paper
leaves ``Scaling(plan)`` open. Here it has two limits of a node's load by the potential plan:

- A node that stays would be above ``out_pct``: nodes come, the fewest that bring the mean to ``out_pct``.
  Marks are taken back before a node is added.
- The mean is below ``in_pct``: the node with the least load is marked for removal, if the others can be
  balanced without it so that none is above ``out_pct``. One node is marked at a time, and none while another
  is being emptied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan, WorkerNode
from harness.protocols import BalancingScheduler, NodeAmounts, Observation, Proposal, Resource, Scheduler
from harness.schedulers.balancing import balance_groups, empty_leaving
from harness.schedulers.conformance import SchedulingQuestion, sound_proposal
from harness.schedulers.executor_groups import BalanceTerms, ExecutorGroups, group_executors
from harness.schedulers.groups import GroupProblem
from harness.schedulers.loads import FloatArray, IntArray
from harness.schedulers.resource_loads import resource_capacity


class ScaleLimits(NamedTuple):
    """Limits of scaling.

    Attributes
    ----------
    out_pct : float
        A node above it is overloaded.
    in_pct : float
        Nodes with a mean below it are too many.
    least, most : int
        Numbers of nodes.
    """

    out_pct: float
    in_pct: float
    least: int
    most: int


class Scaling(NamedTuple):
    """A scaling decision.

    Attributes
    ----------
    added, unmarked, marked : tuple of str
        Nodes that come, that stay after all, and that are marked for removal.
    reason : str
    """

    added: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    reason: str = ""

    @property
    def changes(self) -> bool:
        """True where the allocation has to be planned again."""
        return bool(self.added or self.unmarked or self.marked)


def decide_scaling(
    problem: GroupProblem,
    names: Sequence[str],
    allocation: IntArray,
    spare: Mapping[str, float],
    limits: ScaleLimits,
) -> Scaling:
    """Decide on the number of nodes by a potential allocation: line 7.

    Parameters
    ----------
    problem : GroupProblem
        Nodes that are there, with those marked for removal in an earlier period.
    names : sequence of str
        Of the problem's nodes.
    allocation : array of int (groups)
        Potential: proposed, and not in force.
    spare : mapping of str to float
        Capacity of each node that may be added, in the order in which they come.

    Examples
    --------
    Four groups of 30 points on two nodes: 60 each. Below 80, so nothing comes; a node alone would have 120:

    >>> from harness.schedulers.groups import equal_nodes
    >>> here = np.array([0, 0, 1, 1])
    >>> problem = equal_nodes(np.full(4, 30.0), here, 2, 4.0)
    >>> decide_scaling(problem, ["a", "b"], here, {"c": 1.0}, ScaleLimits(80, 65, 1, 3)).reason
    'mean 60 %, below 65: without b, a would be at 120 %, above 80'
    >>> decide_scaling(problem, ["a", "b"], here, {"c": 1.0}, ScaleLimits(50, 20, 1, 3)).added
    ('c',)
    """
    loads = problem.node_loads(allocation)
    stay = np.flatnonzero(~problem.leaving)
    fullest = int(stay[np.argmax(loads[stay])])
    if loads[fullest] > limits.out_pct:
        why = f"{names[fullest]} would be at {loads[fullest]:.0f} %, above {limits.out_pct:g}"
        return _scale_out(problem, names, spare, limits, why)
    mean = float(problem.loads.sum() / problem.capacity[stay].sum())
    if mean < limits.in_pct and stay.size > limits.least and not problem.leaving.any():
        return _scale_in(problem, names, loads, limits, f"mean {mean:.0f} %, below {limits.in_pct:g}")
    return Scaling()


def _scale_out(
    problem: GroupProblem, names: Sequence[str], spare: Mapping[str, float], limits: ScaleLimits, why: str
) -> Scaling:
    marked = {names[i]: float(problem.capacity[i]) for i in np.flatnonzero(problem.leaving).tolist()}
    room = max(limits.most - len(names), 0)
    come = list({**marked, **dict(list(spare.items())[:room])}.items())
    if not come:
        return Scaling(reason=f"{why}, and there are {len(names)} nodes, the most allowed")
    capacity, number = float(problem.capacity[~problem.leaving].sum()), 0
    while number < len(come) and (not number or problem.loads.sum() > limits.out_pct * capacity):
        capacity += come[number][1]
        number += 1
    chosen = [name for name, _ in come[:number]]
    return Scaling(
        added=tuple(name for name in chosen if name not in marked),
        unmarked=tuple(name for name in chosen if name in marked),
        reason=f"{why}: {', '.join(chosen)} " + ("comes" if number == 1 else "come"),
    )


def _scale_in(
    problem: GroupProblem, names: Sequence[str], loads: FloatArray, limits: ScaleLimits, why: str
) -> Scaling:
    """Mark the first node, by the load that would have to move, that the others can be balanced without."""
    obstacle = ""
    at = range(len(names))
    for node in sorted(at, key=lambda i: (loads[i] * problem.capacity[i], -i)):
        without = replace(
            problem,
            leaving=np.arange(len(at)) == node,
            max_migration_cost=float(problem.costs.sum()),
            round_mean=False,
        )
        others = _balanced_loads(without)[~without.leaving]
        if others.max() <= limits.out_pct:
            return Scaling(marked=(names[node],), reason=f"{why}: {names[node]} is to leave")
        fullest = [n for i, n in enumerate(names) if i != node][int(np.argmax(others))]
        obstacle = obstacle or (
            f"{why}: without {names[node]}, {fullest} would be at {others.max():.0f} %,"
            f" above {limits.out_pct:g}"
        )
    return Scaling(reason=obstacle)


def _balanced_loads(problem: GroupProblem) -> FloatArray:
    """Return the loads of nodes where all groups may move, in points; infinite ones where that is in vain."""
    try:
        balanced = balance_groups(problem).allocation
    except SchedulerDeclined:  # constraint (5): one node would have more than twice the mean
        balanced = problem.allocation
    allocation = empty_leaving(problem, balanced)
    if problem.leaving[allocation].any():
        return np.full(problem.capacity.size, np.inf)
    return problem.node_loads(allocation)


@dataclass(frozen=True)
class ScaledNodes:
    """Worker nodes of a running cluster, as a period finds them.

    Attributes
    ----------
    there : tuple of WorkerNode
        All that run, those marked for removal among them.
    marked : tuple of str
    spare : tuple of WorkerNode
        Nodes that may be added, in the order in which they come.
    workers_a_node : int
        Workers that each node has.
    """

    there: tuple[WorkerNode, ...]
    marked: tuple[str, ...]
    spare: tuple[WorkerNode, ...]
    workers_a_node: int


class PlannedPeriod(NamedTuple):
    """A period's plan: a scheduler's proposal for the nodes that were decided on.

    Attributes
    ----------
    proposal : Proposal
    scaling : Scaling
    ended : tuple of str
        Nodes that were marked before, and are empty.
    load_distance_pct : tuple of float
        Of the bottleneck resource: in force, and by the proposal.
    drains : bool
        Whether executors leave a node that is marked.
    """

    proposal: Proposal
    scaling: Scaling
    ended: tuple[str, ...]
    load_distance_pct: tuple[float, float]
    drains: bool


def plan_period(
    scheduler: Scheduler,
    source: Observation,
    nodes: ScaledNodes,
    limits: ScaleLimits,
    resource: Resource,
    amounts: NodeAmounts,
) -> PlannedPeriod:
    """Carry out algorithm 1 for one period, but for ending nodes and applying the plan.

    Nodes that are marked are not offered to a scheduler that knows nothing of them. A ``BalancingScheduler``
    gets them, and the period's bottleneck.

    Parameters
    ----------
    resource : Resource
        The period's bottleneck.

    Raises
    ------
    SchedulerDeclined
        When the scheduler has no plan, or one that cannot be had, or the source has no loads.
    """
    planning = _Planning(scheduler, source, nodes.workers_a_node, resource, amounts)
    occupied = {e.worker.node for e in source.plan.executors}
    ended = tuple(name for name in nodes.marked if name not in occupied)  # lines 1 to 5
    there = tuple(n for n in nodes.there if n.name not in ended)
    marked = tuple(name for name in nodes.marked if name not in ended)
    potential = planning.ask(there, marked)  # line 6
    groups = planning.groups(there, marked)
    spare = {n.name: float(resource_capacity(resource, [n], amounts)[0]) for n in nodes.spare}
    names = [n.name for n in groups.nodes]
    scaling = decide_scaling(groups.problem, names, _allocation(groups, potential), spare, limits)  # line 7
    proposal = potential
    if scaling.changes:
        there += tuple(n for n in nodes.spare if n.name in scaling.added)  # line 8
        marked = (*(name for name in marked if name not in scaling.unmarked), *scaling.marked)
        proposal = planning.ask(there, marked)  # line 9
        groups = planning.groups(there, marked)
    problem = groups.problem
    distances = [problem.load_distance(a) for a in (problem.allocation, _allocation(groups, proposal))]
    return PlannedPeriod(
        proposal,
        scaling,
        ended,
        (distances[0], distances[1]),
        _on(proposal.plan, marked) < _on(source.plan, marked),
    )


@dataclass(frozen=True)
class _Planning:
    """Questions of one period: the same source, put for other nodes."""

    scheduler: Scheduler
    source: Observation
    workers_a_node: int
    resource: Resource
    amounts: NodeAmounts

    def ask(self, there: tuple[WorkerNode, ...], marked: tuple[str, ...]) -> Proposal:
        """Return the scheduler's plan for nodes of which some are marked: ``keyGroupAlloc()``."""
        plan, asked = self.source.plan, self.scheduler
        if isinstance(asked, BalancingScheduler):
            asked, offered = asked.for_period(marked, self.resource, self.amounts), there
        else:
            offered = tuple(n for n in there if n.name not in marked)
        used = {e.worker.node for e in plan.executors}
        in_use = [n for n in offered if n.name not in marked or n.name in used]
        workers = sum(min(self.workers_a_node, len(n.slots)) for n in in_use)
        configuration = plan.configuration().model_copy(update={"workers": max(workers, len(in_use))})
        question = SchedulingQuestion(plan.query_plan, configuration, offered, self.source)
        proposal = sound_proposal(asked, question)
        if come := sorted(_on(proposal.plan, marked) - _on(plan, marked)):
            raise SchedulerDeclined(f"it answered nonsense: {come[0]} comes to a node that is to leave")
        # the nodes that it was not offered are there all the same
        found = proposal.plan
        whole = PhysicalPlan(query_plan=found.query_plan, nodes=there, executors=found.executors)
        return replace(proposal, plan=whole)

    def groups(self, there: tuple[WorkerNode, ...], marked: tuple[str, ...]) -> ExecutorGroups:
        """Return the loads of the executors, which may all move."""
        plan = self.source.plan
        # a worker for every node: none is left out of the mean
        configuration = plan.configuration().model_copy(update={"workers": len(there)})
        terms = BalanceTerms(float(len(plan.executors)), marked, resource=self.resource, amounts=self.amounts)
        return group_executors(plan.query_plan, configuration, there, self.source, terms)


def _allocation(groups: ExecutorGroups, proposal: Proposal) -> IntArray:
    position = {n.name: i for i, n in enumerate(groups.nodes)}
    places = {e.label: position[e.worker.node] for e in proposal.plan.executors}
    return np.array([places[e.label] for e in groups.executors], dtype=np.int64)


def _on(plan: PhysicalPlan, nodes: Sequence[str]) -> set[str]:
    """Return the executors that a plan has on any of some nodes."""
    return {e.label for e in plan.executors if e.worker.node in nodes}
