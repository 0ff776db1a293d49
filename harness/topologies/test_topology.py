"""The topology of an experiment where it is one of the harness's own: which, and all settings of its jar."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen, Grouping, Positive, QueryPlan, Role, Window
from harness.topologies import TOPOLOGIES
from harness.topologies.batching import require_batched
from harness.topologies.bounds import ALL_TASKS, AskedExecutors, Count, Counts, Milliseconds, StormValue
from harness.topologies.component_settings import Multiplier, Routing, ServiceTime
from harness.topologies.dataset_rows import Aggregate, Fields, require_fields
from harness.topologies.drawing import draw
from harness.topologies.graph import TestTopology
from harness.topologies.helping import require_helped
from harness.topologies.jar import MAIN_HEAP_MB, MAIN_PATIENCE_S, MAX_TASKS, added_by_settings
from harness.topologies.key_groups import require_key_groups
from harness.topologies.own_graph import (
    GRAPH,
    ComponentName,
    GraphComponent,
    GraphStream,
    own_graph,
    require_few_copies,
    require_parity,
)
from harness.topologies.reference_chain import ReferenceChain
from harness.topologies.rewriting import RewritableTopology
from harness.topologies.roles import ROLES
from harness.topologies.traffic import HopTraffic

MANAGED = {
    "topology.disable.loadaware.messaging": "topology.load_aware",
    "topology.acker.executors": "topology.ackers",
    "topology.max.spout.pending": "topology.max_spout_pending",
    "topology.message.timeout.secs": "topology.message_timeout_s",
    "topology.worker.max.heap.size.mb": "cluster.worker_heap_mb",
    "topology.workers": "workers of a step",
    "topology.stats.sample.rate": "none: every tuple is counted",
    "topology.tasks": "topology.tasks",
    MAX_TASKS: "topology.tasks",
    "topology.bolt.wait": "topology.waiting",
    "topology.spout.wait": "topology.waiting",
}
"""Storm settings that have a key of their own, or none: by the start of their name."""

WAIT_STRATEGIES = {
    "progressive": "org.apache.storm.policy.WaitStrategyProgressive",
    "park": "org.apache.storm.policy.WaitStrategyPark",
}


class Spout(Frozen):
    """Settings by which storm-kafka-client's spout reads; docs/experiments.md explains each.

    Attributes
    ----------
    poll_timeout_ms : int
        How long an empty poll may hold the executor in ms. The executor's other spout tasks and acks
        wait that long.
    commit_period_ms : int
        How often offsets are committed, in ms. A restarted worker reads again what was not.
    guarantee : {'no-guarantee', 'at-least-once', 'at-most-once'}
        ``no-guarantee`` tracks tuples: acks and complete latency work, and a rebalance replays
        nothing.
    consumer : mapping
        Settings of the spout's Kafka consumer, by Kafka's names.
    """

    poll_timeout_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 1
    commit_period_ms: Milliseconds = 1000
    guarantee: Literal["no-guarantee", "at-least-once", "at-most-once"] = "no-guarantee"
    consumer: Mapping[str, str] = {"fetch.max.wait.ms": "500", "max.poll.records": "500"}


class WaitStrategy(Frozen):
    """Waiting of an idle executor: spin, then park, then sleep. The sleep is part of every hop.

    Attributes
    ----------
    strategy : {'progressive', 'park'}
        Storm's wait strategy of spouts and bolts.
    level1_count, level2_count : int
        Of ``progressive``: rounds that an idle executor spends in this level.
    sleep_ms : int
        Length of the sleep in ms, which is part of every hop.
    """

    strategy: Literal["progressive", "park"] = "progressive"
    level1_count: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1
    level2_count: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1
    sleep_ms: Annotated[int, Field(ge=1, le=60_000)] = 1

    def storm(self) -> dict[str, StormValue]:
        """Return the Storm settings of spouts and bolts."""
        out: dict[str, StormValue] = {}
        for kind in ("spout", "bolt"):
            prefix = f"topology.{kind}.wait"
            out[f"{prefix}.strategy"] = WAIT_STRATEGIES[self.strategy]
            if self.strategy == "park":
                out[f"{prefix}.park.microsec"] = self.sleep_ms * 1000
            else:
                out[f"{prefix}.progressive.level1.count"] = self.level1_count
                out[f"{prefix}.progressive.level2.count"] = self.level2_count
                out[f"{prefix}.progressive.level3.sleep.millis"] = self.sleep_ms
        return out


CONSUMERS_OURS = frozenset(
    {"bootstrap.servers", "group.id", "enable.auto.commit", "key.deserializer", "value.deserializer"}
)
PRODUCERS_OURS = frozenset({"bootstrap.servers", "key.serializer", "value.serializer"})
CODECS = ("none", "gzip")
TASKS = 16
"""Tasks of components of which nothing is said."""


class Topology(RewritableTopology):
    """Which topology, and everything about it that a rebalance does not change.

    Attributes
    ----------
    name : str
        ``fields-to-fields``, ``multiplier``, ``windowed``, ``all-in-one`` or ``join-split``; of a
        graph of your own, what it is called (``graph``).
    components : mapping
        In place of a shipped topology: the components of a graph of your own, by name
        (docs/add-a-topology.md).
    streams : list
        The streams of the same graph.
    reference : ReferenceChain
        In place of ``components`` and ``streams``: the parameters of the reference topology of Aniello,
        Baldoni and Querzoni (DEBS 2013), which the graph is made of.
    load_aware : bool
        Storm's load-aware shuffle; the file always says it. ``false`` is round-robin. With ``true``
        only the first task of an executor gets tuples.
    tasks : int or mapping
        Tasks of each component: one number for all, or a mapping.
    ackers : int
        Acker executors; one a slot by default.
    metrics_consumers : int
        Executors of the metrics consumer.
    groupings : mapping
        Groupings in place of the drawn ones by ``source->target``.
    window : Window
        Window of the components that have one.
    multiplier : Multiplier
        How many tuples a multiplier makes of one: a rounded normal draw, drawn again until it lies
        within. At least 1 % of the draws must.
    routing : {'one-per-window', 'parity'}
        Streams on which a join emits: ``one-per-window`` (Fish-1) or ``parity`` (Fish-2).
    service : mapping
        Work on each tuple, by bolt; none by default.
    spout : Spout
        How the spouts read Kafka.
    producer : mapping
        Settings of the senders' Kafka producer, by Kafka's names.
    waiting : WaitStrategy
        How idle executors wait.
    max_spout_pending : int
        Trees in flight for each spout task.
    message_timeout_s : int
        Seconds until a tree fails; more than twice the rarest key's window.
    storm : mapping
        Any Storm setting that has no key of its own.
    """

    main_heap_mb: ClassVar[int] = MAIN_HEAP_MB
    main_patience_s: ClassVar[int] = MAIN_PATIENCE_S

    name: str = GRAPH
    components: Annotated[Mapping[ComponentName, GraphComponent], Field(min_length=1)] | None = None
    streams: tuple[GraphStream, ...] | None = None
    reference: ReferenceChain | None = None
    load_aware: bool
    tasks: Counts = TASKS
    ackers: Count | None = None
    metrics_consumers: Count = 1
    groupings: Mapping[str, Grouping] = {}
    window: Window | None = None
    multiplier: Multiplier | None = None
    routing: Routing | None = None
    service: Mapping[str, ServiceTime] = {}
    spout: Spout = Spout()
    producer: Mapping[str, str] = {"linger.ms": "0", "acks": "1"}
    waiting: WaitStrategy = WaitStrategy()
    max_spout_pending: Positive = 5000
    message_timeout_s: Annotated[int, Field(ge=1, le=604_800)] = 120
    storm: Mapping[str, StormValue] = {}

    def traffic(self) -> HopTraffic:
        """Return how messages go through it: every hop of those that are sent is recorded."""
        return HopTraffic()

    def own(self) -> Topology:
        """Return it: it is one of the harness's own."""
        return self

    def check_measured(self, *, instrument: bool) -> None:
        """Pass: its hop records are there without wrappers."""

    @property
    def known(self) -> bool:
        """True always: the components of the harness's own topologies are known."""
        return True

    def described(self) -> list[str]:
        """Return lines for a reader: the drawing of its query plan."""
        return draw(self.query_plan())

    @property
    def unwrapped(self) -> Mapping[str, str]:
        """Components that cannot be instrumented, and why: none."""
        return {}

    @property
    def entrances(self) -> tuple[str, ...]:
        """Where messages come in, each from an input topic of its own: the spouts."""
        return tuple(name for name, role in self.roles.items() if ROLES[role].spout)

    @property
    def title(self) -> str:
        """Its name, as a reader knows it."""
        return self.name

    @property
    def poll_timeout_ms(self) -> float | None:
        """Longest time that a poll of its spouts may wait for messages, in ms."""
        return float(self.spout.poll_timeout_ms)

    @cached_property
    def graph(self) -> TestTopology:
        """Components and streams: the experiment's own, or those of the topology that it names.

        Raises
        ------
        ValueError
            Where no topology can be made of the experiment's own.
        """
        if not self._given:
            return TOPOLOGIES[self.name]
        streams = self.reference.streams if self.reference else self.streams or ()
        return own_graph(self.name, self._given, streams)

    @property
    def roles(self) -> Mapping[str, Role]:
        """Components of the topology and their roles."""
        return self.graph.components

    def task_counts(self) -> dict[str, int]:
        """Return the number of tasks of every component."""
        given = {name: c.tasks for name, c in self._given.items() if c.tasks is not None}
        asked = dict.fromkeys(self.roles, self.tasks) if isinstance(self.tasks, int) else self.tasks
        return {name: given.get(name) or asked[name] for name in self.roles}

    @property
    def services(self) -> Mapping[str, ServiceTime]:
        """Work on each tuple, of the bolts that have any."""
        return {**self.service, **{n: c.service for n, c in self._given.items() if c.service is not None}}

    @property
    def multipliers(self) -> Mapping[str, Multiplier]:
        """Number of tuples that each multiplier makes of one, by component."""
        given = {n: self._of(n).multiplier or self.multiplier for n in self._using("multiplier")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def routings(self) -> Mapping[str, Routing]:
        """On which streams each join emits."""
        given = {n: self._of(n).routing or self.routing for n in self._using("routing")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def keeps(self) -> Mapping[str, float]:
        """The share of the tuples that each filter passes on."""
        return {name: c.keep for name, c in self._given.items() if c.keep is not None}

    @property
    def key_groups(self) -> Mapping[str, int]:
        """The number of key groups of each component that has its state in them."""
        return {name: c.groups for name, c in self._given.items() if c.groups is not None}

    @property
    def output_bytes(self) -> Mapping[str, int]:
        """Payload of all that a component emits, of those that do not pass on what they get."""
        return {name: c.output_bytes for name, c in self._given.items() if c.output_bytes is not None}

    @property
    def forwarded_shares(self) -> Mapping[str, float]:
        """The share of the tuples whose key a component passes on, of those that do not draw keys anew."""
        return {n: c.forwarded_share for n, c in self._given.items() if c.forwarded_share is not None}

    @property
    def row_keys(self) -> Mapping[str, tuple[str, ...]]:
        """Fields of a row that make the keys of what a component emits, of those that make them so."""
        return {name: c.key for name, c in self._given.items() if c.key is not None}

    @property
    def aggregates(self) -> Mapping[str, Aggregate]:
        """The aggregate of each keyed component that does not only count."""
        return {name: c.aggregate for name, c in self._given.items() if c.aggregate is not None}

    def check_rows(self, fields: Fields | None) -> None:
        """Raise ValueError where rows have not the fields that components make something of.

        Parameters
        ----------
        fields : mapping, optional
            Fields of the workload's dataset; None where it has none.
        """
        replacing = frozenset(self.output_bytes)
        require_fields(self.query_plan(), self.row_keys, self.aggregates, replacing, fields)

    @property
    def ratios(self) -> Mapping[str, float]:
        """Tuples that a component makes of one, on average, of those that make more or less than one."""
        return {**{name: m.mean for name, m in self.multipliers.items()}, **self.keeps}

    @property
    def _given(self) -> Mapping[str, GraphComponent]:
        """Components of a graph in the file, written out or made of the reference's parameters."""
        return self.reference.components if self.reference else self.components or {}

    def _of(self, name: str) -> GraphComponent:
        """Return a component as the file gives it; those of the shipped topologies have their role alone."""
        return self._given.get(name) or GraphComponent(role=self.roles[name])

    def _using(self, key: str) -> list[str]:
        """Return the components whose roles need a key."""
        return [name for name in self.roles if key in self.graph.traits(name).keys]

    def query_plan(self) -> QueryPlan:
        """Return the query plan with this experiment's tasks, windows and groupings."""
        windows = {name: c.window for name, c in self._given.items() if c.window is not None}
        return self.graph.query_plan(self.task_counts(), self.window, self.groupings, windows)

    def executors(self, asked: AskedExecutors) -> dict[str, int]:
        """Return the executors of every component."""
        if asked == ALL_TASKS:
            return self.task_counts()
        return dict.fromkeys(self.roles, asked) if isinstance(asked, int) else dict(asked)

    @property
    def own_settings(self) -> Mapping[str, StormValue]:
        """Storm settings that the experiment does not ask for: none."""
        return {}

    @property
    def others(self) -> Mapping[str, int]:
        """Executors of components beside the query plan, ackers and metrics: what settings make Storm add."""
        return added_by_settings(self.storm)

    def overrides(self) -> dict[str, StormValue]:
        """Return the Storm settings that the experiment asks for."""
        return {
            **self.waiting.storm(),
            "topology.disable.loadaware.messaging": not self.load_aware,
            "topology.max.spout.pending": self.max_spout_pending,
            "topology.message.timeout.secs": self.message_timeout_s,
            **self.storm,
        }

    @model_validator(mode="after")
    def _accepted_by_the_jar(self) -> Self:
        for key, given, ours in (
            ("spout.consumer", self.spout.consumer, CONSUMERS_OURS),
            ("producer", self.producer, PRODUCERS_OURS),
        ):
            if taken := sorted(set(given) & ours):
                raise ValueError(f"{key}: {taken[0]} is set by the harness")
        if (codec := self.producer.get("compression.type", "none")) not in CODECS:
            raise ValueError(
                f"producer: compression.type {codec} is not in the jar, only {', '.join(CODECS)} are"
            )
        for edge, grouping in self.groupings.items():
            if grouping in ("direct", "custom"):
                raise ValueError(
                    f"groupings: {edge}: only the topology of a jar can have {grouping} grouping"
                )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._check_named()
        roles = self.roles
        for key in ("multiplier", "routing", "window", "keep", "groups"):
            self._check_key(key)
        self._check_components()
        left = [name for name in roles if self._of(name).tasks is None]
        if not isinstance(self.tasks, int) and set(self.tasks) != set(left):
            raise ValueError(f"tasks must name each of {', '.join(left)}")
        for name in self.service:
            if name not in roles or ROLES[roles[name]].spout:
                raise ValueError(f"service: there is no bolt {name!r} in {self.name} ({', '.join(roles)})")
        for setting in self.storm:
            for start, key in MANAGED.items():
                if setting.startswith(start):
                    raise ValueError(f"storm: {setting} is set by the harness; its key is {key}")
        edges = [f"{s.source}->{s.target}" for s in self.graph.streams]
        for edge in self.groupings:
            if edge not in edges:
                raise ValueError(f"groupings: there is no stream {edge!r}; streams are {', '.join(edges)}")
        self._check_copies()
        require_batched(self.batching, self.query_plan(), self.message_timeout_s)
        require_helped(self.helping, self.query_plan(), self.storm, own_roles=True)
        require_key_groups(self.query_plan(), self.key_groups)
        return self

    def _check_named(self) -> None:
        """Require one of the shipped topologies' names, or a graph."""
        if self.reference is not None and not (self.components is None and self.streams is None):
            raise ValueError("reference: it stands in place of components and streams: leave these out")
        if self.reference is not None and self.tasks != TASKS:
            raise ValueError("tasks: reference.replication says how many there are: leave tasks out")
        if (self.components is None) != (self.streams is None):
            missing = "components" if self.components is None else "streams"
            raise ValueError(f"the key {missing!r} is missing: a graph has components and streams")
        if self._given and self.name in TOPOLOGIES:
            raise ValueError(f"name: {self.name} is a shipped topology: give the graph another name, or none")
        if not self._given and "name" not in self.model_fields_set:
            raise ValueError("the key 'name' is missing: name a topology, or give components and streams")
        if not self._given and self.name not in TOPOLOGIES:
            raise ValueError(f"unknown topology {self.name!r}: choose one of {', '.join(TOPOLOGIES)}")

    def _check_key(self, key: str) -> None:
        """Require a key where a component needs it, and nowhere else."""
        using = self._using(key)
        default = getattr(self, key, None) is not None  # a filter says itself what it keeps
        if default and not using:
            raise ValueError(f"topology {self.name} has no use for the key {key!r}")
        for name, component in self._given.items():
            own = getattr(component, key) is not None
            if own and name not in using:
                raise ValueError(f"components.{name}: a {component.role} has no use for the key {key!r}")
        for name in using:
            if not default and getattr(self._of(name), key) is None:
                what = f"components.{name}" if self._given else f"topology {self.name}"
                raise ValueError(f"{what} needs the key {key!r}")

    def _check_components(self) -> None:
        """Require that the components' own settings are such as the jar accepts."""
        for name, component in self._given.items():
            if component.service is not None and ROLES[component.role].spout:
                raise ValueError(f"components.{name}: a {component.role} has no service time of its own")
            if component.forwarded_share is not None and not ROLES[component.role].forwards:
                forwarding = " and ".join(role for role, row in ROLES.items() if row.forwards)
                raise ValueError(
                    f"components.{name}: a {component.role} has no forwarded_share, only {forwarding} have"
                )
            if component.key is not None and not ROLES[component.role].forwards:
                raise ValueError(f"components.{name}: a {component.role} has no use for the key 'key'")
            if component.key is not None and component.forwarded_share is not None:
                raise ValueError(f"components.{name}: give key or forwarded_share")
            if component.aggregate is not None and not ROLES[component.role].keyed:
                raise ValueError(f"components.{name}: a {component.role} has no use for the key 'aggregate'")
            if component.output_bytes is not None and ROLES[component.role].emits == "nothing":
                raise ValueError(f"components.{name}: a {component.role} emits nothing that has output_bytes")
            if component.service is not None and name in self.service:
                raise ValueError(f"service: {name} has one in its component: give one of the two")
        require_parity(self.graph, self.routings)

    def _check_copies(self) -> None:
        if self._given:
            require_few_copies(self.query_plan(), self.multipliers)
