"""Where executors of a proposed configuration would run: dealt one after another to slots, as Storm does.

The one place where tuners place executors. A scheduler of ``harness.schedulers`` can take its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest

from harness.errors import ModelDeclined
from harness.plans import Executor, PhysicalPlan, TopologyConfiguration, Worker, WorkerNode

Placement = Callable[[PhysicalPlan, TopologyConfiguration], PhysicalPlan]
"""From the plan that runs and a configuration to the plan that would run."""


def deal_evenly(running: PhysicalPlan, configuration: TopologyConfiguration) -> PhysicalPlan:
    """Return the plan that Storm's default scheduler makes of a configuration.

    Task identifiers are those of the running plan. Components that the configuration leaves out, such as
    Storm's own, keep the number of their executors.

    Raises
    ------
    ModelDeclined
        When a component would have more executors than tasks, or the nodes have no slot.
    """
    slots = _slots_in_turn(running.nodes)[: configuration.workers]
    if not slots:
        raise ModelDeclined("the worker nodes have no slot")
    now = Counter(e.component for e in running.executors)
    ranges: list[tuple[str, range]] = []
    for name, count in now.items():
        tasks = sorted(t for e in running.executors if e.component == name for t in e.tasks)
        wanted = configuration.executors.get(name, count)
        if wanted > len(tasks):
            raise ModelDeclined(f"{wanted} executors of {name} are asked for, which has {len(tasks)} tasks")
        ranges += [(name, part) for part in _parts(tasks, wanted)]
    ranges.sort(key=lambda r: r[1].start)
    executors = tuple(
        Executor(component=name, first_task=part.start, last_task=part.stop - 1, worker=slots[i % len(slots)])
        for i, (name, part) in enumerate(ranges)
    )
    return PhysicalPlan(query_plan=running.query_plan, nodes=running.nodes, executors=executors)


def _slots_in_turn(nodes: Sequence[WorkerNode]) -> list[Worker]:
    """Return the slots in Storm's order: nodes take turns, those with more slots first."""
    order = sorted(nodes, key=lambda n: (-len(n.slots), n.name))
    ports = [[Worker(node=n.name, port=p) for p in sorted(n.slots)] for n in order]
    return [slot for turn in zip_longest(*ports) for slot in turn if slot is not None]


def _parts(tasks: Sequence[int], number: int) -> list[range]:
    """Share tasks among executors, the first ones having one more where they do not come out even."""
    least, more = divmod(len(tasks), number)
    parts, at = [], 0
    for k in range(number):
        size = least + (k < more)
        parts.append(range(tasks[at], tasks[at + size - 1] + 1))
        at += size
    return parts
