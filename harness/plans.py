"""The nouns: what a topology is, how it is configured, and where its executors run.

All types are frozen pydantic models: equal by value, checked when made, and written to and read
from JSON with ``model_dump_json`` and ``model_validate_json``. Unknown keys are errors.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
PositiveFloat = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Role = Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")]
"""A component's work; ``harness.topologies.roles`` has what follows from the roles in test topologies."""
Grouping = Literal[
    "shuffle", "fields", "local-or-shuffle", "all", "global", "none", "partial-key", "direct", "custom"
]

ACKER = "__acker"
"""Storm's name for the acker component."""
FLUSH_MS = 5
"""Time that a batch waits for more tuples where nothing but its size is given."""
METRICS_CONSUMER_PREFIX = "__metrics"
"""Storm names a metrics consumer's component after its class, with this prefix."""


class Frozen(BaseModel):
    """A value: immutable, with unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __copy__(self) -> Self:
        """Copy the fields without the values derived from them, since ``model_copy`` may change fields."""
        found = super().__copy__()
        for name in found.__dict__.keys() - type(self).model_fields.keys():
            del found.__dict__[name]
        return found


WindowKind = Literal["count", "time"]


class Window(Frozen):
    """A window of a bolt; ``length`` and ``slide`` are tuples (count) or milliseconds (time).

    Attributes
    ----------
    kind : {'count', 'time'}
        Unit of the window: tuples, or milliseconds.
    length : int
        Tuples or milliseconds in a window.
    slide : int
        Tuples or milliseconds between windows; ``slide: length`` is tumbling.

    Examples
    --------
    >>> Window(kind="count", length=10, slide=10).tumbling
    True
    """

    kind: WindowKind
    length: Positive
    slide: Positive

    @model_validator(mode="after")
    def _no_gaps(self) -> Self:
        if self.slide > self.length:
            raise ValueError(f"slide {self.slide} is longer than length {self.length}: tuples are lost")
        return self

    @property
    def tumbling(self) -> bool:
        """True where each tuple belongs to exactly one window."""
        return self.length == self.slide


class Component(Frozen):
    """A spout or bolt of a query plan, with its fixed number of tasks."""

    name: str
    role: Role
    tasks: Positive
    window: Window | None = None


class Stream(Frozen):
    """An edge of the query plan: ``target`` subscribes to ``stream`` of ``source``."""

    source: str
    target: str
    grouping: Grouping
    stream: str = "default"

    @property
    def label(self) -> str:
        """The stream as a subject of measures, e.g. ``bolt-a->bolt-b:default``."""
        return f"{self.source}->{self.target}:{self.stream}"


class QueryPlan(Frozen):
    """Components and the streams between them; what does not change in a rebalance.

    Storm's own components (ackers, metrics consumers) are not part of it.
    """

    name: str
    components: tuple[Component, ...]
    streams: tuple[Stream, ...]

    @model_validator(mode="after")
    def _ends_exist(self) -> Self:
        names = [c.name for c in self.components]
        if len(set(names)) != len(names):
            raise ValueError(f"query plan {self.name}: two components share a name in {names}")
        for s in self.streams:
            for end in (s.source, s.target):
                if end not in names:
                    raise ValueError(f"stream {s.label}: there is no component {end!r} in {names}")
        return self

    def component(self, name: str) -> Component:
        """Return the component of that name.

        Raises
        ------
        KeyError
            When there is none.
        """
        for c in self.components:
            if c.name == name:
                return c
        raise KeyError(name)

    def inputs(self, name: str) -> tuple[Stream, ...]:
        """Return the streams that the component subscribes to."""
        return tuple(s for s in self.streams if s.target == name)

    def outputs(self, name: str) -> tuple[Stream, ...]:
        """Return the streams that other components subscribe to from this one."""
        return tuple(s for s in self.streams if s.source == name)

    @property
    def spouts(self) -> tuple[str, ...]:
        """Names of the components that have no input."""
        return tuple(c.name for c in self.components if not self.inputs(c.name))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the components that have no output."""
        return tuple(c.name for c in self.components if not self.outputs(c.name))


class TopologyConfiguration(Frozen):
    """Executors for each component and number of worker processes, as one step asks for them.

    ``executors`` names every component of the query plan and, where their number was asked,
    Storm's own (``__acker``).
    """

    executors: Mapping[str, Positive]
    workers: Positive


class WorkerNode(Frozen):
    """A machine as Storm sees it (one supervisor); nodes that share ``host`` share its cores."""

    name: str
    address: str
    host: str
    cores: Annotated[float, Field(gt=0)]
    slots: tuple[int, ...]
    cpu_quota_cores: Annotated[float, Field(gt=0)] | None = None


class Worker(Frozen):
    """A worker process: a slot (port) of a worker node."""

    node: str
    port: int

    @property
    def label(self) -> str:
        """The worker as a subject of measures, e.g. ``node-1:6700``."""
        return f"{self.node}:{self.port}"


class Executor(Frozen):
    """A thread that runs the tasks ``first_task`` to ``last_task`` of one component."""

    component: str
    first_task: int
    last_task: int
    worker: Worker

    @property
    def tasks(self) -> range:
        """Identifiers of its tasks."""
        return range(self.first_task, self.last_task + 1)

    @property
    def label(self) -> str:
        """The executor as a subject of measures, e.g. ``bolt-a[3-4]``.

        Examples
        --------
        >>> Executor(component="b", first_task=3, last_task=4, worker=Worker(node="n", port=1)).label
        'b[3-4]'
        """
        return f"{self.component}[{self.first_task}-{self.last_task}]"


class PhysicalPlan(Frozen):
    """Executors on workers on worker nodes, Storm's own executors included."""

    query_plan: QueryPlan
    nodes: tuple[WorkerNode, ...]
    executors: tuple[Executor, ...]

    @cached_property
    def by_task(self) -> Mapping[int, Executor]:
        """The executor of each task identifier."""
        return {t: e for e in self.executors for t in e.tasks}

    @cached_property
    def node_names(self) -> Mapping[str, WorkerNode]:
        """The worker node of each name."""
        return {n.name: n for n in self.nodes}

    def of(self, component: str) -> tuple[Executor, ...]:
        """Return the executors of a component, by first task."""
        found = (e for e in self.executors if e.component == component)
        return tuple(sorted(found, key=lambda e: e.first_task))

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The worker processes in use, by node and port."""
        return tuple(sorted({e.worker for e in self.executors}, key=lambda w: (w.node, w.port)))

    def configuration(self) -> TopologyConfiguration:
        """Return the topology configuration that this plan realises (all components)."""
        counts: dict[str, int] = {}
        for e in self.executors:
            counts[e.component] = counts.get(e.component, 0) + 1
        return TopologyConfiguration(executors=counts, workers=len(self.workers))

    def connections(self) -> Iterator[tuple[Stream, Executor, Executor]]:
        """Yield every logical connection: a stream with a source and a target executor."""
        for s in self.query_plan.streams:
            for i in self.of(s.source):
                for j in self.of(s.target):
                    yield s, i, j


class BatchSize(Frozen):
    """The rule by which batches of a stream leave.

    Attributes
    ----------
    size : int
        Tuples of a full batch, which leaves at once; 1 sends every tuple as it is.
    flush_ms : int
        Time in ms that a batch's first tuple waits for others.
    """

    size: Annotated[int, Field(ge=1, le=1_000_000)]
    flush_ms: Annotated[int, Field(ge=1, le=3_600_000)] = FLUSH_MS

    @model_validator(mode="before")
    @classmethod
    def _of_a_number(cls, value: object) -> object:
        return {"size": value} if isinstance(value, int) and not isinstance(value, bool) else value


class Watermarks(Frozen):
    """Fills of a receive queue between which a task is under pressure.

    Attributes
    ----------
    high_pct : float
        Fill at which the pressure begins, in percent of the queue's capacity.
    low_pct : float
        Fill at which it ends.
    """

    high_pct: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
    low_pct: Annotated[float, Field(ge=0, lt=100, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_pct >= self.high_pct:
            raise ValueError(f"low_pct {self.low_pct:g} must be below high_pct {self.high_pct:g}")
        return self


class Help(Watermarks):
    """Help for a bolt from those directly before it.

    Attributes
    ----------
    delta : float
        Share of the way to all, or to none, by which a signal moves the share that is helped.
    """

    delta: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Backpressure(Watermarks):
    """A mechanism by which spouts pause for full queues of bolts.

    Attributes
    ----------
    kind : {'heron'}
        All spouts pause while any queue is between its marks.
    """

    kind: Literal["heron"]


class Relief(Frozen):
    """Two ways to relieve full queues: helping, and pauses of spouts.

    Attributes
    ----------
    helping : mapping of str to Help
        By helped component.
    backpressure : Backpressure, optional
        None leaves it to Storm's own.
    """

    helping: Mapping[str, Help] = {}
    backpressure: Backpressure | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys that are in force.

        Examples
        --------
        >>> Relief(backpressure=Backpressure(kind="heron", high_pct=50, low_pct=10)).parts
        ('backpressure',)
        """
        return (*(["helping"] if self.helping else ()), *(["backpressure"] if self.backpressure else ()))

    def only(self, parts: Collection[str]) -> Self:
        """Return what is left where some keys only are in force."""
        kept = {part: getattr(self, part) for part in self.parts if part in parts}
        return self.model_copy(update={"helping": {}, "backpressure": None} | kept)


Batching = Mapping[str, BatchSize]
"""By component, for all of its streams, or by ``component:stream``, which goes first."""
RoutingTables = Mapping[str, tuple[int, ...]]
"""By component with key groups: the position of each group's task among the component's tasks."""


def batched_streams(plan: QueryPlan, batching: Batching) -> dict[Stream, BatchSize]:
    """Return the streams whose tuples travel in batches of more than one.

    Examples
    --------
    >>> ends = (Component(name="spout", role="spout", tasks=1), Component(name="sink", role="other", tasks=1))
    >>> way = Stream(source="spout", stream="default", target="sink", grouping="shuffle")
    >>> plan = QueryPlan(name="two", components=ends, streams=(way,))
    >>> [b.size for b in batched_streams(plan, {"spout": BatchSize(size=5)}).values()]
    [5]
    >>> batched_streams(plan, {"spout": BatchSize(size=5), "spout:default": BatchSize(size=1)})
    {}
    """
    return {s: batch for s, batch in stream_sizes(plan, batching).items() if batch.size > 1}


def stream_sizes(plan: QueryPlan, batching: Batching) -> dict[Stream, BatchSize]:
    """Return the streams that may be batched, those with batches of one included.

    Examples
    --------
    >>> ends = (Component(name="spout", role="spout", tasks=1), Component(name="sink", role="other", tasks=1))
    >>> way = Stream(source="spout", stream="default", target="sink", grouping="shuffle")
    >>> plan = QueryPlan(name="two", components=ends, streams=(way,))
    >>> sizes = {"spout": BatchSize(size=5), "spout:default": BatchSize(size=1)}
    >>> [b.size for b in stream_sizes(plan, sizes).values()]
    [1]
    """
    found = {s: batching.get(f"{s.source}:{s.stream}", batching.get(s.source)) for s in plan.streams}
    return {s: batch for s, batch in found.items() if batch is not None}


class AskedPlacement(Frozen):
    """Where a step asks each executor to be, Storm's own executors included.

    Attributes
    ----------
    by : str
        The scheduler that proposed it; ``placement`` where a file says it.
    source : int, optional
        The step whose observation the scheduler read.
    workers : mapping
        The worker's label of each executor's label.
    notes : tuple of str
        What the scheduler says of it.
    """

    by: str
    source: int | None = None
    workers: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A short name of where the executors are, the same for the same places."""
        return sha256(json.dumps(dict(self.workers), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def number_of_workers(self) -> int:
        """Number of workers that the plan uses."""
        return len(set(self.workers.values()))

    def differences(self, plan: PhysicalPlan) -> tuple[str, ...]:
        """Return each executor that a plan has elsewhere, has not, or has beside it; one text each.

        Examples
        --------
        >>> one = Executor(component="b", first_task=1, last_task=2, worker=Worker(node="n", port=1))
        >>> empty = QueryPlan(name="q", components=(), streams=())
        >>> plan = PhysicalPlan(query_plan=empty, nodes=(), executors=(one,))
        >>> AskedPlacement(by="even", workers={"b[1-2]": "n:2"}).differences(plan)
        ('b[1-2]: n:2 asked, n:1 applied',)
        """
        applied = {e.label: e.worker.label for e in plan.executors}
        return tuple(
            f"{label}: {self.workers.get(label, 'nothing')} asked, {applied.get(label, 'nothing')} applied"
            for label in sorted(self.workers.keys() | applied.keys())
            if self.workers.get(label) != applied.get(label)
        )


def connection_label(stream: Stream, source: Executor, target: Executor) -> str:
    """Return a logical connection as a subject of measures, e.g. ``a[1-2]->b[5-8]:default``."""
    return f"{source.label}->{target.label}:{stream.stream}"
