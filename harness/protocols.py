"""The few protocols by which the parts meet, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

import pandas as pd
from pydantic import Field

from harness.plans import Frozen, PhysicalPlan, Positive, TopologyConfiguration

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


class TuningDecision(Frozen):
    """One decision of a tuner.

    Attributes
    ----------
    node : str
        The component that was decided on; empty for the whole topology.
    formula : str
        The rule or equation, with its number where the tuner's source numbers it.
    values : mapping
        What was put into the formula; units end the names. Where a value was not measured, a key ending in
        ``_from`` says where the value comes from.
    result : str, float or None
        What came of it.
    why : str
        One sentence.
    """

    node: str
    formula: str
    values: Mapping[str, Scalar]
    result: Scalar
    why: str


class BatchSetting(Frozen):
    """Batches of one component's output: they leave when they hold ``size`` tuples, or after ``flush_ms``."""

    size: Positive
    flush_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TuningProposal(Frozen):
    """A tuner's answer; nothing is proposed where it declined.

    Attributes
    ----------
    tuner : str
    status : {"ok", "declined"}
    reason : str
        Why it declined; of an answer, what its reader has to know of it. Empty where there is nothing.
    executors : mapping of str to int
        Of the query plan's components.
    workers : int, optional
    batching : mapping of str to BatchSetting
        By component; components that send their tuples one by one are left out.
    decisions : tuple of TuningDecision
        In the order in which they were taken.
    """

    tuner: str
    status: Literal["ok", "declined"] = "ok"
    reason: str = ""
    executors: Mapping[str, Positive] = {}
    workers: Positive | None = None
    batching: Mapping[str, BatchSetting] = {}
    decisions: tuple[TuningDecision, ...] = ()

    @property
    def configuration(self) -> TopologyConfiguration | None:
        """The proposed topology configuration; None where the tuner declined."""
        if self.workers is None:
            return None
        return TopologyConfiguration(executors=self.executors, workers=self.workers)


class Tuner(Protocol):
    """A pure function from a measured step and an input rate to executors and batch sizes.

    ``harness.tuning`` has the implementers.
    """

    def propose(self, source: Observation, rate_tps: float) -> TuningProposal:
        """Propose a configuration for ``rate_tps`` messages a second."""
        ...


@dataclass(frozen=True)
class CheckResult:
    """One check of a run: what was checked, where, and what came of it."""

    check: str
    status: Verdict
    step: int | None = None
    detail: str = ""
