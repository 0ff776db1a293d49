"""The offline scheduler of Aniello, Baldoni and Querzoni: executors beside those that feed them.

*Adaptive Online Scheduling in Storm* (DEBS 2013), as the slides 13 to 26 show it. It needs the topology and
the counts, no measurement. Acyclic topologies only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import Annotated

from pydantic import Field

from harness.errors import SchedulerDeclined
from harness.plans import Frozen, QueryPlan, TopologyConfiguration, Worker, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import overload_notes
from harness.schedulers.placement import (
    UnplacedExecutor,
    choose_slots,
    join_slots,
    sort_slots,
    unplaced_executors,
)

Share = Annotated[float, Field(ge=0, le=1)]


def linearise(query_plan: QueryPlan) -> tuple[str, ...]:
    """Return the components so that every stream leads forward; where several could follow, by name.

    Raises
    ------
    SchedulerDeclined
        When components form a cycle.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> parts = tuple(Component(name=n, role="other", tasks=1) for n in ("a", "b", "c"))
    >>> back = (Stream(source="c", target="a", grouping="shuffle"),)
    >>> linearise(QueryPlan(name="q", components=parts, streams=back))
    ('b', 'c', 'a')
    """
    waiting = {c.name: {s.source for s in query_plan.inputs(c.name)} for c in query_plan.components}
    order: list[str] = []
    while waiting:
        ready = sorted(name for name, sources in waiting.items() if not sources)
        if not ready:
            raise SchedulerDeclined(f"components form a cycle: {', '.join(sorted(waiting))}")
        order.append(ready[0])
        del waiting[ready[0]]
        for sources in waiting.values():
            sources.discard(ready[0])
    return tuple(order)


def most_in_slot(executors: int, workers: int, alpha: float) -> int:
    """Return how many executors a slot may hold: from an even share (alpha 0) to all but one a slot (1).

    >>> [most_in_slot(6, 3, alpha) for alpha in (0, 0.5, 1)]
    [2, 3, 4]
    """
    least = ceil(executors / workers)
    return least + ceil(alpha * max(executors - workers + 1 - least, 0))


class _Slots:
    """The topology's slots while they fill."""

    def __init__(self, number: int, most: int, carry_on: bool) -> None:
        self.members: list[list[UnplacedExecutor]] = [[] for _ in range(number)]
        self.most = most
        self.carry_on = carry_on
        self.next_secondary = 0

    def has_room(self, slot: int) -> bool:
        return len(self.members[slot]) < self.most

    def holding(self, components: set[str]) -> list[int]:
        return [i for i, held in enumerate(self.members) if any(e.component in components for e in held)]

    def deal(self, executors: Sequence[UnplacedExecutor], primary: list[int]) -> None:
        """Deal a component's executors to its primary slots in turn, to all others when those are full."""
        turn = 0
        if not self.carry_on:
            self.next_secondary = 0
        for e in executors:
            open_primary = [i for i in range(len(primary)) if self.has_room(primary[i])]
            if open_primary:
                at = min((i for i in open_primary if i >= turn), default=open_primary[0])
                turn = at + 1 if at + 1 < len(primary) else 0
                slot = primary[at]
            else:
                slot = self._secondary(primary)
            self.members[slot].append(e)

    def _secondary(self, primary: list[int]) -> int:
        number = len(self.members)
        for step in range(number):
            slot = (self.next_secondary + step) % number
            if slot not in primary and self.has_room(slot):
                self.next_secondary = (slot + 1) % number
                return slot
        raise AssertionError("slots have room for every executor")


def fill_slots(
    query_plan: QueryPlan,
    executors: Sequence[UnplacedExecutor],
    workers: int,
    most: int,
    beta: float,
    *,
    carry_on: bool,
) -> list[list[UnplacedExecutor]]:
    """Return which executors of the query plan share a slot.

    Parameters
    ----------
    most : int
        Executors that a slot may hold.
    beta : float
        Share of the components after which empty slots come first.
    carry_on : bool
        Whether the turn between secondary slots goes on from component to component.
    """
    order = linearise(query_plan)
    slots = _Slots(workers, most, carry_on)
    for index, name in enumerate(order):
        feeding = {s.source for s in query_plan.inputs(name)}
        primary = [i for i in slots.holding(feeding) if slots.has_room(i)]
        if index >= floor(beta * len(order)):
            empty = [i for i, held in enumerate(slots.members) if not held]
            primary = [*reversed(empty), *primary]
        slots.deal([e for e in executors if e.component == name], primary)
    return slots.members


def _propose(
    query_plan: QueryPlan,
    nodes: tuple[WorkerNode, ...],
    executors: Sequence[UnplacedExecutor],
    members: list[list[UnplacedExecutor]],
    slots: Sequence[Worker],
) -> tuple[Proposal, int]:
    """Put filled slots on workers, and deal Storm's own executors to the workers in use."""
    worker = {e: slots[i] for i, held in enumerate(members) for e in held}
    used = [slot for slot, held in zip(slots, members, strict=True) if held]
    own = [e for e in executors if e.own]
    worker |= {e: used[i % len(used)] for i, e in enumerate(own)}
    plan = join_slots(query_plan, nodes, executors, [worker[e] for e in executors])
    return Proposal(plan), len(slots) - len(used)


def _unused(number: int) -> tuple[str, ...]:
    return (f"{number} of the workers asked for get no executor: a lower beta uses them",) if number else ()


class AnielloOfflineScheduler(Frozen):
    """Executors go where an executor that feeds them is, while it has room; slots go to nodes in turn.

    Attributes
    ----------
    alpha : float
        Most executors a slot: from an even share of the topology's (0) to all but one a slot (1).
    beta : float
        From this share of the components on, empty slots come first.

    Notes
    -----
    The slides do not say how executors without a slot beside their feeders are dealt; their pictures show
    that the turn goes on from component to component. ``AnielloOfflineCodeScheduler`` has the authors' rule.
    Ackers and metrics consumers are not placed by the slides. Here they are dealt to the workers in use.
    """

    alpha: Share = 0.0
    beta: Share = 0.5

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place executors by the topology alone; measurements are not looked at, except for notes."""
        executors = unplaced_executors(query_plan, configuration, source)
        slots, notes = choose_slots(nodes, configuration.workers)
        mine = [e for e in executors if not e.own]
        most = most_in_slot(len(mine), len(slots), self.alpha)
        members = fill_slots(query_plan, mine, len(slots), most, self.beta, carry_on=True)
        proposal, unused = _propose(query_plan, nodes, executors, members, slots)
        notes += _unused(unused) + overload_notes(proposal.plan, source)
        return Proposal(proposal.plan, notes)


class AnielloOfflineCodeScheduler(Frozen):
    """The offline scheduler as its authors published it in code, where that differs from the slides.

    The turn between slots without feeders begins anew for each component, ackers count in the limit of
    executors a slot, and a third parameter says how many nodes are used.
    (leonardoaniello/storm-adaptive-schedulers, ``OfflineScheduler``, ``NodeHelper``.)

    Attributes
    ----------
    alpha, beta : float
        As in ``AnielloOfflineScheduler``; the code calls beta epsilon.
    spread : float
        From the fewest nodes that have enough slots (0) to as many as possible (1); the code calls it beta.

    Notes
    -----
    The code leaves executors that are not of the topology to Storm's ``EvenScheduler``, which then has no
    slot to give. Here they are dealt to the workers in use.
    """

    alpha: Share = 0.0
    beta: Share = 0.5
    spread: Share = 1.0

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place executors by the topology alone; measurements are not looked at, except for notes."""
        executors = unplaced_executors(query_plan, configuration, source)
        slots, notes = choose_slots(nodes, configuration.workers)
        slots = self._spread_slots(nodes, len(slots))
        most = most_in_slot(len(executors), len(slots), self.alpha)
        mine = [e for e in executors if not e.own]
        members = fill_slots(query_plan, mine, len(slots), most, self.beta, carry_on=False)
        proposal, unused = _propose(query_plan, nodes, executors, members, slots)
        notes += _unused(unused) + overload_notes(proposal.plan, source)
        return Proposal(proposal.plan, notes)

    def _spread_slots(self, nodes: tuple[WorkerNode, ...], workers: int) -> list[Worker]:
        """Return slots of as many nodes as asked for, those with more free slots first."""
        by_number = sorted((n for n in nodes if n.slots), key=lambda n: (-len(n.slots), n.name))
        fewest, slots = 0, 0
        while slots < workers:
            slots += len(by_number[fewest].slots)
            fewest += 1
        most = min(len(by_number), workers)
        return sort_slots(by_number[: fewest + ceil(self.spread * (most - fewest))])[:workers]
