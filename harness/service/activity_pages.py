"""Pages of jobs, and of what was proposed in them, side by side."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.runs import Run
from harness.service.job_rest import JobsHere
from harness.service.job_types import JobInfo, RunAsked
from harness.service.jobs import shipped
from harness.service.proposal_pages import ProposalsAnswer
from harness.service.proposal_table import proposal_rows
from harness.service.run_index import RunIndex, UnknownName
from harness.service.templates import page

activity_pages = APIRouter(prefix="/activity", include_in_schema=False)


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
    rows: list[dict[str, object]] = []
    if info.result and not isinstance(info.asked, RunAsked) and info.result.get("proposals"):
        run, step = measured_step(request, info, ProposalsAnswer.model_validate(info.result).step)
        rows = proposal_rows(info.result, run, step, info.asked.rate_tps)
    return page("job.html.j2", "../", job=info, log=jobs.log(job), rows=rows)


def measured_step(request: Request, info: JobInfo, step: int | None) -> tuple[Run, int]:
    """Return the run and the step that a job's proposals are for."""
    assert not isinstance(info.asked, RunAsked)
    index: RunIndex = request.app.state.index
    experiment, _, start = info.asked.run.rpartition("/")
    run = index.run(experiment, start)
    if step is None or step not in run.finished_steps:
        raise UnknownName("step", str(step), [str(n) for n in run.finished_steps])
    return run, step
