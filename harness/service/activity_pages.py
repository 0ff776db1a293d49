"""Pages of jobs, and of what was proposed in them: side by side, and decision by decision."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from harness.runs import Run
from harness.service import proposal_pages
from harness.service.formulas import mathml, shown, source_of
from harness.service.job_rest import JobsHere
from harness.service.job_types import JobInfo, RunAsked
from harness.service.jobs import shipped
from harness.service.run_index import RunIndex, UnknownName
from harness.service.templates import page

activity_pages = APIRouter(prefix="/activity", include_in_schema=False)
PLAY_S = 2
"""How long a decision is shown while they are played."""


@activity_pages.get("")
def show_jobs(request: Request, jobs: JobsHere, run: str = "") -> HTMLResponse:
    """Show all jobs, and what a new one may be."""
    index: RunIndex = request.app.state.index
    runs = [f"{e}/{s}" for (e, s), found in index.runs().items() if found.finished_steps]
    return page("activity.html.j2", "", jobs=jobs.jobs(), experiments=list(shipped()), runs=runs, chosen=run)


@activity_pages.get("/{job}")
def show_job(request: Request, jobs: JobsHere, job: str) -> HTMLResponse:
    """Show one job: its state, its log and its result."""
    info = jobs.job(job)
    rows = []
    if info.result and not isinstance(info.asked, RunAsked):
        answer = proposal_pages.ProposalsAnswer.model_validate(info.result)
        run, step = _measured(request, info, answer.step)
        for proposal in answer.proposals:
            text = ""
            if proposal.status != "declined":
                text = proposal_pages.original_and_proposed(run, step, info.asked.rate_tps, proposal)
            rows.append({**proposal.row(), "file": text})
    return page("job.html.j2", "../", job=info, log=jobs.log(job), rows=rows)


@activity_pages.get("/{job}/{tuner}/{number}")
def show_decision(
    request: Request, jobs: JobsHere, job: str, tuner: str, number: int, play: bool = False
) -> HTMLResponse:
    """Show one decision of a tuner, counted from 1; while they are played, the next one follows by itself."""
    from harness.analysis.figures import query_plan_drawing  # noqa: PLC0415 (takes a second)

    info = jobs.job(job)
    answer = proposal_pages.ProposalsAnswer.model_validate(info.result or {})
    if tuner not in answer.decisions:
        raise UnknownName("tuner", tuner, list(answer.decisions))
    decisions = answer.decisions[tuner]
    if not 1 <= number <= len(decisions):
        raise UnknownName("decision", str(number), [str(n + 1) for n in range(len(decisions))])
    decision = decisions[number - 1]
    run, step = _measured(request, info, answer.step)
    notes = proposal_pages.decided_notes(decisions, number - 1)
    drawing = query_plan_drawing.draw(run.plan(step).start.query_plan, notes, decision.node)
    shown_page = page(
        "decision.html.j2",
        "../../../",
        job=info,
        tuner=tuner,
        number=number,
        of=len(decisions),
        decision=decision,
        drawing=Markup(drawing),  # it escapes all names
        formula=mathml(decision.formula),
        filled=mathml(decision.formula, decision.values),
        source=source_of(decision.formula),
        shown=shown,
        play=play,
    )
    if play and number < len(decisions):
        shown_page.headers["refresh"] = f"{PLAY_S};url={number + 1}?play=1"
    return shown_page


def _measured(request: Request, info: JobInfo, step: int | None) -> tuple[Run, int]:
    """Return the run and the step that a job's proposals are for."""
    assert not isinstance(info.asked, RunAsked)
    index: RunIndex = request.app.state.index
    experiment, _, start = info.asked.run.rpartition("/")
    run = index.run(experiment, start)
    if step is None or step not in run.finished_steps:
        raise UnknownName("step", str(step), [str(n) for n in run.finished_steps])
    return run, step
