"""An experiment's file as one checked value; unknown keys, wrong types and impossible plans are errors.

The models below are the file's grammar: their field names are the YAML keys and, dotted, the names
that ``--set`` takes (``--set workload.rate_tps=100``).
"""

from __future__ import annotations

from collections.abc import Mapping
from filecmp import cmp
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from harness.experiments.clusters import CLUSTER_TAGS, ClusterSpec, Local
from harness.experiments.datasets import dataset_of
from harness.experiments.measure_settings import Measuring
from harness.experiments.step_faults import Fault, check_faults
from harness.experiments.step_settings import PLUG_IN_TAGS, Steps, StepSpec
from harness.experiments.stores import MetricStore, PlanStore
from harness.experiments.workload_settings import RateChange, Workload
from harness.plans import Batching, BatchSize, Frozen, PositiveFloat, Relief, TopologyConfiguration
from harness.topologies.batching import require_batched
from harness.topologies.bounds import COUNTS_TAGS, StormValue
from harness.topologies.jar import ACKERS, MESSAGE_TIMEOUT, JarTopology
from harness.topologies.test_topology import Topology
from harness.topologies.worker_heap import own_heap_mb

TOPOLOGY_TAGS = ("of-the-harness", "of-a-jar")
TAGS = (*TOPOLOGY_TAGS, *CLUSTER_TAGS, *COUNTS_TAGS, *PLUG_IN_TAGS)
"""Kinds of topologies, clusters and other values, in the places of errors."""


def _kind(topology: object) -> str:
    of_a_jar = "jar" in topology if isinstance(topology, Mapping) else isinstance(topology, JarTopology)
    return TOPOLOGY_TAGS[of_a_jar]


AnyTopology = Annotated[
    Annotated[Topology, Tag(TOPOLOGY_TAGS[0])] | Annotated[JarTopology, Tag(TOPOLOGY_TAGS[1])],
    Discriminator(_kind),
]
"""One of the harness's topologies, or anybody's: told by the key ``jar``."""


_MOST_NAMED = 8
"""Changes of the rate that are named one by one."""


class Step(Frozen):
    """One configuration held for a time: what the campaign carries out."""

    index: int
    configuration: TopologyConfiguration
    """The step's own; in a tuned step that of the step which its tuner reads."""
    rate_tps: PositiveFloat | None
    """None where the topology makes its own messages."""
    fresh: bool
    spec: int
    placed_by: str = ""
    """Name of what places the executors; empty for Storm's own scheduler."""
    faults: tuple[Fault, ...] = ()
    evidence: bool = True
    """True if models may be judged by it."""
    tuned_by: str = ""
    """Name of the tuner that says executors and batch sizes; empty where the file says them."""
    batching: Mapping[str, BatchSize] = {}
    """Rules of the batches that tuples travel in; in a tuned step as the topology has them."""
    relief: Relief = Relief()
    """Helping and back-pressure in force."""
    changes: tuple[RateChange, ...] = ()
    """Changes of the rate, in seconds of the interval."""

    @property
    def sent_tps(self) -> float:
        """The rate of a step whose messages are sent.

        Raises
        ------
        ValueError
            When the topology makes its own messages.
        """
        if self.rate_tps is None:
            raise ValueError(f"step {self.index}: the topology makes its own messages")
        return self.rate_tps

    def mean_tps(self, interval_s: float) -> float:
        """Return the mean rate of an interval of some length.

        Examples
        --------
        100 messages a second, and 200 in the last quarter.

        >>> changes = ({"at_s": 90, "rate_tps": 200},)
        >>> given = {"index": 0, "configuration": {"executors": {}, "workers": 1}, "fresh": False, "spec": 0}
        >>> Step.model_validate({**given, "rate_tps": 100, "changes": changes}).mean_tps(120)
        125.0
        """
        rates = [self.sent_tps, *(c.rate_tps for c in self.changes)]
        if len(rates) == 1:
            return rates[0]
        at_s = [min(t, interval_s) for t in (0.0, *(c.at_s for c in self.changes), interval_s)]
        return sum(r * (b - a) for r, (a, b) in zip(rates, pairwise(at_s), strict=True)) / interval_s

    @property
    def rate(self) -> str:
        """The rate in words; empty where the topology makes its own messages."""
        later = "".join(f", {c.rate_tps:g} from {c.at_s:g} s" for c in self.changes)
        if len(self.changes) > _MOST_NAMED:
            later = f", {self._rates} until {self.changes[-1].at_s:g} s"
        return "" if self.rate_tps is None else f"{self.rate_tps:g} messages/s{later}"

    @property
    def _rates(self) -> str:
        """The later rates in short."""
        rates = [c.rate_tps for c in self.changes]
        return f"{len(rates)} rates of {min(rates):g} to {max(rates):g}"

    @property
    def label(self) -> str:
        """The same for repeats of one configuration.

        Examples
        --------
        >>> given = {"index": 0, "configuration": {"executors": {}, "workers": 1}, "fresh": False, "spec": 0}
        >>> played = [{"at_s": i, "rate_tps": 100 + i} for i in range(300)]
        >>> for changes in (played[:2], played):
        ...     Step.model_validate({**given, "rate_tps": 50, "changes": changes}).label
        'spec-0/x1@50>100>101'
        'spec-0/x1@50>300 rates of 100 to 399'
        """
        counts = sorted(set(self.configuration.executors.values()))
        plan = self.tuned_by or f"{'+'.join(map(str, counts))}x{self.configuration.workers}"
        later = [f"{c.rate_tps:g}" for c in self.changes]
        if len(later) > _MOST_NAMED:
            later = [self._rates]
        rate = "" if self.rate_tps is None else "@" + ">".join([f"{self.rate_tps:g}", *later])
        by = self.placed_by and f"/{self.placed_by}"
        relief = "+".join(self.relief.parts)
        return f"spec-{self.spec}/{plan}{rate}{by}{relief and f'/{relief}'}"


class Experiment(Frozen):
    """All that a run needs to know.

    Attributes
    ----------
    name : str
        Names the run's folder.
    topology : Topology or JarTopology
        The topology: a shipped one, a graph of your own (docs/add-a-topology.md), or a jar's
        (docs/own-topology.md).
    workload : Workload
        The messages that are sent; left out where the topology makes its own.
    cluster : ClusterSpec
        The cluster that is measured: keys of one of this machine, or the file of a provisioned one
        (docs/clusters.md).
    measure : Measuring
        Settings by which a step is measured.
    metrics : MetricStore
        Where metrics arrive.
    plans : PlanStore
        Where plans are kept.
    steps : Steps
        The configurations, and the order in which they are measured.
    models : list of str
        Models that are judged: shipped ones by name, your own as ``package.module:name``.
    """

    # names of topologies, topics and files are made of it, with times and endings
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=100)]
    topology: AnyTopology
    workload: Workload | None = None
    """None where the topology makes its own messages."""
    cluster: ClusterSpec = Local()
    measure: Measuring = Measuring()
    metrics: MetricStore = MetricStore()
    plans: PlanStore = PlanStore()
    steps: Steps
    models: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "composite",
        "no-change",
        "caladrius",
        "jackson",
        "storm-tracer",
    )

    @property
    def slots(self) -> int:
        """Slots of the whole cluster."""
        return self.cluster.slots

    @property
    def ackers(self) -> int:
        """Acker executors: as asked, else as the topology has them, else one a slot."""
        if self.topology.ackers is not None:
            return self.topology.ackers
        own = self.topology.own_settings.get(ACKERS)
        return own if isinstance(own, int) else self.slots

    @property
    def slots_to_fill(self) -> int:
        """Slots whose workers need memory of this machine, those of nodes that steps may add among them."""
        most = max((s.adapt.nodes[1] for s in self.steps.plan if s.adapt and s.adapt.nodes), default=0)
        added = max(most - self.cluster.nodes, 0)
        return self.cluster.slots_to_fill + added * self.cluster.slots_per_node

    @property
    def worker_heap_mb(self) -> int:
        """Heap of a worker: the topology's settings go before the cluster's."""
        return own_heap_mb(self.storm_settings()) or self.cluster.worker_heap_mb

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

    @property
    def shares(self) -> Mapping[str, int]:
        """The share of the messages that comes in by each of the topology's entrances."""
        return self.input.shares_of(self.topology.entrances)

    def rate_tps(self, spec: StepSpec) -> float | None:
        """Return the rate of a step; None where the topology makes its own messages."""
        return None if self.workload is None else spec.rate_tps or self.workload.rate_tps

    def changes(self, spec: StepSpec) -> tuple[RateChange, ...]:
        """Return the changes of a step's rate."""
        own = () if self.workload is None else self.workload.changes
        return own if spec.changes is None else spec.changes

    @property
    def trace(self) -> Path | None:
        """The file of send times that the workload names."""
        return None if self.workload is None else self.workload.trace

    def relief(self, spec: StepSpec) -> Relief:
        """Return what is done about full queues in a step."""
        own = self.topology.relief
        return own if spec.relief is None else own.only(spec.relief)

    @property
    def placements(self) -> Mapping[int, Path]:
        """The files of placements, by position in ``steps.plan``."""
        placements = ((i, spec.placement) for i, spec in enumerate(self.steps.plan))
        return {i: path for i, path in placements if path is not None}

    def with_placements(self, placements: Mapping[int, Path]) -> Self:
        """Return the experiment with other places of its placements."""
        plan = tuple(
            spec.model_copy(update={"placement": placements[i]}) if i in placements else spec
            for i, spec in enumerate(self.steps.plan)
        )
        return self.model_copy(update={"steps": self.steps.model_copy(update={"plan": plan})})

    @property
    def histories(self) -> Mapping[int, Path]:
        """The files of earlier traffic that forecasts know, by position in ``steps.plan``."""
        adapted = ((i, spec.adapt) for i, spec in enumerate(self.steps.plan) if spec.adapt is not None)
        return {i: adapt.history for i, adapt in adapted if adapt.history is not None}

    def with_histories(self, histories: Mapping[int, Path]) -> Self:
        """Return the experiment with other places of its earlier traffic."""
        plan = tuple(
            spec.model_copy(update={"adapt": spec.adapt.model_copy(update={"history": histories[i]})})
            if spec.adapt is not None and i in histories
            else spec
            for i, spec in enumerate(self.steps.plan)
        )
        return self.model_copy(update={"steps": self.steps.model_copy(update={"plan": plan})})

    def with_trace(self, trace: Path) -> Self:
        """Return the experiment with another place of its trace."""
        return self.model_copy(update={"workload": self.input.model_copy(update={"trace": trace})})

    @property
    def skewed_nodes(self) -> tuple[str, ...]:
        """Nodes whose workers' clocks are moved in a step."""
        faults = (fault for spec in self.steps.plan for fault in spec.faults)
        return tuple(sorted({fault.skew_clock for fault in faults if fault.skew_clock}))

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

    def batching(self, spec: StepSpec) -> Batching:
        """Return what travels in batches in a step, unless its tuner says so."""
        return self.topology.batching if spec.batching is None else spec.batching

    def configuration(self, spec: StepSpec) -> TopologyConfiguration:
        """Return a step's request to the cluster; for a tuned step, that of the step that its tuner reads."""
        while spec.tuner is not None and spec.source is not None:
            spec = self.steps.plan[spec.source]
        executors = self.topology.executors(spec.counts)
        workers = len(set(spec.placed.values())) or spec.workers or self.slots
        return TopologyConfiguration(executors=executors, workers=workers)

    @model_validator(mode="after")
    def _has_a_workload(self) -> Self:
        self.cluster.check_topology(self.topology)
        rates = [spec.rate_tps is not None for spec in self.steps.plan]
        self.topology.traffic().check_input(workload=self.workload is not None, rates=rates)
        if self.workload is not None:
            self.workload.shares_of(self.topology.entrances)
            dataset = dataset_of(self.workload)
            self.topology.check_rows(None if dataset is None else dataset.fields)
        self.topology.check_measured(instrument=self.measure.instrument)
        return self

    @model_validator(mode="after")
    def _rates_can_change(self) -> Self:
        most_s = self.measure.interval.most_s
        for i, spec in enumerate(self.steps.plan):
            key = "workload.changes" if spec.changes is None else f"steps.plan.{i}.changes"
            changes = self.changes(spec)
            if changes and self.workload is None:
                raise ValueError(f"{key}: the topology makes its own messages")
            if changes and self.trace is not None:
                raise ValueError(f"{key}: a trace has its own rate: leave one of them out")
            if changes and changes[-1].at_s >= most_s:
                raise ValueError(f"{key}: at_s {changes[-1].at_s:g} is not in an interval of {most_s:g} s")
        return self

    @model_validator(mode="after")
    def _stores_fit(self) -> Self:
        self.cluster.check_stores(self.metrics, self.plans)
        return self

    @model_validator(mode="after")
    def _faults_can_be(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            if spec.judge and not spec.faults:
                raise ValueError(f"steps.plan.{i}.judge: it is said of steps with faults only")
            check_faults(
                spec.faults,
                f"steps.plan.{i}",
                nodes=self.cluster.node_names if spec.faults else (),
                least_s=self.measure.interval.least_s,
                sends=self.workload is not None,
                refuses=self.cluster.refuses,
            )
        return self

    @model_validator(mode="after")
    def _sources_come_before(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            if spec.source is None or spec.source < i:
                continue
            where = f"steps.plan.{i}: from: {spec.source}"
            if spec.source == i:
                raise ValueError(f"{where} is the step itself: name one that is measured before it")
            if spec.source < len(self.steps.plan):
                raise ValueError(f"{where} comes later: name a step that is measured before it")
            raise ValueError(f"{where} is not measured: positions in steps.plan begin with 0")
        return self

    @model_validator(mode="after")
    def _sources_can_be_read(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            if spec.source is None:
                continue
            source = self.steps.plan[spec.source]
            for changed, what in ((self.changes(source) != (), "rate"), (source.adapt is not None, "plan")):
                if changed:
                    step = f"step {spec.source} changes its {what}"
                    raise ValueError(f"steps.plan.{i}: from: {step}, so nothing can be read of it")
        return self

    @model_validator(mode="after")
    def _relief_is_there(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            for part in spec.relief or ():
                if part not in self.topology.relief.parts:
                    raise ValueError(f"steps.plan.{i}: relief: there is no topology.{part}")
        return self

    @model_validator(mode="after")
    def _adapted_steps_fit(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            if spec.adapt is None:
                continue
            if self.cluster.without_adapting:
                raise ValueError(f"steps.plan.{i}: adapt: {self.cluster.without_adapting}")
            if not (self.measure.instrument and self.topology.traffic().hop_records):
                raise ValueError(f"steps.plan.{i}: adapt: needs a topology of the harness, and its metrics")
            if spec.adapt.history is not None and self._is_played(spec.adapt.history):
                played = f"{spec.adapt.history} is the trace that is sent"
                raise ValueError(f"steps.plan.{i}: adapt.history: {played}: a forecast knows none of it")
            if spec.adapt.moves == "key-groups" and not self.topology.key_groups:
                raise ValueError(
                    f"steps.plan.{i}: adapt.moves: no component has role keyed, with groups to move"
                )
            if spec.adapt.nodes is None:
                continue
            if self.cluster.without_scaling:
                raise ValueError(f"steps.plan.{i}: adapt.nodes: {self.cluster.without_scaling}; leave it out")
            least, most = spec.adapt.nodes
            if not least <= self.cluster.nodes <= most:
                nodes = f"the cluster begins with {self.cluster.nodes}, not with {least} to {most}"
                raise ValueError(f"steps.plan.{i}: adapt.nodes: {nodes}")
        return self

    def _is_played(self, history: Path) -> bool:
        """Return True if earlier traffic is the workload's trace, or a copy of it."""
        return self.trace is not None and cmp(history.expanduser(), self.trace.expanduser(), shallow=False)

    @model_validator(mode="after")
    def _batches_can_be(self) -> Self:
        for i, spec in enumerate(self.steps.plan):
            if not spec.batching or not self.topology.known:
                continue
            timeout_s = self.storm_settings()[MESSAGE_TIMEOUT]
            assert isinstance(timeout_s, int | float)  # Storm has a default
            try:
                require_batched(spec.batching, self.topology.query_plan(), timeout_s)
            except ValueError as why:
                raise ValueError(f"steps.plan.{i}: {why}") from None
        return self

    @model_validator(mode="after")
    def _plans_fit(self) -> Self:
        tasks = self.topology.task_counts()
        known = self.topology.known
        consumers = self.topology.metrics_consumers if self.measure.instrument else 0
        storms = self.ackers + consumers + sum(self.topology.others.values())
        for i, spec in enumerate(self.steps.plan):
            asked = self.configuration(spec)
            if known and (unknown := sorted(set(asked.executors) - set(tasks))):
                raise ValueError(
                    f"steps.plan.{i}: there is no component {unknown[0]!r}; there are {', '.join(tasks)}"
                )
            if known and set(asked.executors) != set(tasks):
                raise ValueError(f"steps.plan.{i}: executors must name each of {', '.join(tasks)}")
            for name, count in asked.executors.items():
                if known and count > tasks[name]:
                    raise ValueError(
                        f"steps.plan.{i}: {count} executors of {name} are more than its {tasks[name]} tasks"
                    )
            if known and asked.workers > (most := sum(asked.executors.values()) + storms):
                raise ValueError(
                    f"steps.plan.{i}: {asked.workers} workers are more than all {most} executors"
                )
            if asked.workers > self.slots:
                raise ValueError(
                    f"steps.plan.{i}: {asked.workers} workers are more than the cluster's {self.slots} slots"
                )
        return self
