"""A physical plan laid out as arrays: executors in the order in which tuples meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelDeclined
from harness.plans import ACKER, Executor, PhysicalPlan, QueryPlan, Worker

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Span: TypeAlias = "slice[int, int, int]"
"""Places of neighbours in an array."""


class Output(NamedTuple):
    """Output of one component on one stream, whoever subscribes to the stream."""

    component: str
    stream: str


def outputs(query_plan: QueryPlan, component: str) -> tuple[Output, ...]:
    """Return the component's output streams that somebody subscribes to, each once.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> parts = [Component(name=n, role="other", tasks=1) for n in "abc"]
    >>> both = [Stream(source="a", target=t, grouping="shuffle") for t in "bc"]
    >>> outputs(QueryPlan(name="q", components=tuple(parts), streams=tuple(both)), "a")
    (Output(component='a', stream='default'),)
    """
    return tuple(dict.fromkeys(Output(component, s.stream) for s in query_plan.outputs(component)))


def downstream_order(query_plan: QueryPlan) -> tuple[str, ...]:
    """Return the components' names so that every stream runs from an earlier to a later one.

    Raises
    ------
    ModelDeclined
        When components form a cycle; it names them.
    """
    waiting = {c.name: {s.source for s in query_plan.inputs(c.name)} for c in query_plan.components}
    order: list[str] = []
    while waiting:
        ready = [name for name, sources in waiting.items() if not sources]
        if not ready:
            raise ModelDeclined(f"components form a cycle: {', '.join(sorted(waiting))}")
        order += ready
        for name in ready:
            del waiting[name]
        for sources in waiting.values():
            sources.difference_update(ready)
    return tuple(order)


MOST_PATHS = 16
"""Paths of components that are told apart."""


def component_paths(query_plan: QueryPlan) -> tuple[tuple[str, ...], ...]:
    """Return the ways from spouts to sinks by component; none where there are more than ``MOST_PATHS``.

    A cycle is not gone round.

    Examples
    --------
    >>> from harness.plans import Component, Stream
    >>> parts = tuple(Component(name=n, role="other", tasks=1) for n in "abc")
    >>> both = tuple(Stream(source="a", target=t, grouping="shuffle") for t in "bc")
    >>> component_paths(QueryPlan(name="q", components=parts, streams=both))
    (('a', 'b'), ('a', 'c'))
    """
    open_paths: list[tuple[str, ...]] = [(name,) for name in query_plan.spouts]
    found: list[tuple[str, ...]] = []
    while open_paths:
        path = open_paths.pop(0)
        following = dict.fromkeys(s.target for s in query_plan.outputs(path[-1]) if s.target not in path)
        open_paths += [(*path, name) for name in following]
        found += [] if following else [path]
        if len(found) + len(open_paths) > MOST_PATHS:
            return ()
    return tuple(found)


NodePair = tuple[str, str]
"""Names of two worker nodes, the smaller first: what is between them is the same either way."""


def node_pair(one: str, other: str) -> NodePair:
    """Return two nodes' pair.

    Examples
    --------
    >>> node_pair("node-2", "node-1")
    ('node-1', 'node-2')
    """
    return (one, other) if one < other else (other, one)


@dataclass(frozen=True)
class Layout:
    """Executors as positions 0..n-1: the query plan's components downstream, then the ackers.

    Attributes
    ----------
    executors : tuple of Executor
        By position.
    order : tuple of str
        Components of the query plan, each after those that feed it.
    of : mapping
        The positions of a component's executors; ``__acker`` only where the plan has ackers.
    tasks : mapping
        Task identifiers of each component of the query plan, ascending.
    membership : mapping
        For each component of the query plan, 1 where the executor (row) holds the task (column).
    worker : array of int
        Position's worker process, numbered from 0.
    holder : mapping
        For each component of the query plan, which of its executors holds each task, numbered from 0.
    workers : tuple of (node, port)
        The worker processes by number.
    """

    plan: PhysicalPlan
    executors: tuple[Executor, ...]
    order: tuple[str, ...]
    of: Mapping[str, Span]
    tasks: Mapping[str, IntArray]
    membership: Mapping[str, FloatArray]
    worker: IntArray
    holder: Mapping[str, IntArray]
    workers: tuple[tuple[str, int], ...]

    def __len__(self) -> int:
        return len(self.executors)

    def by_executor(self, component: str, of_tasks: FloatArray) -> FloatArray:
        """Return the sums of what a component's tasks have by its executors: ``membership`` times it."""
        holder = self.holder[component]
        at = self.of[component]
        found = np.bincount(holder, weights=of_tasks, minlength=at.stop - at.start)
        return np.asarray(found, dtype=np.float64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Executors' labels by position."""
        return tuple(e.label for e in self.executors)

    @cached_property
    def worker_labels(self) -> tuple[str, ...]:
        """Worker processes' labels by number."""
        return tuple(w.label for w in self.plan.workers)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Names of the worker nodes in use, in their order."""
        return tuple(sorted({node for node, _ in self.workers}))

    @cached_property
    def node(self) -> IntArray:
        """Number of each worker process's node among ``nodes``."""
        return np.array([self.nodes.index(node) for node, _ in self.workers])

    @property
    def ackers(self) -> Span:
        """Positions of the acker executors; empty where the plan has none."""
        return self.of.get(ACKER, slice(len(self), len(self)))


def lay_out(plan: PhysicalPlan) -> Layout:
    """Lay a plan out.

    Raises
    ------
    ModelDeclined
        When components form a cycle, or a component's executors do not hold its tasks once each.
    """
    order = downstream_order(plan.query_plan)
    everyone: dict[str, list[Executor]] = {}
    for e in plan.executors:
        everyone.setdefault(e.component, []).append(e)
    executors: list[Executor] = []
    of: dict[str, Span] = {}
    tasks: dict[str, IntArray] = {}
    membership: dict[str, FloatArray] = {}
    holder: dict[str, IntArray] = {}
    for component in plan.query_plan.components:
        name, wanted = component.name, component.tasks
        mine = sorted(everyone.get(name, ()), key=_first_task)
        first = np.array([e.first_task for e in mine], dtype=np.int64)
        size = np.array([e.last_task for e in mine], dtype=np.int64) - first + 1
        size = np.maximum(size, 0)
        before = np.cumsum(size) - size
        held = np.arange(size.sum()) + np.repeat(first - before, size)
        if held.size != wanted or (np.diff(held) <= 0).any():
            raise ModelDeclined(
                f"the plan does not fit the query plan: {wanted} tasks of {name}, {held.size} held"
            )
        tasks[name] = held
        holder[name] = np.repeat(np.arange(size.size), size)
        membership[name] = np.zeros((size.size, wanted))
        membership[name][holder[name], np.arange(wanted)] = 1.0
    for name in (*order, ACKER):
        mine = sorted(everyone.get(name, ()), key=_first_task)
        if mine:
            of[name] = slice(len(executors), len(executors) + len(mine))
            executors += mine
    places = [(e.worker.node, e.worker.port) for e in plan.executors]
    workers = tuple(sorted(set(places)))  # in the order of PhysicalPlan.workers
    number = {w: i for i, w in enumerate(workers)}
    worker = np.array([number[e.worker.node, e.worker.port] for e in executors], dtype=np.int64)
    return Layout(plan, tuple(executors), order, of, tasks, membership, worker, holder, workers)


def _first_task(executor: Executor) -> int:
    return executor.first_task


def require_same_topology(source: PhysicalPlan, proposed: PhysicalPlan) -> None:
    """Refuse a proposed plan of another query plan than the source's, or with other task identifiers.

    Raises
    ------
    ModelDeclined
        With what differs.
    """
    require_same_query_plan(source, proposed)
    ours = source.query_plan
    for component in ours.components:
        held = [sorted(t for e in p.of(component.name) for t in e.tasks) for p in (source, proposed)]
        if held[0] != held[1]:
            raise ModelDeclined(
                f"the plan does not fit the query plan: other tasks of {component.name} than in the source"
            )


def require_same_query_plan(source: PhysicalPlan, proposed: PhysicalPlan) -> None:
    """Refuse a proposed plan of another query plan than the source's.

    Raises
    ------
    ModelDeclined
    """
    ours, theirs = source.query_plan, proposed.query_plan
    same = ours is theirs or (ours.components == theirs.components and ours.streams == theirs.streams)
    if not same and (
        set(ours.components) != set(theirs.components) or set(ours.streams) != set(theirs.streams)
    ):
        raise ModelDeclined("the proposed plan has another query plan than the source")


def require_same_tasks(source: Layout, proposed: Layout) -> None:
    """Refuse a proposed plan with other task identifiers than the source's.

    Raises
    ------
    ModelDeclined
        Naming the component.
    """
    for name, tasks in source.tasks.items():
        if not np.array_equal(tasks, proposed.tasks.get(name, tasks[:0])):
            raise ModelDeclined(
                f"the plan does not fit the query plan: other tasks of {name} than in the source"
            )


def moved(layout: Layout, position: int, worker: Worker) -> Layout:
    """Return the layout with one executor in another worker process.

    Raises
    ------
    ModelDeclined
        When the worker is on a node that the plan lacks.

    Notes
    -----
    Fast where the plan uses the worker already and the executor was not alone in its own.
    """
    plan, executor = layout.plan, layout.executors[position]
    if worker.node not in plan.node_names:
        raise ModelDeclined(f"the plan has no worker node {worker.node}")
    other = executor.model_copy(update={"worker": worker})
    everyone = tuple(other if e is executor else e for e in plan.executors)
    changed = PhysicalPlan.model_construct(query_plan=plan.query_plan, nodes=plan.nodes, executors=everyone)
    to = (worker.node, worker.port)
    left = int((layout.worker == layout.worker[position]).sum()) - 1
    if to not in layout.workers or left == 0:
        return lay_out(changed)
    number = layout.worker.copy()
    number[position] = layout.workers.index(to)
    executors = (*layout.executors[:position], other, *layout.executors[position + 1 :])
    return replace(layout, plan=changed, executors=executors, worker=number)
