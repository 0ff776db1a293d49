"""Executors as groups of a balancing problem, and an allocation to nodes as a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field

from harness.errors import MeasurementsNeeded, SchedulerDeclined
from harness.plans import Frozen, PhysicalPlan, QueryPlan, TopologyConfiguration, Worker, WorkerNode
from harness.protocols import NodeAmounts, Observation, Proposal, Resource
from harness.schedulers.groups import (
    GroupMoves,
    GroupProblem,
    SendingGroups,
    count_downstream,
    mark_leaving,
)
from harness.schedulers.loads import BoolArray, FloatArray, IntArray, overload_notes
from harness.schedulers.migration_costs import MigrationCost
from harness.schedulers.placement import UnplacedExecutor, join_slots, unplaced_executors
from harness.schedulers.resource_loads import executor_loads, resource_capacity
from harness.schedulers.traffic import task_traffic

EXECUTORS_COST_ONE = "migration_cost state: moving an executor costs 1; states are those of key groups"


@dataclass(frozen=True)
class ExecutorGroups:
    """Every executor a group, and where it is now.

    Attributes
    ----------
    executors : tuple of UnplacedExecutor
        By first task; the groups of ``problem``.
    nodes : tuple of WorkerNode
        By name, those that may have executors; the nodes of ``problem``.
    now : tuple of Worker or None
        The slot that each executor, or its first task, is in; None where that slot is gone.
    problem : GroupProblem
        Loads in hundredths of a core, capacities in cores, or in another resource's units. So a node's load
        is in percent of its cores or quota.
        A migration costs 1 for each executor.
    forced : int
        Executors that have to move since their node is gone; they are taken off the budget.
    """

    executors: tuple[UnplacedExecutor, ...]
    nodes: tuple[WorkerNode, ...]
    now: tuple[Worker | None, ...]
    problem: GroupProblem
    forced: int


@dataclass(frozen=True)
class BalanceTerms:
    """Loads that are to be balanced, and the limits of it.

    Attributes
    ----------
    max_migration_cost : float
        Executors, or key groups, that may move.
    leaving : tuple of str
        Nodes marked for removal.
    round_mean : bool
        Whether the mean is rounded up to whole points.
    resource : Resource
        Whose loads are balanced.
    amounts : NodeAmounts
        Of the resources that nodes do not say.
    migration_cost : MigrationCost
        How migrations of key groups are counted; those of executors cost 1 each.
    """

    max_migration_cost: float
    leaving: tuple[str, ...] = ()
    round_mean: bool = False
    resource: Resource = Resource.CPU
    amounts: NodeAmounts = field(default_factory=NodeAmounts)
    migration_cost: MigrationCost = MigrationCost.GROUPS


class ExecutorBalancer(Frozen, ABC):
    """Base of schedulers that move groups between worker nodes: executors, or groups of keys.

    Attributes
    ----------
    by_traffic : bool
        Whether traffic between groups matters, too: without any measured it declines.
    max_migration_cost : float
        Executors, or key groups, that may move (maxMigrCost). The paper gives no value. The default is the
        number of migrations a period that it reports of ALBIC.
    migration_cost : {"groups", "state"}
        A key group costs 1 (``groups``), or its pause over the mean one (``state``), by the size of its state
        and alpha, which the step's own moves tell.
    leaving : tuple of str
        Worker nodes marked for removal, which are emptied as far as the budget allows.
    resource : Resource
        Whose loads are evened out: cpu, heap or sent. The paper has the period's bottleneck, which takes its
        place in a step that scales its nodes.
    amounts : NodeAmounts
        ``{worker_heap_mb, link_bytes_s}``, where heap or bytes sent are evened out.
    """

    by_traffic: ClassVar[bool] = False
    max_migration_cost: Annotated[float, Field(ge=0)] = 10.0
    migration_cost: MigrationCost = MigrationCost.GROUPS
    leaving: tuple[str, ...] = ()
    resource: Resource = Resource.CPU
    amounts: NodeAmounts = NodeAmounts()

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Move executors between nodes.

        Raises
        ------
        SchedulerDeclined
            Without a source or its loads, without traffic where that matters, where no allocation satisfies
            the constraints, or where migrations are to cost by states, which executors have none of.
        """
        if self.migration_cost is MigrationCost.STATE:
            raise SchedulerDeclined(EXECUTORS_COST_ONE)
        groups = group_executors(query_plan, configuration, nodes, source, self.terms())
        assert source is not None
        size = len(groups.executors)
        traffic_tps = np.zeros((size, size))
        if self.by_traffic:
            traffic_tps = task_traffic(source).between_executors(groups.executors)
        sending = SendingGroups(
            problem=groups.problem,
            traffic_tps=traffic_tps,
            downstream=count_downstream(query_plan, [e.component for e in groups.executors]),
            labels=tuple(e.label for e in groups.executors),
        )
        allocation, said = self.move_groups(sending)
        plan, notes = plan_of_allocation(groups, query_plan, nodes, allocation, configuration.workers)
        notes += said
        for at, node in enumerate(groups.nodes):
            left = int((allocation == at).sum())
            if node.name in self.leaving and left:
                notes += (f"{node.name} is to leave and still has {left} executors",)
        return Proposal(plan, notes + overload_notes(plan, source))

    @abstractmethod
    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Return where groups should be.

        Raises
        ------
        SchedulerDeclined
            Where no allocation satisfies the constraints.
        """

    def for_period(self, leaving: tuple[str, ...], resource: Resource, amounts: NodeAmounts) -> Self:
        """Return the scheduler for a period: more nodes may leave, and loads are the bottleneck's."""
        both = tuple(dict.fromkeys((*self.leaving, *leaving)))
        return self.model_copy(update={"leaving": both, "resource": resource, "amounts": amounts})

    def terms(self) -> BalanceTerms:
        """Return its terms of balancing."""
        return BalanceTerms(
            self.max_migration_cost,
            self.leaving,
            resource=self.resource,
            amounts=self.amounts,
            migration_cost=self.migration_cost,
        )


def group_executors(
    query_plan: QueryPlan,
    configuration: TopologyConfiguration,
    nodes: tuple[WorkerNode, ...],
    source: Observation | None,
    terms: BalanceTerms,
) -> ExecutorGroups:
    """Read loads and places from a source.

    Parameters
    ----------
    terms : BalanceTerms

    Raises
    ------
    SchedulerDeclined
        Without a source or its loads, with an unknown node in ``leaving``, with fewer workers than the
        nodes in use, or where executors have to leave a node that is gone and the budget is too small for
        that.
    """
    if source is None:
        raise MeasurementsNeeded("needs the measurements of a running step: give a source")
    executors = unplaced_executors(query_plan, configuration, source)
    usable = tuple(sorted((n for n in nodes if n.slots), key=lambda n: n.name))
    if not usable:
        raise SchedulerDeclined("no slot is free")
    names = [n.name for n in usable]
    marked = mark_leaving(names, terms.leaving)
    free = {(n.name, p) for n in usable for p in n.slots}
    by_task = source.plan.by_task
    workers = [by_task[e.first_task].worker for e in executors]
    now = tuple(w if (w.node, w.port) in free else None for w in workers)
    home = np.array([names.index(w.node) if w is not None else -1 for w in now], dtype=np.int64)
    loads = executor_loads(terms.resource, source, executors)
    capacity = resource_capacity(terms.resource, usable, terms.amounts)
    used = [names[i] for i in np.unique(home[home >= 0])]
    keep = _limit_nodes(usable, marked, capacity, used, configuration.workers)
    usable = tuple(n for n, kept in zip(usable, keep, strict=True) if kept)
    home = np.where(home >= 0, (np.cumsum(keep) - 1)[home], -1)
    marked, capacity = marked[keep], capacity[keep]
    forced = np.flatnonzero(home < 0)
    if forced.size > terms.max_migration_cost:
        raise SchedulerDeclined(
            f"{forced.size} executors are on slots that are gone, and {terms.max_migration_cost:g} may move"
        )
    costs = np.ones(loads.size)
    _place_forced(forced, home, loads, capacity, marked)
    costs[forced] = 0.0
    budget = terms.max_migration_cost - forced.size
    problem = GroupProblem(loads, costs, home, capacity, marked, budget, terms.round_mean)
    return ExecutorGroups(executors, usable, now, problem, int(forced.size))


def _limit_nodes(
    nodes: tuple[WorkerNode, ...], marked: BoolArray, capacity: FloatArray, used: list[str], workers: int
) -> BoolArray:
    """Return which nodes to keep: those in use, and others while there are workers, the largest first."""
    if len(used) > workers:
        raise SchedulerDeclined(
            f"the plan in force uses {len(used)} worker nodes, and {workers} workers are asked for:"
            " executors are moved between nodes, none is given up"
        )
    others = [i for i, n in enumerate(nodes) if n.name not in used and not marked[i]]
    others.sort(key=lambda i: (-capacity[i], nodes[i].name))
    keep = {*used, *(nodes[i].name for i in others[: workers - len(used)])}
    return np.array([n.name in keep for n in nodes])


def _place_forced(
    forced: IntArray, home: IntArray, loads: FloatArray, capacity: FloatArray, marked: BoolArray
) -> None:
    """Put executors whose slot is gone on the least loaded nodes, the heaviest first."""
    placed = home >= 0
    used = np.bincount(home[placed], weights=loads[placed], minlength=capacity.size)
    for group in forced[np.argsort(-loads[forced], kind="stable")]:
        share = np.where(marked, np.inf, (used + loads[group]) / capacity)
        home[group] = int(np.argmin(share))
        used[home[group]] += loads[group]


def plan_of_allocation(
    groups: ExecutorGroups,
    query_plan: QueryPlan,
    nodes: tuple[WorkerNode, ...],
    allocation: IntArray,
    workers: int,
) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Return the plan of an allocation of executors to nodes, and a note where workers are fewer than asked.

    An executor that stays on its node stays in its worker. One that comes joins the node's worker with the
    least load, or opens one. Where workers are more than asked for, the smallest of a node with several
    joins another.
    """
    slots: list[Worker | None] = [
        w if w is not None and groups.nodes[at].name == w.node else None
        for w, at in zip(groups.now, allocation, strict=True)
    ]
    loads = groups.problem.loads
    held: dict[Worker, list[int]] = {}
    for i, slot in enumerate(slots):
        if slot is not None:
            held.setdefault(slot, []).append(i)
    for i in sorted((i for i, s in enumerate(slots) if s is None), key=lambda i: (-loads[i], i)):
        node = groups.nodes[int(allocation[i])]
        here = [w for w in held if w.node == node.name]
        target = min(here, key=lambda w: (loads[held[w]].sum(), w.port), default=None)
        target = target or Worker(node=node.name, port=min(node.slots))
        held.setdefault(target, []).append(i)
    _join_workers(held, loads, workers)
    slot_of = {i: worker for worker, members in held.items() for i in members}
    places = [slot_of[i] for i in range(len(groups.executors))]
    plan = join_slots(query_plan, nodes, groups.executors, places)
    less = len(held) < workers
    return plan, (f"{len(held)} of {workers} workers have executors",) if less else ()


def _join_workers(held: dict[Worker, list[int]], loads: FloatArray, workers: int) -> None:
    while len(held) > workers:
        several = [w for w in held if sum(o.node == w.node for o in held) > 1]
        ranked = sorted(several, key=lambda w: (loads[held[w]].sum(), w.node, w.port))
        smallest = ranked[0]
        into = next(w for w in ranked[1:] if w.node == smallest.node)
        held[into] += held.pop(smallest)
