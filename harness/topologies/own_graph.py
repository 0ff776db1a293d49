"""A graph in an experiment's file: its components and streams, and whether a topology can be made of them.

All that the jar of the test topologies refuses (``Graph.java``), this module refuses first, with the key of
the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from math import prod
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from harness.plans import Frozen, QueryPlan, Role, Stream, Window
from harness.topologies.bounds import Count
from harness.topologies.component_settings import Groups, Keep, Multiplier, Routing, ServiceTime
from harness.topologies.dataset_rows import Aggregate, FieldName
from harness.topologies.graph import TestTopology
from harness.topologies.roles import ROLES, Emits, RoleTraits
from harness.topologies.ways import child_name, numberings, tuples_per_message

ComponentName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
"""A path is written ``component:task/component:task``, a key of the file ``topology.components.NAME``."""
GRAPH = "graph"
"""The name of an experiment's own graph where the file gives none."""
MOST_COPIES = 1000
"""Copies of one member at one component: ways double with each diamond, and tasks multiply them."""
MOST_CHILDREN = 10_000
"""Names that the members of one message may have."""
CHILD_NAMES = 2**20
"""More than the largest of them: the ledger packs a message and a name into one number."""
MOST_PAYLOAD_BYTES = 900_000
"""Largest payload that fits into a record of Kafka beside the rest."""


KNOWN: Mapping[Emits, str] = {
    "default": "default",
    "named": "all that others subscribe to",
    "nothing": "no stream",
}
"""On which streams a component emits, for a reader."""


class GraphComponent(Frozen):
    """A component of the graph; what is left out is as the topology's keys say.

    Attributes
    ----------
    role : str
        Work of the component.
    tasks : int
        Its tasks; as ``topology.tasks`` says by default, and so for the keys below.
    window : Window
        Of a window or a join.
    multiplier : Multiplier
        Of a multiplier: how many tuples it makes of one.
    routing : {'one-per-window', 'parity'}
        Of a join: the ones of its streams on which it emits.
    keep : float
        Of a filter: the share of the tuples that it passes on.
    groups : int
        Of a keyed component: its key groups, which its state is in.
    service : ServiceTime
        Work on each tuple; a spout has none.
    forwarded_share : float
        Of a json or keyed component: the share of the tuples whose key it passes on; the others get the
        workload's first key. By default, all keys are drawn anew.
    key : list of str
        Of a json or keyed component: fields of a row (``workload.dataset``) that make the key of what it
        emits, in place of drawn or forwarded ones. ``geohash-4`` is the cell of ``lat`` and ``lon``, with
        four characters.
    aggregate : Aggregate
        Of a keyed component: the numbers that it keeps of rows, and adds to each. By default it counts tuples
        and keeps the last payload.
    output_bytes : int
        Payload in bytes of all that it emits; by default it passes on what it gets.
    """

    role: Role
    tasks: Count | None = None
    window: Window | None = None
    multiplier: Multiplier | None = None
    routing: Routing | None = None
    keep: Keep | None = None
    groups: Groups | None = None
    service: ServiceTime | None = None
    forwarded_share: Annotated[float, Field(ge=0, le=1)] | None = None
    key: Annotated[tuple[FieldName, ...], Field(min_length=1)] | None = None
    aggregate: Aggregate | None = None
    output_bytes: Annotated[int, Field(ge=0, le=MOST_PAYLOAD_BYTES)] | None = None


class GraphStream(Frozen):
    """A stream of the graph: ``to`` subscribes to what ``from`` emits.

    Attributes
    ----------
    source : str
        The component that emits.
    target : str
        The component that subscribes.
    grouping : str
        How its tuples are shared among the tasks of ``to``, as under ``topology.groupings``.
    stream : str
        Name of the stream. A join emits on those that its subscribers name, in the file's order; all other
        components emit on ``default`` only.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]
    grouping: Literal["shuffle", "fields", "local-or-shuffle", "all", "global", "none", "partial-key"]
    stream: str = "default"

    def plain(self) -> Stream:
        """Return it as the query plan has it."""
        return Stream(source=self.source, target=self.target, grouping=self.grouping, stream=self.stream)


def own_graph(
    name: str, components: Mapping[str, GraphComponent], streams: tuple[GraphStream, ...]
) -> TestTopology:
    """Return the graph as a test topology.

    Raises
    ------
    ValueError
        Naming the component or stream of which no topology can be made.

    Examples
    --------
    >>> ends = {"in": GraphComponent(role="spout"), "out": GraphComponent(role="sender")}
    >>> way = GraphStream(source="in", target="out", grouping="shuffle")
    >>> own_graph("two", ends, (way,)).streams[0].label
    'in->out:default'
    >>> own_graph("none", ends, ())
    Traceback (most recent call last):
    ...
    ValueError: streams: nobody subscribes to in: each way must end at a sender
    """
    roles = {name: c.role for name, c in components.items()}
    for component, role in roles.items():
        if role not in ROLES:
            raise ValueError(f"components.{component}: there is no role {role!r}: {', '.join(ROLES)}")
    checks = _GraphCheck({c: ROLES[role] for c, role in roles.items()}, streams)
    for problem in checks.problems():
        raise ValueError(problem)
    return TestTopology(name, roles, tuple(s.plain() for s in streams), doc="The experiment's own graph.")


class _GraphCheck:
    """Finds what is wrong with a graph; the first problem is enough, later checks rely on earlier ones."""

    def __init__(self, roles: Mapping[str, RoleTraits], streams: tuple[GraphStream, ...]) -> None:
        self._roles = roles
        self._streams = streams
        self._sources: dict[str, list[str]] = {name: [] for name in roles}

    def problems(self) -> Iterator[str]:
        """Yield every problem, in one line each."""
        yield from self._ends()
        for s in self._streams:
            self._sources[s.target].append(s.source)
        yield from self._inputs()
        if loop := self._loop():
            ways = " -> ".join(loop)
            yield f"streams: {ways} is a loop: a topology's messages go one way, leave one of these out"
        for name in self._roles:
            yield from self._upstream(name)

    def _ends(self) -> Iterator[str]:
        taken: set[tuple[str, str]] = set()
        for i, s in enumerate(self._streams):
            at = f"streams.{i}"
            for end in (s.source, s.target):
                if end not in self._roles:
                    yield f"{at}: there is no component {end!r}; there are {', '.join(self._roles)}"
            if (s.source, s.target) in taken:
                yield f"{at}: {s.target} subscribes to {s.source} already: leave one of the two out"
            taken.add((s.source, s.target))
            if self._roles[s.target].spout:
                yield f"{at}: {s.target} is a spout and takes no stream"
            role = self._roles[s.source]
            if not role.emits_on(s.stream):
                yield f"{at}: {s.source} does not emit on {s.stream!r}; it emits on {KNOWN[role.emits]}"
            if s.stream.startswith("__"):
                yield f"{at}: {s.stream} is a name of Storm's own: streams may not begin with __"

    def _inputs(self) -> Iterator[str]:
        spouts = [name for name, role in self._roles.items() if role.spout]
        if not spouts:
            yield "components: one of them must have the role spout"
        heard = {s.source for s in self._streams}
        for name, role in self._roles.items():
            if not role.spout and not self._sources[name]:
                yield f"streams: {name} has no input: let it subscribe to a component"
            if role.emits != "nothing" and name not in heard:
                yield f"streams: nobody subscribes to {name}: each way must end at a sender"
            count = len(self._sources[name])
            if 0 < count < role.inputs:
                yield f"streams: {name} joins {role.inputs} components or more and subscribes to {count}"

    def _loop(self) -> list[str]:
        """Return a loop from a component back to itself; empty where the graph has no loop."""
        open_paths = [[name] for name in self._roles]
        done: set[str] = set()
        while open_paths:
            path = open_paths.pop()
            if path[-1] in done:
                continue
            onward = [s.target for s in self._streams if s.source == path[-1] and s.target not in done]
            for name in onward:
                if name in path:
                    return [*path[path.index(name) :], name]
            if onward:
                open_paths += [path, *([*path, name] for name in onward)]
            else:
                done.add(path[-1])
        return []

    def _upstream(self, name: str) -> Iterator[str]:
        """Say where what a component does is not possible behind what others did before."""
        role = self._roles[name]
        for before in sorted(self._before(name), key=list(self._roles).index):
            if role.key == "keep" and self._roles[before].windowed:
                yield (
                    f"streams: {name} filters what {before} gathered: what it leaves out would be known to"
                    " nobody; put it before"
                )

    def _before(self, name: str) -> set[str]:
        reached: set[str] = set()
        waiting = [name]
        while waiting:
            for source in self._sources[waiting.pop()]:
                if source not in reached:
                    reached.add(source)
                    waiting.append(source)
        return reached


def require_parity(graph: TestTopology, joins: Mapping[str, Routing]) -> None:
    """Require that a join that chooses one of two streams by its two inputs has just these.

    Where one stream is heard, nobody hears the windows of the other.

    Raises
    ------
    ValueError
        For a join with ``parity`` that has other inputs, or more streams.
    """
    for name, routing in joins.items():
        streams = list(dict.fromkeys(s.stream for s in graph.streams if s.source == name))
        inputs = [s.source for s in graph.streams if s.target == name]
        if routing == "parity" and (len(streams) > 2 or len(inputs) != 2):
            raise ValueError(
                f"streams: parity of {name} is of two inputs and at most two streams; it subscribes to"
                f" {', '.join(inputs)} and is heard on {', '.join(streams)}"
            )


def require_few_copies(plan: QueryPlan, multipliers: Mapping[str, Multiplier]) -> None:
    """Require that no component gets so much of one message that no cluster could serve it.

    Raises
    ------
    ValueError
        Naming the first such component.
    """
    for spout in plan.spouts:
        for name, copies in tuples_per_message(plan, {}, {spout: 1.0}).items():
            if copies > MOST_COPIES:
                raise ValueError(
                    f"streams: {name} gets each message {copies:.0f} times over, at most {MOST_COPIES} are"
                    " possible"
                )
    for name, ways in numberings(plan, {n: m.max for n, m in multipliers.items()}).items():
        count = sum(prod(way) for way in ways)
        largest = max(reduce(lambda name, most: child_name(name, most, most), way, 0) for way in ways)
        if count > MOST_CHILDREN or largest >= CHILD_NAMES:
            raise ValueError(
                f"streams: {name} may get {count} children of each message, at most {MOST_CHILDREN} are"
                " possible: give the multipliers on its ways a smaller max"
            )
