"""The few protocols by which the parts meet, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import pandas as pd

from harness.plans import PhysicalPlan, QueryPlan, TopologyConfiguration, WorkerNode

Scalar = str | int | float | bool | None
PredictionStatus = Literal["ok", "saturated", "declined"]
Verdict = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True)
class Settings:
    """What a model may know of the deployment beside the plan.

    Attributes
    ----------
    storm : mapping
        Every Storm setting in force (wait strategies, batches, buffers, load-aware messaging ...).
    version : str
        The cluster's Storm version, by which a queue model is chosen.
    poll_timeout_ms : float, optional
        How long a poll of a spout's Kafka client may wait for messages; None where nobody says it (no Storm
        setting does, so not of a jar's topology). All steps of a run have the same: ``composite`` reads the
        source's.
    """

    storm: Mapping[str, object]
    version: str
    poll_timeout_ms: float | None = None


@dataclass(frozen=True)
class Observation:
    """What was measured of one step, and all a model gets to see of it.

    Attributes
    ----------
    plan : PhysicalPlan
        The source plan.
    settings : Settings
        The source step's settings.
    rate_tps : float
        Messages a second that the workload offered.
    interval_s : float
        Length of the measured interval.
    metrics : DataFrame
        The interval's rows of ``metrics.parquet`` (docs/run-directory.md), one a bucket and field.
    latency : DataFrame
        The interval's rows of ``latency.parquet``.
    complete_latency_ms : mapping
        Storm's own mean complete latency by spout executor label.
    hop_records : bool
        Whether the topology records its tuples' hops in ``latency``; another jar's does not.
    """

    plan: PhysicalPlan
    settings: Settings
    rate_tps: float
    interval_s: float
    metrics: pd.DataFrame
    latency: pd.DataFrame
    complete_latency_ms: Mapping[str, float] = field(default_factory=dict)
    hop_records: bool = True


@dataclass(frozen=True)
class Estimate:
    """One predicted number.

    ``subject`` is empty for the whole topology, else a component's name or the label of an executor,
    a stream or a logical connection (``harness.plans``). ``value``, ``low`` and ``high`` (the ends of
    a 90 % interval) are None when there is none; ``reason`` says why when ``status`` is not ``ok``.
    """

    measure: str
    statistic: str
    value: float | None
    subject: str = ""
    low: float | None = None
    high: float | None = None
    status: PredictionStatus = "ok"
    reason: str = ""


@dataclass(frozen=True)
class Prediction:
    """A model's answer for one proposed plan."""

    estimates: tuple[Estimate, ...]


class Model(Protocol):
    """A pure function from an observation and a proposed plan to a prediction."""

    def __call__(
        self, source: Observation, proposed: PhysicalPlan, settings: Settings, rate_tps: float
    ) -> Prediction:
        """Predict the proposed plan's performance at ``rate_tps`` messages a second."""
        ...


class PreparedSource(Protocol):
    """A source that a model has read."""

    def predict(self, proposed: PhysicalPlan, settings: Settings, rate_tps: float) -> Prediction:
        """Predict one of many plans, as the model itself would."""
        ...


@runtime_checkable
class PreparingModel(Model, Protocol):
    """A model that reads a source once, and then answers for one plan after another."""

    def prepare(self, source: Observation) -> PreparedSource:
        """Read the source; ``ModelDeclined`` where it cannot be used."""
        ...


@dataclass(frozen=True)
class Proposal:
    """A scheduler's answer: every executor in a slot.

    Attributes
    ----------
    plan : PhysicalPlan
        The proposed plan, Storm's own executors included.
    notes : tuple of str
        One line each: a worker that could not be given, a node that the plan overloads, a bound proved.
    """

    plan: PhysicalPlan
    notes: tuple[str, ...] = ()


class Scheduler(Protocol):
    """A pure function from a topology and the slots that are free to a physical plan.

    ``harness.schedulers`` has the implementers. ``SchedulerDeclined`` is raised, with the reason, where a
    scheduler has no plan.
    """

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place the configuration's executors.

        Parameters
        ----------
        configuration : TopologyConfiguration
            Executors by component, and the worker processes asked for. Of Storm's own components those that
            it leaves out keep the executors that they have in ``source``.
        nodes : tuple of WorkerNode
            Each with the slots that the topology may use: the free ones and its own.
        source : Observation, optional
            The topology as it runs now. None before it ran.
        """
        ...


class Cluster(Protocol):
    """A place where topologies run."""

    def physical_plan(self, topology: str) -> PhysicalPlan:
        """Read the plan now in force from the cluster."""
        ...

    def rebalance(self, topology: str, configuration: TopologyConfiguration) -> None:
        """Ask for a configuration; returns when the request was taken, not when it is in force."""
        ...


@dataclass(frozen=True)
class CheckResult:
    """One check of a run: what was checked, where, and what came of it."""

    check: str
    status: Verdict
    step: int | None = None
    detail: str = ""
