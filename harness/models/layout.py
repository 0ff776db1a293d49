"""A physical plan laid out as arrays: executors in the order in which tuples meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelDeclined
from harness.plans import ACKER, Executor, PhysicalPlan, QueryPlan

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Output(NamedTuple):
    """What one component emits on one stream, whoever subscribes to it."""

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
    """

    plan: PhysicalPlan
    executors: tuple[Executor, ...]
    order: tuple[str, ...]
    of: Mapping[str, slice]
    tasks: Mapping[str, IntArray]
    membership: Mapping[str, FloatArray]
    worker: IntArray

    def __len__(self) -> int:
        return len(self.executors)

    @property
    def ackers(self) -> slice:
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
    executors: list[Executor] = []
    of: dict[str, slice] = {}
    tasks: dict[str, IntArray] = {}
    membership: dict[str, FloatArray] = {}
    for name in order:
        mine = plan.of(name)
        held = np.array([t for e in mine for t in e.tasks], dtype=np.int64)
        wanted = plan.query_plan.component(name).tasks
        if held.size != wanted or np.unique(held).size != wanted:
            raise ModelDeclined(
                f"the plan does not fit the query plan: {wanted} tasks of {name}, {held.size} held"
            )
        first = np.array([e.first_task for e in mine])[:, None]
        last = np.array([e.last_task for e in mine])[:, None]
        tasks[name] = np.sort(held)
        membership[name] = ((tasks[name] >= first) & (tasks[name] <= last)).astype(np.float64)
        of[name] = slice(len(executors), len(executors) + len(mine))
        executors += mine
    if ackers := plan.of(ACKER):
        of[ACKER] = slice(len(executors), len(executors) + len(ackers))
        executors += ackers
    number = {w: i for i, w in enumerate(plan.workers)}
    worker = np.array([number[e.worker] for e in executors], dtype=np.int64)
    return Layout(plan, tuple(executors), order, of, tasks, membership, worker)


def require_same_topology(source: PhysicalPlan, proposed: PhysicalPlan) -> None:
    """Refuse a proposed plan of another query plan than the source's, or with other task identifiers.

    Raises
    ------
    ModelDeclined
        With what differs.
    """
    ours, theirs = source.query_plan, proposed.query_plan
    if set(ours.components) != set(theirs.components) or set(ours.streams) != set(theirs.streams):
        raise ModelDeclined("the proposed plan has another query plan than the source")
    for component in ours.components:
        held = [sorted(t for e in p.of(component.name) for t in e.tasks) for p in (source, proposed)]
        if held[0] != held[1]:
            raise ModelDeclined(
                f"the plan does not fit the query plan: other tasks of {component.name} than in the source"
            )
