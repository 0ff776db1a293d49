"""The online scheduler of Aniello, Baldoni and Querzoni: who talks most shares a worker, then a node.

*Adaptive Online Scheduling in Storm* (DEBS 2013), slides 28 to 39; bounds and parameters from the authors'
manual and code (leonardoaniello/storm-adaptive-schedulers, ``OnlineScheduler``, ``Topology``,
``NodeManager``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from harness.errors import MeasurementsNeeded, SchedulerDeclined
from harness.plans import Frozen, PhysicalPlan, PositiveFloat, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.aniello_offline import Share, most_in_slot
from harness.schedulers.loads import (
    FloatArray,
    IntArray,
    capacities,
    last_window,
    node_cores,
    overload_notes,
    sum_of_tasks,
    task_cores,
)
from harness.schedulers.pair_packing import PairPacking
from harness.schedulers.placement import UnplacedExecutor, choose_slots, join_slots, unplaced_executors
from harness.schedulers.plan_costs import crossing_traffic_tps
from harness.schedulers.ports import choose_ports
from harness.schedulers.traffic import task_traffic


def nodes_to_use(workers: int, nodes: int, beta: float) -> int:
    """Return over how many nodes a topology is to spread.

    >>> [nodes_to_use(4, 8, beta) for beta in (0, 0.5, 1)]
    [1, 3, 4]
    """
    most = min(workers, nodes)
    least = min(ceil(workers / most), most)
    return least + ceil(beta * (most - least))


def most_on_node(workers: int, nodes: int, delta: float) -> int:
    """Return how many of a topology's slots one of the nodes in use may have.

    >>> [most_on_node(8, 4, delta) for delta in (0, 0.5, 1)]
    [2, 4, 5]
    """
    least = ceil(workers / nodes)
    return least + ceil(delta * max(workers - nodes + 1 - least, 0))


@dataclass(frozen=True)
class _Packed:
    """Executors by slot, slots by node, and what could not be kept to."""

    slot_of: IntArray
    node_of: IntArray
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PackingRules:
    """Where the published code differs from the slides.

    Attributes
    ----------
    own_count : bool
        Ackers and metrics consumers count in the limit of executors a slot.
    nodes_fill : bool
        A slot's load counts on its node.
    gives_up : bool
        A pair that no bound leaves room for ends the proposal.
    at_par : bool
        A plan with as much traffic is applied, too, and so is any that uses an overloaded node.
    """

    own_count: bool = False
    nodes_fill: bool = True
    gives_up: bool = False
    at_par: bool = False


class AnielloOnlineScheduler(Frozen):
    """Pairs of executors with most traffic share a slot, pairs of slots with most traffic share a node.

    Attributes
    ----------
    alpha : float
        Most executors a slot: from an even share (0) to all but one a slot (1).
    beta : float
        Nodes that are used: from as few as even shares allow (0) to as many as possible (1).
    gamma : float, optional
        Most load of a slot, over the mean. None: no bound.
    delta : float
        Most slots a node: from an even share (0) to all but one a node (1).
    capacity_pct : float
        Share of a node's cores, or quota, that may be used.
    improvement_pct : float
        The plan in force stays unless traffic between nodes falls by this much, or an overloaded node gets
        less.
    window_s : float, optional
        Only the observation's last seconds count. None: all of it.
    timeout_s : float
        Least time from one change of a running plan to the next: a step that adapts does not ask before. A
        single proposal does not use it.

    Notes
    -----
    The documents have defaults for alpha, beta, delta and ``timeout_s``; of the others they say
    that a user must give them. Here the defaults are those that bound nothing.

    Loads of nodes are compared by share of their capacity. A slot or node that no bound leaves room for is
    placed where the load is least, with a note. Ackers and metrics consumers are dealt to the workers in
    turn, and their traffic is not counted, as in the code. ``AnielloOnlineCodeScheduler`` has the other rules
    of the code.
    """

    rules: ClassVar[PackingRules] = PackingRules()
    alpha: Share = 0.0
    beta: Share = 1.0
    gamma: Annotated[float, Field(ge=1)] | None = None
    delta: Share = 0.0
    capacity_pct: PositiveFloat = 100.0
    improvement_pct: Annotated[float, Field(ge=0, le=100)] = 0.0
    window_s: PositiveFloat | None = None
    timeout_s: Annotated[float, Field(ge=0)] = 180.0

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place executors by the traffic and loads that the source's metrics say.

        Raises
        ------
        SchedulerDeclined
            Without a source, or where it has no traffic or no loads. As the code has it, where a pair has no
            room.
        """
        if source is None:
            raise MeasurementsNeeded("needs the measurements of a running step: give a source")
        executors = unplaced_executors(query_plan, configuration, source)
        slots, notes = choose_slots(nodes, configuration.workers)
        recent = last_window(source, self.window_s)
        mine = [e for e in executors if not e.own]
        traffic_tps = task_traffic(recent).between_executors(mine)
        tasks = task_cores(recent)
        order = tuple(sorted((n for n in nodes if n.slots), key=lambda n: n.name))
        workers = min(len(slots), len(mine))
        most = most_in_slot(len(executors if self.rules.own_count else mine), workers, self.alpha)
        packed = self._pack(traffic_tps, sum_of_tasks(tasks, mine), np.full(workers, most), order)
        groups: dict[str, list[list[UnplacedExecutor]]] = {}
        for slot, at in enumerate(packed.node_of):
            members = [e for e, own in zip(mine, packed.slot_of, strict=True) if own == slot]
            groups.setdefault(order[at].name, []).append(members)
        _deal_own([e for e in executors if e.own], [g for n in order for g in groups.get(n.name, ())])
        chosen = choose_ports(groups, nodes, source.plan)
        plan = join_slots(query_plan, nodes, executors, [chosen[e] for e in executors])
        kept = self._reason_to_keep(plan, recent, nodes, executors)
        if kept:
            running = source.plan.model_copy(update={"query_plan": query_plan, "nodes": nodes})
            return Proposal(running, (*notes, kept, *overload_notes(running, recent)))
        return Proposal(plan, notes + packed.notes + overload_notes(plan, recent))

    def _pack(
        self, traffic_tps: FloatArray, loads: FloatArray, most: IntArray, nodes: Sequence[WorkerNode]
    ) -> _Packed:
        # Phase I, slides 31 to 38
        workers = most.size
        bound = np.inf if self.gamma is None else self.gamma * loads.sum() / workers
        slots = PairPacking(traffic_tps, loads, most, np.full(workers, bound), np.ones(workers))
        slots.pack()
        slots.most_load = np.full(workers, np.inf)
        slots.spread(workers)
        # Phase II, slide 39
        one = np.eye(workers)[slots.bin_of]
        between = one.T @ traffic_tps @ one
        np.fill_diagonal(between, 0.0)
        between = np.triu(between + between.T)
        free = np.array([len(n.slots) for n in nodes])
        asked = nodes_to_use(workers, len(nodes), self.beta)
        limit = most_on_node(workers, asked, self.delta)
        notes: tuple[str, ...] = ()
        if np.minimum(free, limit).sum() < workers:
            while np.minimum(free, limit).sum() < workers:
                limit += 1
            notes += (
                f"nodes have too few free slots for delta {self.delta:g}: up to {limit} are used on one",
            )
        capacity = capacities(nodes)
        on_nodes = PairPacking(
            between,
            slots.load,
            np.minimum(free, limit),
            capacity * self.capacity_pct / 100,
            capacity,
            fills=self.rules.nodes_fill,
        )
        on_nodes.pack()
        if self.rules.gives_up and (slots.stuck or on_nodes.stuck):
            what = "slot within gamma" if slots.stuck else "node within capacity_pct"
            raise SchedulerDeclined(f"no {what} takes the next pair: the published code gives up there")
        on_nodes.spread(asked)
        if slots.exceeded:
            notes += (
                f"a worker has more than gamma {self.gamma:g} times the mean load: no other placement fits",
            )
        if on_nodes.exceeded:
            notes += (
                f"a node has more than {self.capacity_pct:g} % of its capacity: no other placement fits",
            )
        return _Packed(slots.bin_of, on_nodes.bin_of, notes)

    def _reason_to_keep(
        self,
        plan: PhysicalPlan,
        source: Observation,
        nodes: tuple[WorkerNode, ...],
        executors: Sequence[UnplacedExecutor],
    ) -> str:
        """Return why the plan in force stays; nothing where it is worse, or not possible any more."""
        now = source.plan
        free = {(n.name, p) for n in nodes for p in n.slots}
        same_executors = {e.label for e in executors} == {e.label for e in now.executors}
        same_workers = len(now.workers) == len(plan.workers)
        if not (same_executors and same_workers and all((w.node, w.port) in free for w in now.workers)):
            return ""
        tasks = task_cores(source)
        before, after = (node_cores(p, sum_of_tasks(tasks, p.executors)) for p in (now, plan))
        limits = dict(zip((n.name for n in nodes), capacities(nodes) * self.capacity_pct / 100, strict=True))
        lighter = {name for name, used in after.items() if used < before.get(name, 0.0)}
        relieved = {w.node for w in plan.workers} if self.rules.at_par else lighter
        if any(before.get(name, 0.0) > limit and name in relieved for name, limit in limits.items()):
            return ""
        current_tps, proposed_tps = (crossing_traffic_tps(p, source)[1] for p in (now, plan))
        gain_pct = 100 * (current_tps - proposed_tps) / current_tps if current_tps > 0 else 0.0
        if (gain_pct > 0 or self.rules.at_par) and gain_pct >= self.improvement_pct:
            return ""
        return f"the plan in force stays: traffic between nodes would change by {0.0 - gain_pct:+.1f} %"


class AnielloOnlineCodeScheduler(AnielloOnlineScheduler):
    """The online scheduler as its authors published it in code, where that differs from the slides.

    Ackers count in the limit of executors a slot. A node adds its own load, which is 0, in place of a slot's.
    So nodes never fill, and the least loaded is the first with room. Any overloaded node is a reason to
    change. Where no slot or node takes the next pair, there is no plan. A plan with as much traffic as the
    one in force is applied. (leonardoaniello/storm-adaptive-schedulers: ``OnlineScheduler``, ``Topology``,
    ``Node``, ``NodeManager``.)

    Notes
    -----
    The code has nodes in the order of a Java hash map of their host names; here it is that of the names. The
    code refuses its own default of gamma; here it bounds nothing. What no traffic places is left to Storm's
    ``EvenScheduler`` there, and put where the load is least here. Traffic is not rounded to whole tuples.
    """

    rules: ClassVar[PackingRules] = PackingRules(own_count=True, nodes_fill=False, gives_up=True, at_par=True)


def _deal_own(own: Sequence[UnplacedExecutor], groups: Sequence[list[UnplacedExecutor]]) -> None:
    for i, e in enumerate(own):
        groups[i % len(groups)].append(e)
