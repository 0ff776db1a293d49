"""Every placement of a small plan, by number: for an experiment that measures each of them.

Free slots of a node are alike: which of them is used makes no other placement. Nodes are never alike, since a
quota, a link or a neighbour may tell them apart. Storm's own executors are with the first spout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from pydantic import Field

from harness.errors import SchedulerDeclined
from harness.plans import Frozen, QueryPlan, TopologyConfiguration, Worker, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import overload_notes
from harness.schedulers.placement import choose_slots, join_slots, unplaced_executors

MOST_NUMBERED = 10_000
"""Nobody measures more placements than this one by one."""


def different_placements(executors: int, slots: Sequence[Worker]) -> Iterator[tuple[Worker, ...]]:
    """Yield each way to place executors on slots, those that differ by like slots once.

    An executor joins a slot in use, or takes the first unused slot of a node: another unused one is like it.
    By Burnside's lemma they are as many as the placements that an exchange of a node's slots leaves as they
    are, in the mean over all such exchanges.

    Returns
    -------
    iterator of tuple of Worker
        The slot of each executor. Slots that come first are used first.

    Examples
    --------
    Four executors, two slots on one node and one on another. There are two exchanges. The one that changes
    nothing leaves all 3 ** 4 placements as they are, the other only that with the second node alone.

    >>> slots = [Worker(node="a", port=1), Worker(node="a", port=2), Worker(node="b", port=1)]
    >>> sum(1 for _ in different_placements(4, slots)), (3**4 + 1) // 2
    (41, 41)
    """
    begun: list[tuple[Worker, ...]] = [()]
    while begun:
        placed = begun.pop()
        if len(placed) == executors:
            yield placed
        else:
            begun += [(*placed, slot) for slot in reversed(_different(placed, slots))]


def _different(placed: Sequence[Worker], slots: Sequence[Worker]) -> list[Worker]:
    """Return the slots of which no two are alike where some executors are placed."""
    used = set(placed)
    first_unused: dict[str, Worker] = {}
    for slot in slots:
        if slot not in used:
            first_unused.setdefault(slot.node, slot)
    return [slot for slot in slots if slot in used or slot == first_unused.get(slot.node)]


class NumberedScheduler(Frozen):
    """The placement of a number among all on the slots that Storm would give out, however many it uses.

    Attributes
    ----------
    number : int
        From 0.
    """

    number: Annotated[int, Field(ge=0, lt=MOST_NUMBERED)]

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place the query plan's executors by number, and Storm's own beside the first spout.

        Raises
        ------
        SchedulerDeclined
            When there are fewer placements.
        """
        executors = unplaced_executors(query_plan, configuration, source)
        slots, notes = choose_slots(nodes, configuration.workers)
        numbered = [e for e in executors if not e.own]
        every = different_placements(len(numbered), slots)
        placed = next(islice(every, self.number, None), None)
        if placed is None:
            found = sum(1 for _ in different_placements(len(numbered), slots))
            raise SchedulerDeclined(f"placements have numbers from 0 to {found - 1}, not {self.number}")
        at = dict(zip(numbered, placed, strict=True))
        beside = min(numbered, key=lambda e: (e.component not in query_plan.spouts, e.first_task))
        plan = join_slots(query_plan, nodes, executors, [at.get(e, at[beside]) for e in executors])
        return Proposal(plan, (*notes, f"placement {self.number}", *overload_notes(plan, source)))
