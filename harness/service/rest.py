"""The questions' addresses, in Caladrius's shapes with ``storm`` for ``heron``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BeforeValidator, Field

from harness.app.submitted.folder import SubmittedTopology, known, named
from harness.errors import HarnessError
from harness.runs import Run
from harness.service.answers import (
    CurrentAnswer,
    FutureAsked,
    ModelInfo,
    PackingPlan,
    ProposalAsked,
    SpoutTraffic,
    TrafficAsked,
    TrafficForecast,
    Troubles,
)
from harness.service.asked import AskedTopology
from harness.service.run_index import RunIndex, UnknownName

if TYPE_CHECKING:
    from harness.app.submitted.asked_cluster import AskedCluster

TROUBLE: dict[int | str, dict[str, object]] = {
    404: {"model": Troubles, "description": "Unknown topology, model, run or step, and those that there are"},
    422: {"model": Troubles, "description": "Something in the request cannot be"},
    403: {"model": Troubles, "description": "Another host or origin"},
    413: {"model": Troubles, "description": "A body that is too large"},
    503: {"model": Troubles, "description": "A server that is asked is away, or models are at work; which"},
}
rest = APIRouter(prefix="/model", responses=TROUBLE)


@dataclass(frozen=True)
class Found:
    """A topology that somebody knows by its name.

    Attributes
    ----------
    name : str
    left : SubmittedTopology, optional
    runs : sequence of Run
        Newest first; not looked for where the topology was submitted.
    """

    name: str
    left: SubmittedTopology | None = None
    runs: Sequence[Run] = ()


class NotMeasured(HarnessError):
    """A topology that runs, and reports no metrics to anything that is known here."""


def find(request: Request, topology: str) -> Found:
    """Return who knows a topology, by Storm's name too; first of all, so that an unknown one is always 404.

    Raises
    ------
    UnknownName
        When neither runs, nor submitted topologies, nor the cluster's Nimbus know it.
    NotMeasured
        When only Nimbus does.
    ClusterError
        When Nimbus is away.
    """
    submitted = known(request.app.state.submitted)
    if (left := named(submitted, topology)) is not None:
        return Found(topology, left)
    index: RunIndex = request.app.state.index
    measured = index.by_topology()
    if topology in measured:
        return Found(topology, runs=measured[topology])
    cluster: AskedCluster | None = request.app.state.cluster
    running = () if cluster is None else cluster.topologies()
    if cluster is not None and topology in running:
        raise NotMeasured(
            f"topology {topology} runs on the cluster of nimbus at {cluster.address}; it reports nothing",
            "leave it there with harness submit, which instruments it",
        )
    raise UnknownName("topology", topology, sorted({*measured, *submitted, *running}))


def pick(
    request: Request,
    found: Annotated[Found, Depends(find)],
    run: Annotated[
        str, Query(description="A run's start; by default a submitted topology, or the newest run.")
    ] = "",
    step: Annotated[int | None, Query(description="A finished step of a run; the last by default.")] = None,
) -> AskedTopology:
    """Return the submitted topology of a name, or else the step that is asked."""
    if found.left is not None and not run:
        from harness.service.left_topology import LeftTopology

        if step is not None:
            raise UnknownName("step", str(step), ())
        return LeftTopology(found.left, request.app.state.live, request.app.state.cluster)
    from harness.service.measured_topology import MeasuredTopology

    index: RunIndex = request.app.state.index
    runs = found.runs or index.by_topology().get(found.name, [])
    for one in runs:
        if run in ("", one.path.name):
            return MeasuredTopology(one, step)
    raise UnknownName("run", run, [one.path.name for one in runs])


TopologyAsked = Annotated[AskedTopology, Depends(pick)]
Hours = Annotated[
    float | None,
    Query(gt=0, le=24 * 365, description="Of history; by default 24, or three of the longest season."),
]
Minutes = Annotated[float, Query(gt=0, le=60, description="To forecast.")]
Seconds = Annotated[float, Query(ge=1, le=3600, description="Length of a bucket.")]
SeasonsAsked = Annotated[
    list[Annotated[float, Field(ge=1, le=366 * 86_400)]] | None,
    Query(
        max_length=5,
        description="Length of a season in seconds (repeatable); 86400 is a day. By default those that the"
        " topology was submitted with, or that its experiment names, as far as they were seen twice.",
    ),
]
ModelsAsked = Annotated[list[str] | None, Query(alias="model", description="Repeatable; ``all`` of them.")]
TunerAsked = Annotated[str, Query(description="Who says how many executors there are to be.")]
Level = Annotated[
    Literal[10, 50, 90, 95, 99],
    BeforeValidator(int),
    Query(description="Quantile of the forecast, in percent."),
]


def traffic_of(
    source_hours: Hours = None,
    future_mins: Minutes = 30,
    metrics_sample_period: Seconds = 2,
    season_s: SeasonsAsked = None,
) -> TrafficAsked:
    """Return the forecast of traffic that is asked."""
    return TrafficAsked(source_hours, future_mins, metrics_sample_period, tuple(season_s or ()))


ForecastAsked = Annotated[TrafficAsked, Depends(traffic_of)]


def future_of(
    traffic: ForecastAsked,
    model: Annotated[str | None, Query(description="A forecaster's name; by default ``fourier-ar``.")] = None,
    quantile: Level = 95,
) -> FutureAsked:
    """Return the forecast that a plan is to fit."""
    from harness.forecasts import DEFAULT

    return FutureAsked(model or DEFAULT, quantile, traffic)


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
    topology: TopologyAsked, asked: ForecastAsked, model: ModelsAsked = None
) -> dict[str, TrafficForecast]:
    """Forecast a topology's traffic by spout component, task and stream, from what was measured."""
    from harness.forecasts import DEFAULT, FORECASTERS
    from harness.service import questions

    models = questions.named(model or [], FORECASTERS, "model", DEFAULT)
    return questions.forecast_traffic(topology, models, asked)


@rest.get("/topology/storm/current/{topology}")
def assess(topology: TopologyAsked, model: ModelsAsked = None) -> dict[str, CurrentAnswer]:
    """Say how a topology performs: service time, arrival rate and capacity by task, latencies by path."""
    from harness.models import MODELS
    from harness.service import questions

    models = questions.named(model or [], MODELS, "model", "composite")
    return {name: questions.assess_current(topology, name) for name in models}


@rest.post("/topology/storm/current/{topology}")
def assess_with(
    topology: TopologyAsked, traffic: SpoutTraffic, model: ModelsAsked = None
) -> dict[str, CurrentAnswer]:
    """Say how the plan in force would perform if its spouts emitted something else, by task and stream."""
    from harness.models import MODELS
    from harness.service import questions

    models = questions.named(model or [], MODELS, "model", "composite")
    return {name: questions.assess_traffic(topology, name, traffic) for name in models}


@rest.post("/topology/storm/proposed/{topology}")
def propose(topology: TopologyAsked, asked: ProposalAsked) -> dict[str, object]:
    """Predict another plan of a topology, a client's or a proposed one; nothing is changed anywhere.

    Of a run, where no step is asked for, the one nearest to the proposal is taken and named.
    """
    return topology.predict(asked)


@rest.get("/topology/storm/packingplan/{topology}/current")
def pack_now(topology: TopologyAsked, tuner: TunerAsked = "ds2") -> PackingPlan:
    """Propose a plan for the traffic that was measured."""
    from harness.service import proposals

    return proposals.pack_current(topology, tuner)


@rest.get("/topology/storm/packingplan/{topology}/future")
def pack_ahead(
    topology: TopologyAsked,
    future: Annotated[FutureAsked, Depends(future_of)],
    tuner: TunerAsked = "ds2",
) -> PackingPlan:
    """Propose a plan for the highest rate that a quantile of the forecast has in the time asked."""
    from harness.forecasts import FORECASTERS
    from harness.service import proposals

    if future.model not in FORECASTERS:
        raise UnknownName("model", future.model, list(FORECASTERS))
    return proposals.pack_future(topology, tuner, future)
