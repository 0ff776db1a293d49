"""What the questions over HTTP take and answer: the types that OpenAPI is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Rates = dict[str, dict[str, dict[str, float]]]
"""Tuples a second by statistic, by component or task, and by stream."""


class TrafficForecast(BaseModel):
    """One forecaster's answer, or why it has none.

    Attributes
    ----------
    components, instances : mapping
        By statistic, component or task, and stream. ``N-quantile`` is over what the forecast is uncertain
        of, averaged over the time asked; ``mean``, ``min`` and ``max`` are of its median over that time.
    details : mapping
        What was read.
    reason : str
        Why there is no answer.
    """

    components: Rates = {}
    instances: Rates = {}
    details: dict[str, str | int | float] = {}
    reason: str = ""


class TaskPerformance(BaseModel):
    """A task as it was measured; ``capacity_pct`` is the share of time that it executes tuples."""

    task: int
    component: str
    executor: str
    service_time_ms: float | None
    arrival_rate_tps: float
    capacity_pct: float | None
    back_pressure: bool


class LatencyAnswer(BaseModel):
    """A predicted latency of the whole topology, with the ends of its 90 % interval."""

    measure: str
    statistic: str
    value_ms: float | None
    low_ms: float | None = None
    high_ms: float | None = None


class CurrentAnswer(BaseModel):
    """How a topology performs in a measured step."""

    run: str
    step: int
    rate_tps: float
    tasks: list[TaskPerformance]
    latency: list[LatencyAnswer]
    measured_mean_ms: float | None


class ProposalAsked(BaseModel):
    """A plan to be predicted: each executor's worker, or the scheduler that is to place the executors."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"scheduler": "even"}, {"placement": {"spout[1-4]": "node-1:6700"}}]},
    )

    scheduler: str | None = Field(None, description="A scheduler's name.")
    parameters: dict[str, str | int | float | bool] = Field({}, description="Of the scheduler.")
    placement: dict[str, str] | None = Field(
        None, description="NODE:PORT by executor label, COMPONENT[FIRST-LAST]; all of the query plan's tasks."
    )
    rate_tps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Messages a second; the step's by default."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> ProposalAsked:
        if (self.scheduler is None) == (self.placement is None):
            raise ValueError("give either a scheduler or a placement")
        if self.parameters and self.scheduler is None:
            raise ValueError("parameters are a scheduler's")
        if "name" in self.parameters:  # which would be another scheduler's, or any module's
            raise ValueError("the scheduler's name stands beside its parameters")
        return self


class ModelInfo(BaseModel):
    """A model's name, and what it says of itself."""

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
