"""Which port of a node each group of executors gets, so that as many workers as possible keep running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.plans import PhysicalPlan, Worker, WorkerNode
from harness.schedulers.placement import UnplacedExecutor
from harness.schedulers.plan_costs import executor_sets


def choose_ports(
    groups: Mapping[str, Sequence[Sequence[UnplacedExecutor]]],
    nodes: tuple[WorkerNode, ...],
    running: PhysicalPlan | None,
) -> dict[UnplacedExecutor, Worker]:
    """Return the slot of each executor.

    A group that runs on its node already keeps its port. Of the others, each port goes to the group that
    has most executors of the worker that is there now, and then by number.

    Parameters
    ----------
    groups : mapping of node's name to sequence of groups
        Executors that share a worker process; no more groups than the node has free slots.
    """
    now = executor_sets(running) if running is not None else {}
    chosen: dict[UnplacedExecutor, Worker] = {}
    for node in nodes:
        mine = list(groups.get(node.name, ()))
        slots = [Worker(node=node.name, port=p) for p in sorted(node.slots)]
        labels = [{e.label for e in group} for group in mine]
        ranked = sorted(
            (
                (labels[g] != now.get(slot, frozenset()), -len(labels[g] & now.get(slot, frozenset())), s, g)
                for g in range(len(mine))
                for s, slot in enumerate(slots)
            ),
        )
        taken: dict[int, int] = {}
        for _, _, s, g in ranked:
            if g not in taken and s not in taken.values():
                taken[g] = s
        for g, group in enumerate(mine):
            chosen |= dict.fromkeys(group, slots[taken[g]])
    return chosen
