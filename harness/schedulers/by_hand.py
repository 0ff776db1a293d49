"""A placement that a person wrote: checked against the topology, and completed by Storm's own executors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from harness.errors import SchedulerDeclined
from harness.plans import PhysicalPlan, QueryPlan, TopologyConfiguration, Worker, WorkerNode
from harness.schedulers.placement import UnplacedExecutor, join_slots, number_executors


def place_by_hand(
    workers: Mapping[str, str],
    query_plan: QueryPlan,
    configuration: TopologyConfiguration,
    nodes: tuple[WorkerNode, ...],
) -> PhysicalPlan:
    """Return the physical plan that a placement by hand describes.

    Storm's own executors (ackers, metrics consumers) may be left out of the placement. They are dealt in turn
    to the workers that the placement uses, so that no worker gets two more of them than another.

    Parameters
    ----------
    workers : mapping
        The worker's label of each executor's label.
    configuration : TopologyConfiguration
        Executors of every component, Storm's own among them.

    Raises
    ------
    SchedulerDeclined
        When the placement names an executor or a worker that is not there, or leaves one of the query plan's
        executors out.

    Examples
    --------
    >>> from harness.plans import Component
    >>> topology = QueryPlan(name="q", components=(Component(name="b", role="other", tasks=3),), streams=())
    >>> node = WorkerNode(name="node-1", address="", host="h", cores=2, slots=(6700, 6701))
    >>> asked = TopologyConfiguration(executors={"__acker": 1, "b": 2}, workers=2)
    >>> by_hand = {"b[2-3]": "node-1:6701", "b[4-4]": "node-1:6700"}
    >>> [e.worker.port for e in place_by_hand(by_hand, topology, asked, (node,)).executors]
    [6700, 6701, 6700]
    """
    executors = number_executors(query_plan, configuration, {})
    slots = {worker.label: worker for n in nodes for worker in _workers(n)}
    known = {e.label for e in executors}
    for label, worker in workers.items():
        if label not in known:
            raise SchedulerDeclined(f"there is no executor {label}{_alternatives(label, executors)}")
        if worker not in slots:
            raise SchedulerDeclined(f"{label}: there is no worker {worker}; there are {', '.join(slots)}")
    left_out = [e for e in executors if e.label not in workers]
    if missing := next((e.label for e in left_out if not e.own), ""):
        raise SchedulerDeclined(f"executor {missing} has no worker")
    if not workers:
        raise SchedulerDeclined("no executor has a worker")
    used = sorted((slots[w] for w in set(workers.values())), key=lambda w: (w.node, w.port))
    chosen = {label: slots[worker] for label, worker in workers.items()}
    chosen |= dict(zip((e.label for e in left_out), cycle(used), strict=False))
    return join_slots(query_plan, nodes, executors, [chosen[e.label] for e in executors])


def _workers(node: WorkerNode) -> list[Worker]:
    return [Worker(node=node.name, port=port) for port in node.slots]


def _alternatives(label: str, executors: tuple[UnplacedExecutor, ...]) -> str:
    component = label.rpartition("[")[0]
    mine = [e.label for e in executors if e.component == component]
    return f"; {component} has {', '.join(mine)}" if mine else ""
