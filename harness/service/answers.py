"""Requests and answers of the questions over HTTP: the types that OpenAPI is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Rates = dict[str, dict[str, dict[str, float]]]
"""Tuples a second by statistic, by component or task, and by stream."""

Details = dict[str, str | int | float | list[float]]


class TrafficForecast(BaseModel):
    """One forecaster's answer, or why it has none.

    Attributes
    ----------
    components, instances : mapping
        By statistic, component or task, and stream. ``N-quantile`` is over what the forecast is uncertain
        of, averaged over the time asked; ``mean``, ``min`` and ``max`` are of its median over that time.
    peak_tps : mapping
        Tuples a second that all spouts emit together in the highest bucket of the time asked, by quantile.
    details : mapping
        What was read: the length of the history and of its buckets, the seasons that were counted with, and
        where the history ends and the forecast begins (``from_epoch_s``).
    reason : str
        Why there is no answer, or none of a spout; then there is no ``peak_tps``.
    """

    components: Rates = {}
    instances: Rates = {}
    peak_tps: dict[str, float] = {}
    details: Details = {}
    reason: str = ""


class TaskPerformance(BaseModel):
    """Performance of one task on one of its input streams; the keys are Caladrius's.

    Attributes
    ----------
    task : int
    stream, source : str
        The stream that arrives, and the component that emits it.
    component, executor : str
    latency_ms : float, optional
        Service time of a tuple; None where none was timed.
    tuples_per_sec : float, optional
        Tuples that the task would execute a second if it were never idle.
    arrival_rate : float
        Tuples a second.
    capacity : float, optional
        Percent of its time that the task needs for what arrives on the stream.
    back_pressure : bool
        Whether the tasks of its executor, which share a thread, need 100 % of its time or more.
    """

    task: int
    stream: str
    source: str
    component: str
    executor: str
    latency_ms: float | None
    tuples_per_sec: float | None
    arrival_rate: float
    capacity: float | None
    back_pressure: bool


class LatencyAnswer(BaseModel):
    """A predicted latency with the ends of its 90 % interval; of all paths where ``path`` is empty."""

    measure: str
    path: str = ""
    statistic: str
    value_ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None


SpoutTraffic = dict[str, dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]]
"""Tuples a second that spouts emit, by task and stream."""


class CurrentAnswer(BaseModel):
    """Performance of a topology in a measured step or its last minutes, or at another rate.

    Attributes
    ----------
    run, step, submitted : optional
        A step of a run, or a submitted topology.
    rate_tps : float
        Messages a second that the answer is for.
    measured_mean_ms : float, optional
        Of a step its leading latency, of a submitted topology from emit to ack; None at another rate.
    """

    run: str | None = None
    step: int | None = None
    submitted: str | None = None
    rate_tps: float
    tasks: list[TaskPerformance]
    latency: list[LatencyAnswer]
    measured_mean_ms: float | None


class ProposalAsked(BaseModel):
    """A plan to be predicted: each executor's worker, or a scheduler or tuner that is to propose one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"scheduler": "even"},
                {"tuner": "ds2", "rate_tps": 400},
                {"placement": {"spout[1-4]": "node-1:6700"}},
            ]
        },
    )

    scheduler: str | None = Field(
        None, description="A scheduler's name: it places the executors that there are."
    )
    tuner: str | None = Field(None, description="A tuner's name: it says how many executors there are to be.")
    parameters: dict[str, str | int | float | bool] = Field({}, description="Of the scheduler or tuner.")
    placement: dict[str, str] | None = Field(
        None, description="NODE:PORT by executor label, COMPONENT[FIRST-LAST]; all of the query plan's tasks."
    )
    source: dict[str, str] | None = Field(
        None,
        alias="from",
        description="The plan in force, as a placement, where a submitted topology's is not the kept one.",
    )
    rate_tps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Messages a second; the step's by default."
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> ProposalAsked:
        if sum(asked is not None for asked in (self.scheduler, self.tuner, self.placement)) != 1:
            raise ValueError("give one of scheduler, tuner and placement")
        if self.parameters and self.placement is not None:
            raise ValueError("parameters are a scheduler's or a tuner's")
        if "name" in self.parameters:  # which would be another scheduler's, or any module's
            raise ValueError("the name stands beside the parameters")
        return self


@dataclass(frozen=True)
class TrafficAsked:
    """The forecast of traffic that is asked.

    Attributes
    ----------
    source_hours : float, optional
        Of history; None for a day, or for what its seasons need.
    future_mins, bucket_s : float
    season_s : tuple of float
        Where it is empty, the topology's own seasons count.
    """

    source_hours: float | None
    future_mins: float
    bucket_s: float
    season_s: tuple[float, ...]


@dataclass(frozen=True)
class FutureAsked:
    """The forecast that a plan is to fit.

    Attributes
    ----------
    model : str
        A forecaster's name.
    quantile_pct : float
        One of ``traffic_answers.PERCENTS``.
    traffic : TrafficAsked
    """

    model: str
    quantile_pct: int
    traffic: TrafficAsked


class ForecastRate(BaseModel):
    """The rate that a plan is proposed for: the highest bucket of a quantile of a forecaster's answer."""

    model: str
    quantile_pct: float
    future_mins: float
    rate_tps: float


class PackingPlan(BaseModel):
    """The plan in force and the proposed one, as ``harness tune --json`` has them.

    Attributes
    ----------
    run, step, submitted : optional
        A step of a run, or a submitted topology.
    rate_tps : float
        Messages a second that the plan is proposed for.
    forecast : ForecastRate, optional
        Where that rate comes from; None for the measured one.
    current, proposed : mapping
    """

    run: str | None = None
    step: int | None = None
    submitted: str | None = None
    rate_tps: float
    forecast: ForecastRate | None = None
    current: dict[str, object]
    proposed: dict[str, object]


class ModelInfo(BaseModel):
    """A model's name, and its description in its own words."""

    name: str
    description: str


class Trouble(BaseModel):
    """One thing that is wrong; ``known`` are the names that there are, where one was unknown."""

    type: str
    error: str
    known: list[str] = []


class Troubles(BaseModel):
    """Every answer that is none."""

    errors: list[Trouble]
