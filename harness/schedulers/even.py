"""Storm's own scheduler: executors dealt one after another to slots that take turns between the nodes.

``DefaultScheduler`` and ``EvenScheduler`` of Storm 2.8.3, as they place a topology that has no assignment:
when it is submitted, and in the pass of a rebalance. Ackers and metrics consumers are executors like others.
"""

from __future__ import annotations

from harness.plans import Frozen, PhysicalPlan, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import overload_notes
from harness.schedulers.placement import (
    UnplacedExecutor,
    choose_slots,
    join_slots,
    unplaced_executors,
)


def deal_evenly(
    query_plan: QueryPlan,
    nodes: tuple[WorkerNode, ...],
    executors: tuple[UnplacedExecutor, ...],
    workers: int,
) -> tuple[PhysicalPlan, tuple[str, ...]]:
    """Deal executors, by first task, to the first free slots in turn; return the plan and notes."""
    slots, notes = choose_slots(nodes, workers)
    places = [slots[i % len(slots)] for i in range(len(executors))]
    return join_slots(query_plan, nodes, executors, places), notes


class EvenScheduler(Frozen):
    """Storm's default: equally many executors in every worker, equally many workers on every node.

    Examples
    --------
    >>> from harness.plans import Component
    >>> topology = QueryPlan(name="q", components=(Component(name="b", role="other", tasks=3),), streams=())
    >>> nodes = tuple(
    ...     WorkerNode(name=n, address="", host=n, cores=2, slots=(6700, 6701)) for n in ("node-1", "node-2")
    ... )
    >>> asked = TopologyConfiguration(executors={"b": 3}, workers=2)
    >>> [e.worker.label for e in EvenScheduler().propose(topology, asked, nodes).plan.executors]
    ['node-1:6700', 'node-2:6700', 'node-1:6700']
    """

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place executors as Storm 2.8.3 would; measurements are not looked at, except for notes."""
        executors = unplaced_executors(query_plan, configuration, source)
        plan, notes = deal_evenly(query_plan, nodes, executors, configuration.workers)
        return Proposal(plan, notes + overload_notes(plan, source))
