"""The questions' addresses, in Caladrius's shapes with ``storm`` for ``heron``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from harness.runs import Run
from harness.service.answers import CurrentAnswer, ModelInfo, ProposalAsked, TrafficForecast, Troubles
from harness.service.run_index import RunIndex, UnknownName

TROUBLE: dict[int | str, dict[str, Any]] = {
    404: {"model": Troubles, "description": "Unknown topology, model, run or step, and those that there are"},
    422: {"model": Troubles, "description": "Something in the request cannot be"},
    403: {"model": Troubles, "description": "Another host or origin"},
}
rest = APIRouter(prefix="/model", responses=TROUBLE)

RunAsked = Annotated[str, Query(alias="run", description="A run's start; the topology's newest by default.")]
StepAsked = Annotated[int | None, Query(alias="step", description="A finished step; the last by default.")]
Hours = Annotated[float, Query(gt=0, le=24 * 365, description="Of history.")]
Minutes = Annotated[float, Query(gt=0, le=60, description="To forecast.")]
Seconds = Annotated[float, Query(ge=1, le=3600, description="Length of a bucket.")]
ModelsAsked = Annotated[list[str] | None, Query(alias="model", description="Repeatable; ``all`` of them.")]


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
    request: Request,
    topology: str,
    model: ModelsAsked = None,
    source_hours: Hours = 24,
    future_mins: Minutes = 30,
    metrics_sample_period: Seconds = 2,
    run: RunAsked = "",
    step: StepAsked = None,
) -> dict[str, TrafficForecast]:
    """Forecast a topology's traffic by spout component, task and stream, from a step that was measured."""
    from harness.forecasts import DEFAULT, FORECASTERS
    from harness.service import questions

    chosen = _run(request, topology, run)
    models = questions.named(model or [], FORECASTERS, "model", DEFAULT)
    return questions.forecast_traffic(chosen, step, models, source_hours, future_mins, metrics_sample_period)


@rest.get("/topology/storm/current/{topology}")
def assess(
    request: Request,
    topology: str,
    model: ModelsAsked = None,
    run: RunAsked = "",
    step: StepAsked = None,
) -> dict[str, CurrentAnswer]:
    """Say how a topology performs: service time, arrival rate and capacity by task, and latencies."""
    from harness.models import MODELS
    from harness.service import questions

    chosen = _run(request, topology, run)
    models = questions.named(model or [], MODELS, "model", "composite")
    return {name: questions.assess_current(chosen, step, name) for name in models}


@rest.post("/topology/storm/proposed/{topology}")
def propose(
    request: Request, topology: str, asked: ProposalAsked, run: RunAsked = "", step: StepAsked = None
) -> dict[str, Any]:
    """Predict another plan of a topology, a client's or a scheduler's; nothing is changed anywhere."""
    from harness.service import questions

    return questions.predict_proposed(_run(request, topology, run), step, asked)


def _run(request: Request, topology: str, start: str) -> Run:
    index: RunIndex = request.app.state.index
    runs = index.of_topology(topology)
    if not start:
        return runs[0]
    for run in runs:
        if run.path.name == start:
            return run
    raise UnknownName("run", start, [run.path.name for run in runs])
