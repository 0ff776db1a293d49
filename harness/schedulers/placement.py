"""Executors that wait for a slot, the slots that are free, and the plan that joins them.

Storm numbers tasks by component in the order of the names, its own components first. An executor holds tasks
that follow one another, the first executors of a component one more where they do not come out even
(``Nimbus.computeExecutors``, ``Utils.partitionFixed``). No scheduler can choose other ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from harness.errors import SchedulerDeclined
from harness.plans import Executor, PhysicalPlan, QueryPlan, TopologyConfiguration, Worker, WorkerNode
from harness.protocols import Observation

OWN_PREFIX = "__"
"""Names of Storm's own components begin with it."""


class UnplacedExecutor(NamedTuple):
    """An executor that has no slot yet."""

    component: str
    first_task: int
    last_task: int

    @property
    def label(self) -> str:
        """The executor's label in a plan, e.g. ``bolt-a[3-4]``."""
        return f"{self.component}[{self.first_task}-{self.last_task}]"

    @property
    def own(self) -> bool:
        """True if the executor is Storm's own: an acker or a metrics consumer."""
        return self.component.startswith(OWN_PREFIX)

    def on(self, worker: Worker) -> Executor:
        """Return the executor in a slot."""
        return Executor(
            component=self.component, first_task=self.first_task, last_task=self.last_task, worker=worker
        )


def divide_tasks(component: str, tasks: Sequence[int], executors: int) -> list[UnplacedExecutor]:
    """Share a component's tasks among its executors, at most one executor a task.

    Examples
    --------
    >>> [e.label for e in divide_tasks("b", [4, 5, 6, 7, 8], 2)]
    ['b[4-6]', 'b[7-8]']
    """
    number = min(executors, len(tasks))
    least, more = divmod(len(tasks), number)
    divided, at = [], 0
    for k in range(number):
        size = least + (k < more)
        divided.append(UnplacedExecutor(component, tasks[at], tasks[at + size - 1]))
        at += size
    return divided


def number_executors(
    query_plan: QueryPlan, configuration: TopologyConfiguration, own_tasks: Mapping[str, int]
) -> tuple[UnplacedExecutor, ...]:
    """Return the executors of a topology that is submitted with this configuration, by first task.

    Parameters
    ----------
    own_tasks : mapping
        Tasks of Storm's own components, where they are not as many as the executors asked for.

    Raises
    ------
    SchedulerDeclined
        When a component has no executors in the configuration, or the configuration names an unknown one.

    Examples
    --------
    >>> from harness.plans import Component
    >>> plan = QueryPlan(name="q", components=(Component(name="b", role="other", tasks=3),), streams=())
    >>> asked = TopologyConfiguration(executors={"b": 2, "__acker": 1}, workers=1)
    >>> [e.label for e in number_executors(plan, asked, {})]
    ['__acker[1-1]', 'b[2-3]', 'b[4-4]']
    """
    tasks = {c.name: c.tasks for c in query_plan.components}
    _require_components(tasks, configuration)
    executors: list[UnplacedExecutor] = []
    first = 1
    for name in sorted(configuration.executors):
        count = configuration.executors[name]
        size = tasks[name] if name in tasks else own_tasks.get(name, count)
        executors += divide_tasks(name, range(first, first + size), count)
        first += size
    return tuple(executors)


def renumber_executors(
    query_plan: QueryPlan, configuration: TopologyConfiguration, running: PhysicalPlan
) -> tuple[UnplacedExecutor, ...]:
    """Return the executors that a running topology gets by this configuration, by first task.

    Task identifiers are those of the running plan, since they last as long as the topology.

    Raises
    ------
    SchedulerDeclined
        As ``number_executors``; and when the running plan is of another query plan.
    """
    sizes = {c.name: c.tasks for c in query_plan.components}
    _require_components(sizes, configuration)
    held: dict[str, list[int]] = {}
    now: dict[str, int] = {}
    for e in running.executors:
        held.setdefault(e.component, []).extend(e.tasks)
        now[e.component] = now.get(e.component, 0) + 1
    for name, size in sizes.items():
        has = len(held.get(name, ()))
        if has != size:
            raise SchedulerDeclined(f"the source is of another query plan: {has} tasks of {name}, not {size}")
    for name in configuration.executors.keys() - held.keys():
        raise SchedulerDeclined(f"the configuration asks for executors of {name}, which the source has not")
    executors: list[UnplacedExecutor] = []
    for name, tasks in held.items():
        if name in sizes or name.startswith(OWN_PREFIX):
            count = configuration.executors.get(name, now[name])
            executors += divide_tasks(name, sorted(tasks), count)
    return tuple(sorted(executors, key=lambda e: e.first_task))


def unplaced_executors(
    query_plan: QueryPlan, configuration: TopologyConfiguration, source: Observation | None
) -> tuple[UnplacedExecutor, ...]:
    """Return the executors to be placed, by first task: of a running topology, or of one to be submitted.

    Raises
    ------
    SchedulerDeclined
        When configuration, query plan and source do not fit together.
    """
    if source is None:
        return number_executors(query_plan, configuration, {})
    return renumber_executors(query_plan, configuration, source.plan)


def _require_components(tasks: Mapping[str, int], configuration: TopologyConfiguration) -> None:
    for name in sorted(tasks.keys() - configuration.executors.keys()):
        raise SchedulerDeclined(f"the configuration says nothing of executors of {name}")
    for name in sorted(configuration.executors.keys() - tasks.keys()):
        if not name.startswith(OWN_PREFIX):
            raise SchedulerDeclined(f"the configuration asks for executors of {name}, which is no component")


def sort_slots(nodes: Iterable[WorkerNode]) -> list[Worker]:
    """Return the free slots in the order in which Storm gives them out (``EvenScheduler.sortSlots``).

    Nodes take turns, those with more free slots first, each with its lowest free port. Of nodes with equally
    many, Storm takes the supervisors' identifiers in order, which are drawn at random; here it is the names.

    Examples
    --------
    >>> def node(name, *ports):
    ...     return WorkerNode(name=name, address="", host="h", cores=1, slots=ports)
    >>> [w.label for w in sort_slots([node("a", 1), node("c", 8, 7), node("b", 3, 2)])]
    ['b:2', 'c:7', 'a:1', 'b:3', 'c:8']
    """
    by_number = sorted(sorted(nodes, key=lambda n: n.name), key=lambda n: -len(n.slots))
    ports = [[Worker(node=n.name, port=p) for p in sorted(n.slots)] for n in by_number]
    return [slot for turn in zip_longest(*ports) for slot in turn if slot is not None]


def choose_slots(nodes: tuple[WorkerNode, ...], workers: int) -> tuple[list[Worker], tuple[str, ...]]:
    """Return the first free slots, as many as workers are asked for, and a note where they are fewer.

    Raises
    ------
    SchedulerDeclined
        When no slot is free.
    """
    slots = sort_slots(nodes)
    if not slots:
        raise SchedulerDeclined("no slot is free")
    if len(slots) < workers:
        return slots, (f"{workers} workers are asked for and {len(slots)} slots are free",)
    return slots[:workers], ()


def join_slots(
    query_plan: QueryPlan,
    nodes: tuple[WorkerNode, ...],
    executors: Sequence[UnplacedExecutor],
    slots: Sequence[Worker],
) -> PhysicalPlan:
    """Return the plan that puts each executor into the slot at its position; executors by first task."""
    pairs = sorted(zip(executors, slots, strict=True), key=lambda p: p[0].first_task)
    return PhysicalPlan(query_plan=query_plan, nodes=nodes, executors=tuple(e.on(w) for e, w in pairs))
