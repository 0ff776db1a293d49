"""Pages: the table of runs, two runs side by side, and one run, live or replayed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from harness.errors import HarnessError, UsageError
from harness.plans import QueryPlan
from harness.runs import Run
from harness.service.following import RunFollowers, is_there
from harness.service.guarding import REPORT_POLICY
from harness.service.plan_traffic_view import View, drawn_plan
from harness.service.run_index import ModelError, RunIndex, RunRow, UnknownName, run_row
from harness.service.templates import page

pages = APIRouter(include_in_schema=False)

FILES = {
    "page.css": "text/css",
    "charts.js": "text/javascript",
    "run.js": "text/javascript",
    "together.js": "text/javascript",
    "work.js": "text/javascript",
    "builder.js": "text/javascript",
    "topology.js": "text/javascript",
}


@pages.get("/")
def show_runs(
    request: Request,
    experiment: str = "",
    verdict: str = "",
    commit: str = "",
) -> HTMLResponse:
    """Show the runs, those that the filter leaves."""
    rows = list(_index(request).rows())
    shown = [
        row
        for row in rows
        if experiment.lower() in row.experiment.lower()
        and verdict in ("", row.verdict)
        and row.commit.startswith(commit)
    ]
    asked = {"experiment": experiment, "verdict": verdict, "commit": commit}
    verdicts = sorted({row.verdict for row in rows})
    return page("runs.html.j2", "", rows=shown, of=len(rows), asked=asked, verdicts=verdicts)


@pages.get("/compare")
def compare_runs(request: Request, run: Annotated[list[str], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Show two runs side by side: measurements of each configuration, and each model's errors."""
    if len(run) != 2:
        raise UsageError(f"{len(run)} runs chosen", "choose two in the table of runs")
    sides = []
    for address in run:
        experiment, _, start = address.rpartition("/")
        sides.append(run_row(experiment, start, _index(request).run(experiment, start)))
    return page("compare.html.j2", "", sides=sides, measured=_measured(sides), models=_models(sides))


@pages.get("/runs/{experiment}/{start}")
def show_run(request: Request, experiment: str, start: str) -> HTMLResponse:
    """Show one run, live or replayed."""
    run = _index(request).run(experiment, start)
    row = run_row(experiment, start, run)
    reported = (run.path / "report.html").is_file()
    cost = request.app.state.load.words
    return page("run.html.j2", "../../", row=row, steps=step_rows(run), reported=reported, cost=cost)


@pages.get("/runs/{experiment}/{start}/events")
async def follow_run(
    request: Request, experiment: str, start: str, last_event_id: Annotated[str, Header()] = ""
) -> Response:
    """Send a run's events as they are written."""
    skip = int(last_event_id[:9]) if last_event_id.isdecimal() else 0
    followers: RunFollowers = request.app.state.followers

    def follow(run: Run) -> Response:
        return StreamingResponse(followers.server_sent(run, skip), media_type="text/event-stream")

    return _part(request, experiment, start, follow)


@pages.get("/runs/{experiment}/{start}/plan/{step}")
def draw_plan(
    request: Request,
    experiment: str,
    start: str,
    step: int,
    view: View = "whole",
    at: float | None = None,
) -> Response:
    """Draw a step's physical plan as it ran at a moment (epoch ms), for a page that is open already."""

    def draw(run: Run) -> Response:
        drawn = drawn_plan(run, step, view, at)
        if drawn is None:
            raise UnknownName("step", str(step), [])
        return HTMLResponse(drawn)

    return _part(request, experiment, start, draw)


@pages.get("/runs/{experiment}/{start}/steps")
def show_steps(request: Request, experiment: str, start: str) -> Response:
    """Show the table of a run's finished steps, for a page that is open already."""
    return _part(
        request, experiment, start, lambda run: page("steps.html.j2", "../../", steps=step_rows(run))
    )


@pages.get("/runs/{experiment}/{start}/report")
def show_report(request: Request, experiment: str, start: str) -> Response:
    """Serve a run's report as it was written, apart from everything else here."""
    path = _index(request).run(experiment, start).path / "report.html"
    if not path.is_file():
        raise UnknownName("report of", f"{experiment}/{start}", ["make it with: harness report RUN"])
    return FileResponse(path, media_type="text/html", headers={"content-security-policy": REPORT_POLICY})


@pages.get("/static/{name}")
def serve_file(name: str) -> Response:
    """Serve a style sheet or a script."""
    if name not in FILES:
        raise UnknownName("file", name, list(FILES))
    text = resources.files("harness").joinpath("assets", "service", name).read_text(encoding="utf-8")
    return Response(text, media_type=FILES[name])


def step_rows(run: Run) -> list[dict[str, object]]:
    """Return a row a finished step: what was asked, measured, and became of its messages.

    A step that cannot be read says so in its row.
    """
    rows: list[dict[str, object]] = []
    for step in run.finished_steps:
        try:
            interval, quality = run.interval(step), run.quality(step)
        except UsageError as error:
            rows.append({"step": step, "problem": str(error)})
            continue
        rows.append(
            {
                "step": step,
                "problem": "",
                "configuration": interval.configuration,
                "rate_tps": interval.rate_tps,
                "mean_ms": interval.mean_ms,
                "half_width_ms": interval.half_width_ms,
                "latency": interval.latency,
                "burn_in_s": interval.burn_in.seconds,
                "interval_s": (interval.end_ns - interval.start_ns) / 1e9,
                "busy_pct": interval.machine_busy_pct,
                "stolen_pct": interval.machine_steal_pct,
                "saturated": quality.saturated,
                "ledger": quality.ledger_counts,
            }
        )
    return rows


@dataclass(frozen=True)
class ComparedStep:
    """A step of a run that is shown beside one of another run."""

    step: int
    latency: str
    query_plan: QueryPlan
    saturated: str
    mean_ms: float
    half_width_ms: float


def _measured(sides: list[RunRow]) -> list[dict[str, object]]:
    """Return the configurations and rates that both runs measured, with both means and their difference.

    Repeats of one are paired in order. There is no difference between topologies, nor of a saturated step,
    which has no mean.
    """
    first, second = (_by_configuration(side.run) for side in sides)
    rows: list[dict[str, object]] = []
    for key in first:
        if key not in second:
            continue
        a, b = first[key], second[key]
        alike = a.latency == b.latency and a.query_plan == b.query_plan
        known = alike and not any(s.saturated or not math.isfinite(s.mean_ms) for s in (a, b))
        difference_pct = 100 * (b.mean_ms / a.mean_ms - 1) if known and a.mean_ms else None
        rows.append(
            {"configuration": key[0], "rate_tps": key[1], "sides": (a, b), "difference_pct": difference_pct}
        )
    return rows


def _by_configuration(run: Run) -> dict[tuple[str, float, int], ComparedStep]:
    """Return the readable steps by configuration, rate and how many of these came before."""
    found: dict[tuple[str, float, int], ComparedStep] = {}
    for step in run.finished_steps:
        try:
            interval, quality = run.interval(step), run.quality(step)
        except UsageError:
            continue
        before = sum(key[:2] == (interval.configuration, interval.rate_tps) for key in found)
        found[interval.configuration, interval.rate_tps, before] = ComparedStep(
            step=step,
            latency=interval.latency,
            query_plan=run.plan(step).start.query_plan,
            saturated=quality.saturated,
            mean_ms=interval.mean_ms,
            half_width_ms=interval.half_width_ms,
        )
    return found


def _models(sides: list[RunRow]) -> list[tuple[str, list[ModelError | None]]]:
    """Return each model's errors in both runs; None where one did not judge it."""
    by_model = [{e.model: e for e in side.errors} for side in sides]
    names = dict.fromkeys(name for errors in by_model for name in errors)
    return [(name, [errors.get(name) for errors in by_model]) for name in names]


def _part(request: Request, experiment: str, start: str, make: Callable[[Run], Response]) -> Response:
    """Answer for a page that is open already: with nothing (204) where the run's folder was deleted under it.

    A status of an error would be one in the browser's console, which is for errors of the page.
    """
    run: Run | None = None
    try:
        run = _index(request).run(experiment, start)
        return make(run)
    except (HarnessError, OSError):
        if run is not None and is_there(run):
            raise
        return Response(status_code=204)


def _index(request: Request) -> RunIndex:
    index: RunIndex = request.app.state.index
    return index
