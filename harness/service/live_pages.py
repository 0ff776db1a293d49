"""Pages of submitted topologies: all of them, and one live, with a proposed plan beside the one in force."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from harness.app.submitted.folder import SubmittedTopology, known
from harness.app.submitted.live_rows import LiveMetrics, LiveRows
from harness.errors import UsageError
from harness.experiments.plan_traffic import PlanTraffic, TrafficByMoment
from harness.forecasts.histories import SubjectHistory
from harness.plans import PhysicalPlan
from harness.protocols import RateForecast
from harness.service.charts import Band, line_chart
from harness.service.formulas import mathml
from harness.service.formulas import shown as shown_value
from harness.service.plan_traffic_view import View, plan_parts
from harness.service.run_index import UnknownName
from harness.service.templates import page

if TYPE_CHECKING:
    from harness.service.live_topology import LiveView

live_pages = APIRouter(prefix="/topologies", include_in_schema=False)
DEFAULT_TUNER = "ds2"


class RateChart(NamedTuple):
    """A chart of a spout's rates, in buckets longer than those reported where it says so."""

    title: str
    longer: str
    drawn: Markup
    foreseen: bool


@live_pages.get("")
def show_topologies(request: Request) -> HTMLResponse:
    """Show the topologies that were submitted to stay."""
    rows: list[dict[str, object]] = []
    for name, topology in _all(request).items():
        try:
            facts, applied = topology.facts, topology.applied
            rows.append({"name": name, "facts": facts, "kept": topology.plan, "applied": len(applied)})
        except UsageError as reason:  # the others are shown still
            rows.append({"name": name, "reason": str(reason)})
    return page("topologies.html.j2", "", rows=rows)


@live_pages.get("/{name}")
def show_topology(request: Request, name: str) -> HTMLResponse:
    """Show one topology live; the page asks for its parts again and again."""
    topology = _topology(request, name)
    return page(
        "topology.html.j2",
        "../",
        topology=topology,
        facts=topology.facts,
        **_proposers(DEFAULT_TUNER),
        **_live(request, topology, "compact"),
    )


@live_pages.get("/{name}/live")
def show_live(request: Request, name: str, view: View = "compact") -> HTMLResponse:
    """Show the parts of a topology's page that change, for a page that is open already."""
    topology = _topology(request, name)
    return page("topology_live.html.j2", "../../", **_live(request, topology, view))


@live_pages.get("/{name}/proposal")
def show_proposal(
    request: Request, name: str, tuner: str | None = None, scheduler: str | None = None
) -> HTMLResponse:
    """Show a plan for the traffic that is foreseen beside the plan in force; nothing is changed."""
    from harness.analysis.figures import query_plan_drawing
    from harness.service.live_proposal import propose_scheduled, propose_tuned
    from harness.service.live_topology import observe_of, view_live
    from harness.service.proposal_pages import decided_notes
    from harness.service.questions import computing

    if tuner is not None and scheduler is not None:
        raise UsageError("both a tuner and a scheduler are named", "name one of them")
    topology = _topology(request, name)
    metrics: LiveMetrics = request.app.state.live
    rows, past = metrics.rows(topology), metrics.past(topology)
    with computing:
        view, source = view_live(topology, rows, past), observe_of(topology, rows)
        rate_tps = max(source.rate_tps, foreseen_tps(view))
        if scheduler is not None:
            sides = propose_scheduled(source, scheduler, rate_tps)
        else:
            sides = propose_tuned(source, tuner or DEFAULT_TUNER, rate_tps)
    both = [("in force", sides.running)] + ([("proposed", sides.proposed)] if sides.proposed else [])
    traffics = [_traffic(topology, rows, side.plan) for _, side in both]
    graph, notes = source.plan.query_plan, decided_notes(sides.decisions, len(sides.decisions) - 1)
    return page(
        "topology_proposal.html.j2",
        "../../",
        topology=topology,
        sides=sides,
        measured_ms=view.mean_ms,
        drawn=[
            (words, plan_parts(side.plan, traffic, "whole")["drawing"])
            for (words, side), traffic in zip(both, traffics, strict=True)
        ],
        traffic=traffics[0],
        decided=Markup(query_plan_drawing.draw(graph, notes)) if notes else "",  # it escapes all names
        mathml=mathml,
        shown=shown_value,
        **_proposers(sides.by),
    )


def foreseen_tps(view: LiveView) -> float:
    """Return the most messages a second that all spouts are foreseen to emit together, by the band's end."""
    answered = (f.asked for f in view.foreseen.forecasts if f.asked.status == "ok")
    return sum(float(asked.rate_tps[:, -1].max(initial=0.0)) for asked in answered)


def _live(request: Request, topology: SubmittedTopology, shown: View) -> dict[str, object]:
    from harness.service.live_topology import view_live
    from harness.service.questions import computing

    metrics: LiveMetrics = request.app.state.live
    rows, past = metrics.rows(topology), metrics.past(topology)
    with computing:
        view = view_live(topology, rows, past)
    bucket_s = float(topology.experiment.measure.bucket_s)
    traffic = _traffic(topology, rows, view.kept.plan)
    join_s = 1.5 * bucket_s  # a bucket without a report is a gap
    return {
        "live": view,
        **plan_parts(view.kept.plan, traffic, shown),
        "charts": _rate_charts(view, bucket_s),
        "latency": line_chart("latency", "latencies", view.latency, join_s),
        "applied": topology.applied[::-1],
        "cost": request.app.state.load.words,
    }


def _rate_charts(view: LiveView, bucket_s: float) -> list[RateChart]:
    """Return charts of the last minutes, and of the last seasons in their own buckets; the band is last."""
    foreseen = view.foreseen
    pasts = {_name(s): s for s in foreseen.subjects if foreseen.season_s}
    bands = {_name(f.subject): _band(f.asked) for f in foreseen.forecasts}
    charts = []
    for recent in view.rates:
        past = pasts.get(_name(recent), recent)
        if past.history.bucket_s > bucket_s:
            charts.append(_rate_chart(recent, bucket_s, None))
            shown = past
        else:
            shown = max(recent, past, key=lambda s: len(s.history.rate_tps))
        charts.append(_rate_chart(shown, bucket_s, bands.get(_name(recent))))
    return charts


def _name(subject: SubjectHistory) -> tuple[str, str]:
    return subject.component, subject.stream


def _rate_chart(subject: SubjectHistory, reported_s: float, band: Band | None) -> RateChart:
    history = subject.history
    points = list(zip(history.time_s.tolist(), history.rate_tps.tolist(), strict=True))
    join_s = 1.5 * history.bucket_s  # a bucket without a report is a gap
    longer = f" in buckets of {history.bucket_s:g} s" if history.bucket_s > reported_s else ""
    name = f"tuples a second of {subject.component}{longer}"
    drawn = line_chart(name, "rates", points, join_s, band)
    return RateChart(f"{subject.component} ({subject.stream})", longer, drawn, band is not None)


def _traffic(topology: SubmittedTopology, rows: LiveRows, plan: PhysicalPlan) -> PlanTraffic | None:
    """Return the last seconds' traffic since the plan is in force, as it goes in a plan with its tasks."""
    in_force = rows.table.filter(pc.greater(rows.table["bucket_end_ms"], topology.plan.at_epoch_ms))
    bucket_s = float(topology.experiment.measure.bucket_s)
    return TrafficByMoment(in_force, plan, bucket_s).at(math.inf)


def _proposers(chosen: str) -> dict[str, object]:
    """Return who may propose a plan, and whom the page chooses."""
    from harness.schedulers import SCHEDULERS
    from harness.tuning import TUNERS

    return {"tuners": list(TUNERS), "schedulers": list(SCHEDULERS), "chosen": chosen}


def _band(forecast: RateForecast) -> Band | None:
    if forecast.status != "ok":
        return None
    low, middle, high = (forecast.rate_tps[:, i].tolist() for i in range(3))
    return Band(forecast.time_s.tolist(), low, middle, high)


def _all(request: Request) -> dict[str, SubmittedTopology]:
    folder: Path = request.app.state.submitted
    return known(folder)


def _topology(request: Request, name: str) -> SubmittedTopology:
    there = _all(request)
    if name not in there:
        raise UnknownName("topology", name, list(there))
    return there[name]
