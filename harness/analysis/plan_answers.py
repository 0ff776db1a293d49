"""Questions about physical plans, and their answers from a run directory.

A plan store (``harness.backends.neo4j.store``) answers the same questions in the same words; a test keeps the
two equal. Executors, streams and workers are named by their labels (``harness.plans``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, Protocol

from harness.errors import UsageError
from harness.plans import Executor, Frozen, PhysicalPlan
from harness.runs import Run


class WorkerExecutors(Frozen):
    """Executors in one worker process, Storm's own included."""

    worker: str
    node: str
    executors: tuple[str, ...]


class StreamCrossings(Frozen):
    """The logical connections of one stream, and how many of them leave a worker or a node."""

    stream: str
    connections: int
    between_workers: int
    between_nodes: int


class PathCount(Frozen):
    """Paths from the executors of a spout to those of a sink, by how often they change the node."""

    spout: str
    sink: str
    paths: int
    by_node_crossings: Mapping[int, int]


class ListedPath(Frozen):
    """One path: ``spout[1-2] -default-> bolt-a[3-4]``."""

    path: str
    node_crossings: int


class StepAnswers(Frozen):
    """All that is asked about one step's plan.

    ``listed`` is None unless paths were asked for; ``cyclic`` plans have paths without end, and so none
    are counted.
    """

    step: int
    configuration: str
    workers: tuple[WorkerExecutors, ...]
    streams: tuple[StreamCrossings, ...]
    cyclic: bool
    paths: tuple[PathCount, ...]
    listed: tuple[ListedPath, ...] | None = None


class Moved(Frozen):
    """An executor that both plans have, on different workers."""

    executor: str
    first: str
    second: str


class Difference(Frozen):
    """Differences of a second plan from a first one.

    ``executors`` has the number of executors of each component where it changed.
    """

    first: int
    second: int
    executors: Mapping[str, tuple[int, int]]
    moved: tuple[Moved, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


class Ends(NamedTuple):
    """Components that paths begin and end at."""

    spouts: tuple[str, ...]
    sinks: tuple[str, ...]


class End(NamedTuple):
    """An executor where a connection begins or ends."""

    component: str
    first_task: int
    last_task: int

    @property
    def label(self) -> str:
        """Its name, as ``Executor.label``."""
        return f"{self.component}[{self.first_task}-{self.last_task}]"


class Connection(NamedTuple):
    """A logical connection, and whether it leaves its node."""

    source: End
    stream: str
    target: End
    between_nodes: bool


class PlanSource(Protocol):
    """Source of answers to questions about the plans of one run."""

    @property
    def name(self) -> str:
        """Name of the source in answers."""

    def steps(self) -> tuple[int, ...]:
        """Return the finished steps."""

    def configuration(self, step: int) -> str:
        """Return the label of a step's configuration."""

    def workers(self, step: int) -> tuple[WorkerExecutors, ...]:
        """Return the executors on every worker, by node and port."""

    def streams(self, step: int) -> tuple[StreamCrossings, ...]:
        """Return which streams cross workers and nodes, by label."""

    def ends(self, step: int) -> Ends:
        """Return where the paths of a step's query plan begin and end."""

    def connections(self, step: int) -> Sequence[Connection]:
        """Return the logical connections of a step's plan."""

    def difference(self, first: int, second: int) -> Difference:
        """Return how a step's plan differs from another's."""


def answers(source: PlanSource, step: int, at_most: int | None = None) -> StepAnswers:
    """Return all that is known of a step's plan.

    Parameters
    ----------
    source : PlanSource
        Where to ask.
    step : int
        A finished step.
    at_most : int, optional
        List so many paths, the first ones by name.

    Raises
    ------
    UsageError
        When the step is not finished, or listing is asked of a plan that has a cycle.
    """
    require_step(source, step)
    ends, connections = source.ends(step), source.connections(step)
    try:
        paths = count_paths(connections, ends)
        cyclic = False
    except CycleError:
        paths, cyclic = (), True
        if at_most is not None:
            raise UsageError(f"step {step}: its plan has a cycle, and so paths without end") from None
    return StepAnswers(
        step=step,
        configuration=source.configuration(step),
        workers=source.workers(step),
        streams=source.streams(step),
        cyclic=cyclic,
        paths=paths,
        listed=None if at_most is None else list_paths(connections, ends, at_most),
    )


def difference(source: PlanSource, first: int, second: int) -> Difference:
    """Return how a step's plan differs from another's.

    Raises
    ------
    UsageError
        When one of them is not finished.
    """
    for step in (first, second):
        require_step(source, step)
    return source.difference(first, second)


def require_step(source: PlanSource, step: int) -> None:
    """Raise UsageError when a step is not finished."""
    if step not in source.steps():
        finished = ", ".join(map(str, source.steps())) or "none"
        raise UsageError(f"there is no finished step {step}", f"finished are: {finished}")


def count_paths(connections: Iterable[Connection], ends: Ends) -> tuple[PathCount, ...]:
    """Count paths by propagation: each executor hands on how many paths reach it, by crossings so far.

    The work is connections times crossings, however many paths there are.

    Raises
    ------
    CycleError
        When a path may come back to a component.

    Examples
    --------
    >>> a, b = End("a", 1, 1), End("b", 2, 2)
    >>> count_paths([Connection(a, "default", b, True)], Ends(("a",), ("b",)))[0].by_node_crossings
    {1: 1}
    """
    leaving: dict[str, list[Connection]] = defaultdict(list)
    before: dict[str, set[str]] = defaultdict(set)
    for c in connections:
        leaving[c.source.component].append(c)
        before[c.target.component].add(c.source.component)
    order = tuple(TopologicalSorter(before).static_order())
    found = []
    for spout in sorted(ends.spouts):
        reached: dict[End, Counter[int]] = defaultdict(Counter)
        for first in {c.source for c in leaving[spout]}:
            reached[first][0] = 1
        for component in order:
            for c in leaving[component]:
                arriving = reached.get(c.source, Counter())
                for crossings, paths in arriving.items():
                    reached[c.target][crossings + c.between_nodes] += paths
        for sink in sorted(ends.sinks):
            counts: Counter[int] = Counter()
            for executor, arrived in reached.items():
                if executor.component == sink and sink != spout:
                    counts.update(arrived)
            if counts:
                by = dict(sorted(counts.items()))
                found.append(PathCount(spout=spout, sink=sink, paths=sum(by.values()), by_node_crossings=by))
    return tuple(found)


def list_paths(connections: Iterable[Connection], ends: Ends, at_most: int) -> tuple[ListedPath, ...]:
    """Return the first paths by name, without finding the others; the plan has no cycle."""
    leaving: dict[End, list[Connection]] = defaultdict(list)
    for c in sorted(connections):
        leaving[c.source].append(c)

    def walk(end: End, text: str, crossings: int) -> Iterator[ListedPath]:
        if end.component in ends.sinks:
            yield ListedPath(path=text, node_crossings=crossings)
            return
        for c in leaving.get(end, ()):
            further = f"{text} -{c.stream}-> {c.target.label}"
            yield from walk(c.target, further, crossings + c.between_nodes)

    found: list[ListedPath] = []
    for first in sorted(e for e in leaving if e.component in ends.spouts):
        for path in walk(first, first.label, 0):
            if len(found) == at_most:
                return tuple(found)
            found.append(path)
    return tuple(found)


class RunPlans:
    """Answers from a run directory (``PlanSource``)."""

    name = "run directory"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._plans: dict[int, PhysicalPlan] = {}

    def steps(self) -> tuple[int, ...]:
        """Return the finished steps."""
        return self._run.finished_steps

    def configuration(self, step: int) -> str:
        """Return the label of a step's configuration."""
        return self._run.interval(step).configuration

    def workers(self, step: int) -> tuple[WorkerExecutors, ...]:
        """Return the executors on every worker, by node and port."""
        plan = self._plan(step)
        return tuple(
            WorkerExecutors(
                worker=w.label,
                node=w.node,
                executors=tuple(e.label for e in by_task(plan.executors) if e.worker == w),
            )
            for w in plan.workers
        )

    def streams(self, step: int) -> tuple[StreamCrossings, ...]:
        """Return which streams cross workers and nodes, by label."""
        counts: dict[str, list[int]] = {}
        for stream, a, b in self._plan(step).connections():
            row = counts.setdefault(stream.label, [0, 0, 0])
            row[0] += 1
            row[1] += a.worker != b.worker
            row[2] += a.worker.node != b.worker.node
        return tuple(
            StreamCrossings(stream=label, connections=n, between_workers=w, between_nodes=h)
            for label, (n, w, h) in sorted(counts.items())
        )

    def ends(self, step: int) -> Ends:
        """Return where the paths of a step's query plan begin and end."""
        query_plan = self._plan(step).query_plan
        return Ends(tuple(sorted(query_plan.spouts)), tuple(sorted(query_plan.sinks)))

    def connections(self, step: int) -> Sequence[Connection]:
        """Return the logical connections of a step's plan."""
        return [
            Connection(_end(a), stream.stream, _end(b), a.worker.node != b.worker.node)
            for stream, a, b in self._plan(step).connections()
        ]

    def difference(self, first: int, second: int) -> Difference:
        """Return how a step's plan differs from another's."""
        plans = self._plan(first), self._plan(second)
        counts = [p.configuration().executors for p in plans]
        at = [{e.label: e.worker.label for e in by_task(p.executors)} for p in plans]
        return Difference(
            first=first,
            second=second,
            executors={
                name: (counts[0].get(name, 0), counts[1].get(name, 0))
                for name in sorted({*counts[0], *counts[1]})
                if counts[0].get(name, 0) != counts[1].get(name, 0)
            },
            moved=tuple(
                Moved(executor=label, first=worker, second=at[1][label])
                for label, worker in at[0].items()
                if label in at[1] and at[1][label] != worker
            ),
            only_first=tuple(label for label in at[0] if label not in at[1]),
            only_second=tuple(label for label in at[1] if label not in at[0]),
        )

    def _plan(self, step: int) -> PhysicalPlan:
        if step not in self._plans:
            self._plans[step] = self._run.plan(step).start
        return self._plans[step]


def by_task(executors: Iterable[Executor]) -> list[Executor]:
    """Return executors in the order of answers: by component, then by first task."""
    return sorted(executors, key=lambda e: (e.component, e.first_task))


def _end(executor: Executor) -> End:
    return End(executor.component, executor.first_task, executor.last_task)
