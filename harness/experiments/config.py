"""An experiment's file as one checked value; unknown keys, wrong types and impossible plans are errors.

The models below are the file's grammar: their field names are the YAML keys and, dotted, the names
that ``--set`` takes (``--set workload.rate_tps=100``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from harness.machine.named_paths import file_at
from harness.plans import Frozen, NotNegative, Positive, PositiveFloat, TopologyConfiguration
from harness.topologies.jar import ACKERS, JarTopology, StormValue
from harness.topologies.test_topology import Topology

Seed = Annotated[int, Field(ge=0, lt=2**63)]
TAGS = ("of-the-harness", "of-a-jar")
"""Kinds of topologies, in the places of errors."""

KEY_NAMES = tuple("ABCDEFGHIJKLMNOP")
DEFAULT_KEYS: Mapping[str, float] = {k: float(len(KEY_NAMES) - i) for i, k in enumerate(KEY_NAMES)}
"""Weights 16, 15, ... 1 of the keys A to P: skewed to the lower alphabet as figure 5.5 is, with the
rarest key (0.7 %) still frequent enough to fill its windows in a short interval."""

MOST_PAYLOAD_BYTES = 1_000_000
"""Kafka takes messages of up to 1 MiB; the rest is for what is around the payload."""
LEAST_BUCKETS = 5
"""Metric buckets in the shortest interval, which is rounded up to whole ones."""


def _kind(topology: object) -> str:
    of_a_jar = "jar" in topology if isinstance(topology, Mapping) else isinstance(topology, JarTopology)
    return TAGS[of_a_jar]


AnyTopology = Annotated[
    Annotated[Topology, Tag(TAGS[0])] | Annotated[JarTopology, Tag(TAGS[1])], Discriminator(_kind)
]
"""One of the harness's topologies, or anybody's: told by the key ``jar``."""


class Workload(Frozen):
    """The input: rate, schedule, keys and seed."""

    rate_tps: PositiveFloat
    arrivals: Literal["constant", "poisson", "trace"] = "constant"
    trace: Path | None = None
    seed: Seed = 1
    keys: Annotated[Mapping[str, PositiveFloat], Field(min_length=1)] = DEFAULT_KEYS
    payload_bytes: Annotated[int, Field(ge=0, le=MOST_PAYLOAD_BYTES)] = 64

    @model_validator(mode="after")
    def _trace_file(self) -> Self:
        if (self.arrivals == "trace") != (self.trace is not None):
            raise ValueError("the key 'trace' (a file) goes with arrivals: trace, only there")
        if self.trace is not None and file_at(self.trace) is None:
            raise ValueError(f"trace: there is no file {self.trace}")
        return self


class ClusterSpec(Frozen):
    """A real cluster on this machine: one supervisor a worker node, each on its own loopback address.

    Kind ``remote``: the one called ``name``, which ``harness provision`` made of ``file``; an experiment
    gives that file instead of these keys. Kind ``simulator``: nothing is started or measured; the same plans
    are played by the simulator.
    """

    kind: Literal["local", "remote", "simulator"] = "local"
    name: str = ""
    file: str = ""
    # beyond these a slot's port would be that of another server (backends/server_config.py)
    nodes: Annotated[int, Field(ge=1, le=20)] = 2
    slots_per_node: Annotated[int, Field(ge=1, le=80)] = 2
    worker_heap_mb: Annotated[int, Field(ge=64)] = 256
    worker_jit: Literal["c1", "full"] = "c1"
    cpu_quota_cores: Mapping[str, PositiveFloat] = {}

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if (self.kind == "remote") != bool(self.name and self.file):
            raise ValueError("give the file of a provisioned cluster, or a local one's nodes and slots")
        if self.kind == "remote" and self.cpu_quota_cores:
            raise ValueError("cpu_quota_cores: a provisioned cluster's nodes have all of their cores")
        if self.kind == "simulator" and self.cpu_quota_cores:
            raise ValueError("cpu_quota_cores: the simulator's nodes share one host's cores without quotas")
        return self


class BurnIn(Frozen):
    """The discarded start of a step: at least, at most, and the drift that still counts as steady."""

    least_s: NotNegative = 15
    most_s: PositiveFloat = 60
    drift_pct: PositiveFloat = 10


class IntervalSettings(Frozen):
    """The measured interval: it ends when the mean's 95 % interval is narrow enough, or at its most."""

    precision_pct: PositiveFloat = 3
    least_s: PositiveFloat = 30
    most_s: PositiveFloat = 60
    looks: Positive = 4


class Measure(Frozen):
    """How a step is measured."""

    bucket_s: Positive = 2
    burn_in: BurnIn = BurnIn()
    interval: IntervalSettings = IntervalSettings()
    attempts: Positive = 2
    instrument: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for key, part in (("burn_in", self.burn_in), ("interval", self.interval)):
            if part.least_s > part.most_s:
                raise ValueError(f"{key}: least_s {part.least_s:g} is more than most_s {part.most_s:g}")
        if LEAST_BUCKETS * self.bucket_s > self.interval.least_s:
            raise ValueError(
                f"bucket_s {self.bucket_s}: interval.least_s {self.interval.least_s:g} must hold"
                f" at least {LEAST_BUCKETS} buckets"
            )
        return self


class MetricStore(Frozen):
    """Where the metrics of a run arrive, before they are in its run directory."""

    store: Literal["embedded", "influxdb"] = "embedded"
    data: Path | None = None
    retention_days: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _only_of_a_server(self) -> Self:
        _only_with_a_server(self, "embedded", ("data", "retention_days"))
        return self


class PlanStore(Frozen):
    """Where the plans of a run are kept, beside its run directory."""

    store: Literal["none", "neo4j"] = "none"
    data: Path | None = None

    @model_validator(mode="after")
    def _only_of_a_server(self) -> Self:
        _only_with_a_server(self, "none", ("data",))
        return self


def _only_with_a_server(store: MetricStore | PlanStore, without: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        if store.store == without and getattr(store, key) is not None:
            raise ValueError(f"the key {key!r} has no meaning with store: {without}")


class StepSpec(Frozen):
    """One configuration as the file asks for it; what is left out comes from the experiment."""

    executors: Positive | Mapping[str, Positive]
    workers: Positive | None = None
    rate_tps: PositiveFloat | None = None
    fresh: bool = False


class Steps(Frozen):
    """The configurations and the order in which they are measured."""

    plan: Annotated[tuple[StepSpec, ...], Field(min_length=1)]
    order: Literal["listed", "shuffled"] = "listed"
    seed: Seed = 1
    repeats: Positive = 1


class Step(Frozen):
    """One configuration held for a time: what the campaign carries out."""

    index: int
    configuration: TopologyConfiguration
    rate_tps: PositiveFloat | None
    """None where the topology makes its own messages."""
    fresh: bool
    spec: int

    @property
    def label(self) -> str:
        """The same for repeats of one configuration."""
        counts = sorted(set(self.configuration.executors.values()))
        rate = "" if self.rate_tps is None else f"@{self.rate_tps:g}"
        return f"spec-{self.spec}/{'+'.join(map(str, counts))}x{self.configuration.workers}{rate}"


class Experiment(Frozen):
    """All that a run needs to know."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
    topology: AnyTopology
    workload: Workload | None = None
    """None where the topology makes its own messages."""
    cluster: ClusterSpec = ClusterSpec()
    measure: Measure = Measure()
    metrics: MetricStore = MetricStore()
    plans: PlanStore = PlanStore()
    steps: Steps
    models: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "composite",
        "no-change",
        "linear",
        "jackson",
        "storm-tracer",
    )

    @property
    def slots(self) -> int:
        """Slots of the whole cluster."""
        return self.cluster.nodes * self.cluster.slots_per_node

    @property
    def ackers(self) -> int:
        """Acker executors: as asked, else as the topology has them, else one a slot."""
        if self.topology.ackers is not None:
            return self.topology.ackers
        own = self.topology.own_settings.get(ACKERS)
        return own if isinstance(own, int) else self.slots

    @property
    def input(self) -> Workload:
        """The workload of a topology that has one.

        Raises
        ------
        ValueError
            When it makes its own messages.
        """
        if self.workload is None:
            raise ValueError(f"{self.name}: the topology makes its own messages")
        return self.workload

    def overrides(self) -> dict[str, StormValue]:
        """Return the Storm settings of the submission that the experiment decides."""
        return {
            **self.topology.overrides(),
            ACKERS: self.ackers,
            "topology.stats.sample.rate": 1.0,
            "topology.worker.max.heap.size.mb": float(self.cluster.worker_heap_mb),
        }

    def storm_settings(self) -> dict[str, StormValue]:
        """Return every Storm setting of the submission, in force for the whole run."""
        return {**self.topology.own_settings, **self.overrides()}

    def configuration(self, spec: StepSpec) -> TopologyConfiguration:
        """Return what a step asks of the cluster."""
        executors = self.topology.executors(spec.executors)
        return TopologyConfiguration(executors=executors, workers=spec.workers or self.slots)

    @model_validator(mode="after")
    def _has_a_workload(self) -> Self:
        topology = self.topology
        of_a_jar = isinstance(topology, JarTopology)
        own_messages = isinstance(topology, JarTopology) and topology.topics is None
        if of_a_jar and self.cluster.kind == "simulator":
            raise ValueError("cluster.kind: the simulator plays no jar's topology, only the harness's own")
        if own_messages and self.workload is not None:
            raise ValueError(
                "workload: the topology of a jar makes its own messages; leave the key out, or give"
                " topology.topics"
            )
        if not own_messages and self.workload is None:
            raise ValueError("workload: the key is missing")
        if of_a_jar and not self.measure.instrument:
            raise ValueError("measure.instrument: without it nothing of a jar's topology is measured")
        for i, spec in enumerate(self.steps.plan):
            if own_messages and spec.rate_tps is not None:
                raise ValueError(
                    f"steps.plan.{i}: rate_tps has no meaning: the topology makes its own messages"
                )
        return self

    @model_validator(mode="after")
    def _stores_fit(self) -> Self:
        if self.cluster.kind == "simulator" and self.plans.store != "none":
            raise ValueError("plans.store: a simulated run keeps its plans in its run directory only")
        if self.cluster.kind == "remote":
            metrics, plans = self.metrics, self.plans
            for key, given in (
                ("metrics.data", metrics.data),
                ("metrics.retention_days", metrics.retention_days),
                ("plans.data", plans.data),
            ):
                if given is not None:
                    raise ValueError(f"{key}: leave it out; a provisioned cluster has its own, see its file")
        return self

    @model_validator(mode="after")
    def _plans_fit(self) -> Self:
        tasks = self.topology.task_counts()
        captured = not isinstance(self.topology, JarTopology) or self.topology.captured is not None
        consumers = self.topology.metrics_consumers if self.measure.instrument else 0
        storms = self.ackers + consumers + sum(self.topology.others.values())
        for i, spec in enumerate(self.steps.plan):
            asked = self.configuration(spec)
            if captured and (unknown := sorted(set(asked.executors) - set(tasks))):
                raise ValueError(
                    f"steps.plan.{i}: there is no component {unknown[0]!r}; there are {', '.join(tasks)}"
                )
            if captured and set(asked.executors) != set(tasks):
                raise ValueError(f"steps.plan.{i}: executors must name each of {', '.join(tasks)}")
            for name, count in asked.executors.items():
                if captured and count > tasks[name]:
                    raise ValueError(
                        f"steps.plan.{i}: {count} executors of {name} are more than its {tasks[name]} tasks"
                    )
            if captured and asked.workers > (most := sum(asked.executors.values()) + storms):
                raise ValueError(
                    f"steps.plan.{i}: {asked.workers} workers are more than all {most} executors"
                )
            if asked.workers > self.slots:
                raise ValueError(
                    f"steps.plan.{i}: {asked.workers} workers are more than the cluster's {self.slots} slots"
                )
        known = {f"node-{n + 1}" for n in range(self.cluster.nodes)}
        for node in self.cluster.cpu_quota_cores:
            if node not in known:
                raise ValueError(f"cluster.cpu_quota_cores: there is no node {node!r} in {sorted(known)}")
        return self
