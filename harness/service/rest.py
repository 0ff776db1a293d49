"""The questions' addresses, in Caladrius's shapes with ``storm`` for ``heron``."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BeforeValidator

from harness.app.submitted.folder import SubmittedTopology, known
from harness.runs import Run
from harness.service.answers import (
    CurrentAnswer,
    FutureAsked,
    ModelInfo,
    PackingPlan,
    ProposalAsked,
    SpoutTraffic,
    TrafficForecast,
    Troubles,
)
from harness.service.run_index import RunIndex, UnknownName

TROUBLE: dict[int | str, dict[str, object]] = {
    404: {"model": Troubles, "description": "Unknown topology, model, run or step, and those that there are"},
    422: {"model": Troubles, "description": "Something in the request cannot be"},
    403: {"model": Troubles, "description": "Another host or origin, or a body that is too large"},
    503: {"model": Troubles, "description": "A server that is asked is away; which"},
}
rest = APIRouter(prefix="/model", responses=TROUBLE)


def runs_of(request: Request, topology: str) -> list[Run]:
    """Return the runs of a topology; asked before all else, so that an unknown one is 404 in any case."""
    index: RunIndex = request.app.state.index
    return index.of_topology(topology)


def run_of(
    runs: Annotated[list[Run], Depends(runs_of)],
    run: Annotated[str, Query(description="A run's start; the topology's newest by default.")] = "",
) -> Run:
    """Return the run that is asked."""
    for one in runs:
        if run in ("", one.path.name):
            return one
    raise UnknownName("run", run, [one.path.name for one in runs])


def subject_of(
    request: Request,
    topology: str,
    run: Annotated[
        str, Query(description="A run's start; a submitted topology, or the newest, by default.")
    ] = "",
) -> Run | SubmittedTopology:
    """Return the submitted topology of a name, which may be Storm's, or else the run that is asked."""
    left = known(request.app.state.submitted)
    if not run:
        for name, one in left.items():
            if topology in (name, one.facts.topology):
                return one
    return run_of(runs_of(request, topology), run)


RunAsked = Annotated[Run, Depends(run_of)]
SubjectAsked = Annotated[Run | SubmittedTopology, Depends(subject_of)]
StepAsked = Annotated[int | None, Query(alias="step", description="A finished step; the last by default.")]
Hours = Annotated[float, Query(gt=0, le=24 * 365, description="Of history.")]
Minutes = Annotated[float, Query(gt=0, le=60, description="To forecast.")]
Seconds = Annotated[float, Query(ge=1, le=3600, description="Length of a bucket.")]
ModelsAsked = Annotated[list[str] | None, Query(alias="model", description="Repeatable; ``all`` of them.")]
TunerAsked = Annotated[str, Query(description="Who says how many executors there are to be.")]
Level = Annotated[
    Literal[10, 50, 90, 95, 99],
    BeforeValidator(int),
    Query(description="Quantile of the forecast, in percent."),
]


def future_of(
    model: Annotated[str, Query(description="A forecaster's name.")] = "stats-summary",
    quantile: Level = 95,
    source_hours: Hours = 24,
    future_mins: Minutes = 30,
    metrics_sample_period: Seconds = 2,
) -> FutureAsked:
    """Return the forecast that is asked."""
    return FutureAsked(model, quantile, source_hours, future_mins, metrics_sample_period)


@rest.get("/traffic/storm/model_info")
def list_traffic_models() -> list[ModelInfo]:
    """List the forecasters."""
    from harness.forecasts import FORECASTERS, NOTES

    return [ModelInfo(name=name, description=NOTES[name]) for name in FORECASTERS]


@rest.get("/topology/storm/model_info")
def list_topology_models() -> list[ModelInfo]:
    """List the performance models."""
    from harness.models import MODELS, describe

    return [ModelInfo(name=name, description=describe(model)) for name, model in MODELS.items()]


@rest.get("/traffic/storm/{topology}")
def forecast(
    run: RunAsked,
    model: ModelsAsked = None,
    source_hours: Hours = 24,
    future_mins: Minutes = 30,
    metrics_sample_period: Seconds = 2,
    step: StepAsked = None,
) -> dict[str, TrafficForecast]:
    """Forecast a topology's traffic by spout component, task and stream, from a step that was measured."""
    from harness.forecasts import DEFAULT, FORECASTERS
    from harness.service import questions

    models = questions.named(model or [], FORECASTERS, "model", DEFAULT)
    return questions.forecast_traffic(run, step, models, source_hours, future_mins, metrics_sample_period)


@rest.get("/topology/storm/current/{topology}")
def assess(run: RunAsked, model: ModelsAsked = None, step: StepAsked = None) -> dict[str, CurrentAnswer]:
    """Say how a topology performs: service time, arrival rate and capacity by task, latencies by path."""
    from harness.models import MODELS
    from harness.service import questions

    models = questions.named(model or [], MODELS, "model", "composite")
    return {name: questions.assess_current(run, step, name) for name in models}


@rest.post("/topology/storm/current/{topology}")
def assess_with(
    run: RunAsked, traffic: SpoutTraffic, model: ModelsAsked = None, step: StepAsked = None
) -> dict[str, CurrentAnswer]:
    """Say how the plan in force would perform if its spouts emitted something else, by task and stream."""
    from harness.models import MODELS
    from harness.service import questions

    models = questions.named(model or [], MODELS, "model", "composite")
    return {name: questions.assess_traffic(run, step, name, traffic) for name in models}


@rest.post("/topology/storm/proposed/{topology}")
def propose(
    request: Request, subject: SubjectAsked, asked: ProposalAsked, step: StepAsked = None
) -> dict[str, object]:
    """Predict another plan of a topology, a client's or a proposed one; nothing is changed anywhere."""
    from harness.service import proposals

    if isinstance(subject, SubmittedTopology):
        return proposals.predict_left(subject, request.app.state.live.rows(subject), asked)
    return proposals.predict_proposed(subject, step, asked)


@rest.get("/topology/storm/packingplan/{topology}/current")
def pack_now(run: RunAsked, tuner: TunerAsked = "ds2", step: StepAsked = None) -> PackingPlan:
    """Propose a plan for the traffic that was measured."""
    from harness.service import proposals

    return proposals.pack_current(run, step, tuner)


@rest.get("/topology/storm/packingplan/{topology}/future")
def pack_ahead(
    run: RunAsked,
    future: Annotated[FutureAsked, Depends(future_of)],
    tuner: TunerAsked = "ds2",
    step: StepAsked = None,
) -> PackingPlan:
    """Propose a plan for a quantile of the traffic that is forecast."""
    from harness.forecasts import FORECASTERS
    from harness.service import proposals

    if future.model not in FORECASTERS:
        raise UnknownName("model", future.model, list(FORECASTERS))
    return proposals.pack_future(run, step, tuner, future)
