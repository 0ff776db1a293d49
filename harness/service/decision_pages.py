"""A tuner's decisions, a page each: of a job's proposal, and of a step that was measured as proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from harness.plans import QueryPlan
from harness.protocols import TuningDecision
from harness.service.activity_pages import measured_step
from harness.service.formulas import mathml, shown, source_of
from harness.service.job_rest import JobsHere
from harness.service.proposal_pages import ProposalsAnswer, decided_notes, tuned_step
from harness.service.run_index import RunIndex, UnknownName
from harness.service.templates import page

decision_pages = APIRouter(include_in_schema=False)
PLAY_S = 2
"""Time for which a decision is shown while they are played."""


@dataclass(frozen=True)
class DecidedPlan:
    """A tuner's decisions, and where its proposal is shown.

    Attributes
    ----------
    tuner : str
    decisions : sequence of TuningDecision
    query_plan : QueryPlan
    back : str
        Address of the page that led here, from the service's own.
    back_words : str
    """

    tuner: str
    decisions: Sequence[TuningDecision]
    query_plan: QueryPlan
    back: str
    back_words: str


@decision_pages.get("/activity/{job}/{tuner}/{number}")
def show_job_decision(
    request: Request, jobs: JobsHere, job: str, tuner: str, number: int, play: bool = False
) -> HTMLResponse:
    """Show one decision of a job's tuner, counted from 1."""
    info = jobs.job(job)
    answer = ProposalsAnswer.model_validate(info.result or {})
    if tuner not in answer.decisions:
        raise UnknownName("tuner", tuner, list(answer.decisions))
    run, step = measured_step(request, info, answer.step)
    graph = run.plan(step).start.query_plan
    back = f"activity/{quote(info.id)}"
    decided = DecidedPlan(tuner, answer.decisions[tuner], graph, back, "All proposals")
    return _decision("../../../", decided, number, play)


@decision_pages.get("/runs/{experiment}/{start}/decisions/{step}/{number}")
def show_step_decision(
    request: Request, experiment: str, start: str, step: int, number: int, play: bool = False
) -> HTMLResponse:
    """Show one decision of the tuner that a step was measured with, counted from 1."""
    index: RunIndex = request.app.state.index
    run = index.run(experiment, start)
    answer = tuned_step(run, step)
    if answer is None:
        tuned = [str(n) for n in run.finished_steps if tuned_step(run, n)]
        raise UnknownName("tuned step", str(step), tuned)
    graph = run.plan(step).start.query_plan
    back = f"runs/{quote(experiment)}/{quote(start)}"
    return _decision(
        "../../../../../", DecidedPlan(answer.tuner, answer.decisions, graph, back, "The run"), number, play
    )


def _decision(root: str, decided: DecidedPlan, number: int, play: bool) -> HTMLResponse:
    """Show a decision; while they are played, the next one follows by itself."""
    from harness.analysis.figures import query_plan_drawing  # noqa: PLC0415 (takes a second)

    of = len(decided.decisions)
    if not 1 <= number <= of:
        raise UnknownName("decision", str(number), [str(n + 1) for n in range(of)])
    decision = decided.decisions[number - 1]
    notes = decided_notes(decided.decisions, number - 1)
    drawing = query_plan_drawing.draw(decided.query_plan, notes, decision.node)
    shown_page = page(
        "decision.html.j2",
        root,
        tuner=decided.tuner,
        number=number,
        of=of,
        decision=decision,
        drawing=Markup(drawing),  # it escapes all names
        formula=mathml(decision.formula),
        filled=mathml(decision.formula, decision.values),
        source=source_of(decision.formula),
        shown=shown,
        play=play,
        back=decided.back,
        back_words=decided.back_words,
    )
    if play and number < of:
        shown_page.headers["refresh"] = f"{PLAY_S};url={number + 1}?play=1"
    return shown_page
