"""The few protocols by which the parts meet, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, TypedDict, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import UsageError
from harness.plans import (
    Batching,
    BatchSize,
    Frozen,
    PhysicalPlan,
    Positive,
    PositiveFloat,
    QueryPlan,
    Relief,
    TopologyConfiguration,
    WorkerNode,
)
from harness.schemas import LATENCIES, Measure

Scalar = str | int | float | bool | None
PredictionStatus = Literal["ok", "saturated", "declined"]
Verdict = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True)
class Settings:
    """Facts about the deployment, beside the plan, that a model may know.

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
    batching : mapping of str to BatchSize
        Components or streams whose tuples travel in batches of the rewriting layer.
    relief : Relief
        What the layer does about full queues: models that know nothing of it decline.
    """

    storm: Mapping[str, object]
    version: str
    poll_timeout_ms: float | None = None
    batching: Batching = field(default_factory=dict)
    relief: Relief = field(default_factory=Relief)


@dataclass(frozen=True)
class Observation:
    """Measurements of one step, which are all that a model gets to see of the step.

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
    steady : bool
        Whether its latencies are those of its plan and rate. Of a period of a step that adapts nobody knows:
        where a plan came into force, or the rate changed, they have in them what waited because of that.
    asked_rate_tps : float, optional
        Messages a second that are planned for: schedulers read loads and traffic at it. None: the source's.
    """

    plan: PhysicalPlan
    settings: Settings
    rate_tps: float
    interval_s: float
    metrics: pd.DataFrame
    latency: pd.DataFrame
    complete_latency_ms: Mapping[str, float] = field(default_factory=dict)
    hop_records: bool = True
    steady: bool = True
    asked_rate_tps: float | None = None

    @property
    def latencies(self) -> tuple[Measure, ...]:
        """Measures of latency, first the one that its own messages show.

        Where nobody sees what comes out, as with a topology of somebody else, that is from emit to ack.
        """
        senders = any(c.role == "sender" for c in self.plan.query_plan.components)
        if senders or self.hop_records or len(self.latency):
            return LATENCIES
        return (Measure.ACK, *(m for m in LATENCIES if m != Measure.ACK))


@dataclass(frozen=True)
class Estimate:
    """One predicted number.

    The ``subject`` is empty for the whole topology. Else it is a component's name, or the label of an
    executor, a stream or a logical connection (``harness.plans``). The ``value`` is None where the model
    gives no number, and so are ``low`` and ``high``, the ends of a 90 % interval. The ``reason`` says why
    when ``status`` is not ``ok``.
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


@runtime_checkable
class BudgetingScheduler(Scheduler, Protocol):
    """A scheduler that plans for a rate, and may choose the counts within a budget."""

    def within(self, rate_tps: float, max_executors: int | None, max_workers: int | None) -> Scheduler:
        """Return the scheduler for a rate and a budget; what its own parameters say goes before it.

        Parameters
        ----------
        rate_tps : float
            Messages a second.
        max_executors, max_workers : int, optional
            Of the query plan's components together, and workers. None: no budget is given.
        """
        ...


class Resource(StrEnum):
    """Resources of a worker node that executors use."""

    CPU = "cpu"
    HEAP = "heap"
    SENT = "sent"


class NodeAmounts(Frozen):
    """Amounts of resources that a node's description does not say.

    Attributes
    ----------
    worker_heap_mb : float
        Heap of each worker; a node has as many as slots.
    link_bytes_s : float, optional
        Bytes a second that a node may send. None: bytes sent are not looked at.
    """

    worker_heap_mb: PositiveFloat = 256.0
    link_bytes_s: PositiveFloat | None = None


@runtime_checkable
class WaitingScheduler(Scheduler, Protocol):
    """A scheduler that changes a running plan only every so often.

    Attributes
    ----------
    timeout_s : float
        Least seconds from one change to the next.
    """

    timeout_s: float


@runtime_checkable
class BalancingScheduler(Scheduler, Protocol):
    """A scheduler that evens out the load of one resource, and empties nodes that are to leave."""

    def for_period(self, leaving: tuple[str, ...], resource: Resource, amounts: NodeAmounts) -> Scheduler:
        """Return the scheduler for a period of a running topology.

        Parameters
        ----------
        leaving : tuple of str
            Worker nodes marked for removal.
        resource : Resource
            The period's bottleneck.
        amounts : NodeAmounts
        """
        ...


@dataclass(frozen=True, eq=False)
class RateHistory:
    """Rates of one subject in the past: buckets of equal length that follow one another without a gap.

    Attributes
    ----------
    rate_tps : ndarray of float, shape (n,)
        Tuples a second in each bucket, the latest last.
    bucket_s : float
        Length of a bucket.
    start_s : float
        Where the first bucket begins, on a clock of the caller's choice.

    Raises
    ------
    UsageError
        When a rate is negative or no number, or the buckets have no length.

    Examples
    --------
    >>> RateHistory(np.array([10.0, 12.0]), bucket_s=5, start_s=100).time_s.tolist()
    [105.0, 110.0]
    """

    rate_tps: npt.NDArray[np.float64]
    bucket_s: float
    start_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.bucket_s < float("inf"):
            raise UsageError(f"buckets of {self.bucket_s} s", "a bucket is longer than 0 s")
        if self.rate_tps.ndim != 1 or not (np.isfinite(self.rate_tps) & (self.rate_tps >= 0)).all():
            raise UsageError("a history holds something else than rates", "give numbers of at least 0")

    @property
    def time_s(self) -> npt.NDArray[np.float64]:
        """Where each bucket ends."""
        ends = np.arange(1, len(self.rate_tps) + 1, dtype=np.float64)
        return np.asarray(self.start_s + self.bucket_s * ends, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RateForecast:
    """A forecaster's answer: quantiles of the rate in each bucket up to a horizon.

    Attributes
    ----------
    time_s : ndarray of float, shape (h,)
        Where each bucket ends, on the history's clock; empty where the forecaster declined.
    levels : tuple of float
        Probabilities of the quantiles, rising.
    rate_tps : ndarray of float, shape (h, len(levels))
        Quantiles of the rate in each bucket, rising with the level.
    status : {"ok", "declined"}
        Whether there is an answer.
    reason : str
        Why the forecaster declined.
    """

    time_s: npt.NDArray[np.float64]
    levels: tuple[float, ...]
    rate_tps: npt.NDArray[np.float64]
    status: Literal["ok", "declined"] = "ok"
    reason: str = ""


class Forecaster(Protocol):
    """A pure function from a history of rates to their quantiles by time; ``harness.forecasts`` has them."""

    def __call__(
        self, history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
    ) -> RateForecast:
        """Forecast every bucket up to ``horizon_s`` after the history, whose periods are ``season_s``."""
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
    batching : mapping of str to BatchSize
        By component or ``component:stream``; what is left out sends its tuples one by one.
    decisions : tuple of TuningDecision
        In the order in which they were taken.
    """

    tuner: str
    status: Literal["ok", "declined"] = "ok"
    reason: str = ""
    executors: Mapping[str, Positive] = {}
    workers: Positive | None = None
    batching: Mapping[str, BatchSize] = {}
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
    """Result of one check of a run: the check's name, its verdict, the step and the details."""

    check: str
    status: Verdict
    step: int | None = None
    detail: str = ""


class CheckWritten(TypedDict):
    """A check in ``verdict.json``; ``step`` is null for one of the whole run."""

    check: str
    status: Verdict
    step: int | None
    detail: str


class VerdictWritten(TypedDict):
    """``verdict.json``."""

    schema: int
    verdict: Verdict
    checks: list[CheckWritten]
