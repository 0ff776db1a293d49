"""A topology that nobody here wrote: a jar, the class whose main submits it, and what it submits.

Only the topology's own ``main`` knows its components and streams. So a run begins by capturing the topology
that main submits (``harness.storm.capturing``). The run keeps the captured topology in its
``experiment.yaml``: everything later reads that file and needs no jar.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NoReturn, Self

from pydantic import Field, model_validator

from harness.plans import METRICS_CONSUMER_PREFIX, Frozen, Positive, QueryPlan, Role
from harness.topologies.batching import require_batched
from harness.topologies.bounds import ALL_TASKS, AskedExecutors, Count, StormValue
from harness.topologies.dataset_rows import Fields
from harness.topologies.helping import require_helped
from harness.topologies.rewriting import RewritableTopology
from harness.topologies.roles import traits
from harness.topologies.traffic import OwnTraffic, TopicTraffic

ACKERS = "topology.acker.executors"
LOAD_AWARE_OFF = "topology.disable.loadaware.messaging"
MESSAGE_TIMEOUT = "topology.message.timeout.secs"
CONSUMERS = "topology.metrics.consumer.register"
EVENT_LOGGERS = "topology.eventlogger.executors"
EVENT_LOGGER = "__eventlogger"
"""Storm's name for the component that keeps samples of tuples."""
MAX_TASKS = "topology.max.task.parallelism"
MAIN_HEAP_MB = 256
"""Heap of a main that asks for no other."""
MAIN_PATIENCE_S = 60
"""Longest time that a main may take until it submits, where nothing else is asked."""
MANAGED = {
    ACKERS: "topology.ackers",
    LOAD_AWARE_OFF: "topology.load_aware",
    "topology.worker.max.heap.size.mb": "cluster.worker_heap_mb",
    "topology.workers": "workers of a step",
    "topology.stats.sample.rate": "none: every tuple is counted",
    "topology.tasks": "topology.tasks",
    MAX_TASKS: "topology.tasks",
}
"""Storm settings that have a key of their own, or none."""
NAME = "{name}"
"""Stands in ``args`` for a name that no other run has."""
CAPTURED_AS = "captured-topology"
"""Stands for ``{name}`` in arguments while a topology is captured."""
ENTRANCE = "input"
BOOTSTRAP, INPUT_TOPIC, OUTPUT_TOPIC = "{bootstrap}", "{input_topic}", "{output_topic}"
"""Stand in ``args`` for the run's Kafka and the two topics that the harness makes there."""


class Captured(Frozen):
    """The topology as its main submitted it, before the harness changed anything.

    Attributes
    ----------
    sha256 : str
        Of the jar.
    topology : str
        Storm's name for it.
    plan : QueryPlan
        Spouts and bolts with their tasks (those asked for, where the experiment asks for others), windows and
        streams.
    executors : mapping
        Executors that main asks for, of every component of the plan.
    storms : mapping
        Executors of the components that Storm added: those of checkpoints. Not part of the plan.
    unwrapped : mapping
        Components that cannot be instrumented, and why.
    settings : mapping
        Storm's settings in force: its defaults for topologies, and the topology's own.
    """

    sha256: str
    topology: str
    plan: QueryPlan
    executors: Mapping[str, Positive]
    storms: Mapping[str, Positive] = {}
    unwrapped: Mapping[str, str] = {}
    settings: Mapping[str, StormValue] = {}


def added_by_settings(settings: Mapping[str, StormValue]) -> Mapping[str, int]:
    """Return executors of what settings make Storm add, by its names: metrics consumers and event loggers.

    Examples
    --------
    >>> twice = [{"class": "a.Log", "parallelism.hint": 2}, {"class": "a.Log"}]
    >>> added_by_settings({CONSUMERS: twice, EVENT_LOGGERS: 1})
    {'__metrics_a.Log': 2, '__metrics_a.Log#2': 1, '__eventlogger': 1}
    """
    registered = settings.get(CONSUMERS)
    found: dict[str, int] = {}
    times: Counter[str] = Counter()
    for each in registered if isinstance(registered, list) else []:
        if isinstance(each, Mapping) and "class" in each:
            name = str(each["class"])
            times[name] += 1
            number = f"#{times[name]}" if times[name] > 1 else ""
            hint = each.get("parallelism.hint")
            found[f"{METRICS_CONSUMER_PREFIX}_{name}{number}"] = hint if isinstance(hint, int) else 1
    loggers = settings.get(EVENT_LOGGERS)
    return {**found, EVENT_LOGGER: loggers} if isinstance(loggers, int) and loggers > 0 else found


class JarTopics(Frozen):
    """Messages of a topology whose input and output are Kafka topics: their form, name and outputs.

    Attributes
    ----------
    header : str, optional
        The header that names a message, which the topology has to carry from input to output. Without it the
        record's key does.
    value : str
        Template of the input records' values: ``{payload}`` becomes the workload's payload, ``{key}`` one of
        its keys, ``{message}`` the message's name.
    outputs : {'one', 'any'}
        Whether each message comes out once, or some of them not at all and others several times.
    """

    header: Annotated[str, Field(min_length=1)] | None = None
    value: str = "{payload}"
    outputs: Literal["one", "any"] = "one"


class JarTopology(RewritableTopology):
    """A topology as its own jar submits it; what is not said here stays as the jar has it.

    Attributes
    ----------
    jar : Path
        The jar, as one would give it to ``storm jar`` (docs/own-topology.md); beside the experiment's
        file.
    main : str
        The class whose main submits the topology.
    args : list of str
        Its arguments; ``{name}`` in one becomes a name that no other run has. With ``topics`` they
        give main ``{bootstrap}``, ``{input_topic}`` and ``{output_topic}``.
    topics : JarTopics
        Where it reads one Kafka topic and writes another: then the harness sends and receives its
        messages. Without it there is no ``workload``.
    tasks : mapping
        Tasks of components that shall not have as many as the jar says.
    ackers : int
        Acker executors; as the jar has them by default.
    metrics_consumers : int
        Executors of the metrics consumer.
    load_aware : bool
        Storm's load-aware shuffle on or off; as the jar has it by default.
    main_heap_mb : int
        Heap of the program that main runs in.
    main_patience_s : int
        How long main may take until it submits.
    storm : mapping
        Storm settings that take the place of the topology's own.
    """

    jar: Path
    main: Annotated[str, Field(pattern=r"^[\w$]+(\.[\w$]+)*$")]
    args: tuple[str, ...] = ()
    topics: JarTopics | None = None
    tasks: Mapping[str, Count] = {}
    ackers: Annotated[int, Field(ge=0, le=10_000)] | None = None
    metrics_consumers: Count = 1
    load_aware: bool | None = None
    main_heap_mb: Annotated[int, Field(ge=64, le=65536)] = MAIN_HEAP_MB
    main_patience_s: Annotated[int, Field(ge=1, le=3600)] = MAIN_PATIENCE_S
    storm: Mapping[str, StormValue] = {}
    captured: Captured | None = None
    """Filled in when a run begins."""

    @property
    def name(self) -> str:
        """The topology's name in one word: Storm's, or that of its main class before the capture."""
        return self.captured.topology if self.captured else self.main.rpartition(".")[2]

    def traffic(self) -> TopicTraffic | OwnTraffic:
        """Return how messages go through it: between the topics that it is given, or made by itself."""
        if self.topics is None:
            return OwnTraffic()
        return TopicTraffic(self.topics.header, self.topics.value, free=self.topics.outputs == "any")

    def own(self) -> NoReturn:
        """Raise ValueError: what its bolts do is not known here."""
        raise ValueError(f"topology.jar: {self.title} is not one of the harness's own topologies")

    def check_measured(self, *, instrument: bool) -> None:
        """Raise ValueError without instrumentation: nothing else reports of it."""
        if not instrument:
            raise ValueError("measure.instrument: without it nothing of a jar's topology is measured")

    @property
    def known(self) -> bool:
        """True once the topology was captured: its components are known."""
        return self.captured is not None

    @property
    def entrances(self) -> tuple[str, ...]:
        """Where messages come in: one input topic, whoever reads it."""
        return (ENTRANCE,)

    @property
    def key_groups(self) -> Mapping[str, int]:
        """Key groups of its components: none that the harness could move."""
        return {}

    def check_rows(self, fields: Fields | None) -> None:
        """Pass: nobody knows which fields it reads."""
        del fields

    @property
    def title(self) -> str:
        """Its main, as a reader knows it."""
        return self.main

    @property
    def poll_timeout_ms(self) -> float | None:
        """None: no Storm setting says how long its spouts' polls may wait."""
        return None

    @property
    def unwrapped(self) -> Mapping[str, str]:
        """Components that cannot be instrumented, and why; none before it was captured."""
        return self.captured.unwrapped if self.captured else {}

    def arguments(self, name: str, bootstrap: str, input_topic: str, output_topic: str) -> list[str]:
        """Return main's arguments with what they stand for."""
        known = {NAME: name, BOOTSTRAP: bootstrap, INPUT_TOPIC: input_topic, OUTPUT_TOPIC: output_topic}
        stands = re.compile("|".join(map(re.escape, known)))
        return [stands.sub(lambda found: known[found[0]], a) for a in self.args]

    @property
    def roles(self) -> Mapping[str, Role]:
        """Components and their roles; none before it was captured."""
        return {c.name: c.role for c in self.captured.plan.components} if self.captured else {}

    def task_counts(self) -> dict[str, int]:
        """Return the number of tasks of every component; none before it was captured."""
        return {c.name: c.tasks for c in self.captured.plan.components} if self.captured else {}

    def query_plan(self) -> QueryPlan:
        """Return the query plan that was captured.

        Raises
        ------
        ValueError
            When it was not.
        """
        if self.captured is None:
            raise ValueError(f"{self.jar}: what its main submits was not captured")
        return self.captured.plan

    def described(self) -> list[str]:
        """Return lines for a reader: what its main submits, once it was captured."""
        plan, asked = self.query_plan(), self.executors({})
        rows = [("component", "kind", "executors", "tasks", "instrumented")]
        for c in plan.components:
            kind = "spout" if traits(c.role).spout else "bolt"
            if c.window:
                unit = "ms" if c.window.kind == "time" else "tuples"
                kind += f", window of {c.window.length} {unit} every {c.window.slide}"
            reason = self.unwrapped.get(c.name)
            told = f"no: it {reason}" if reason else "yes"
            rows.append((c.name, kind, str(asked[c.name]), str(c.tasks), told))
        name, kinds, *_ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{self.main} submits {self.name.replace(CAPTURED_AS, NAME)!r}"]
        lines += [f"{r[0]:<{name}}  {r[1]:<{kinds}}  {r[2]:>9}  {r[3]:>5}  {r[4]}" for r in rows]
        if self.others:
            lines.append("Storm adds " + ", ".join(f"{count} {of}" for of, count in self.others.items()))
        for s in plan.streams:
            named = "" if s.stream == "default" else f", stream {s.stream}"
            lines.append(f"  {s.source} -> {s.target}: {s.grouping}{named}")
        return lines

    def executors(self, asked: AskedExecutors) -> dict[str, int]:
        """Return the executors of every component: as asked, or else as the jar has them."""
        if asked == ALL_TASKS:
            return self.task_counts()
        own = dict(self.captured.executors) if self.captured else {}
        return dict.fromkeys(own, asked) if isinstance(asked, int) else own | dict(asked)

    @property
    def own_settings(self) -> Mapping[str, StormValue]:
        """Storm settings that are in force where the experiment asks for nothing else."""
        return self.captured.settings if self.captured else {}

    @property
    def others(self) -> Mapping[str, int]:
        """Executors of Storm's own components, and of event loggers and metrics consumers of its settings."""
        storms = self.captured.storms if self.captured else {}
        return {**storms, **added_by_settings(self.settings_in_force)}

    @property
    def settings_in_force(self) -> dict[str, StormValue]:
        """Storm settings that the jar is submitted with: its own, and the experiment's in their place."""
        return {**self.own_settings, **self.storm}

    def overrides(self) -> dict[str, StormValue]:
        """Return the Storm settings that take the place of the topology's own."""
        aware = {} if self.load_aware is None else {LOAD_AWARE_OFF: not self.load_aware}
        return {**aware, **self.storm}

    @model_validator(mode="after")
    def _told_of_topics(self) -> Self:
        for stands in (BOOTSTRAP, INPUT_TOPIC, OUTPUT_TOPIC):
            given = any(stands in a for a in self.args)
            if self.topics is not None and not given:
                raise ValueError(f"args: with topics, one of them has to give main {stands}")
            if self.topics is None and given:
                raise ValueError(
                    f"args: {stands} has a meaning only with the key 'topics' (topics: {{}} at least)"
                )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for setting in self.storm:
            if setting in MANAGED:
                raise ValueError(f"storm: {setting} is set by the harness; its key is {MANAGED[setting]}")
        known = self.roles
        for name in self.tasks:
            if known and name not in known:
                raise ValueError(f"tasks: there is no component {name!r}; there are {', '.join(known)}")
        if self.captured and self.batching:
            timeout_s = self.settings_in_force.get(MESSAGE_TIMEOUT)
            assert isinstance(timeout_s, int | float)  # Storm has a default
            require_batched(self.batching, self.captured.plan, timeout_s)
        if self.captured:
            require_helped(self.helping, self.captured.plan, self.settings_in_force, own_roles=False)
        return self
