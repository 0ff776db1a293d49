"""Pages of jobs, and of what was proposed in them: side by side, and decision by decision."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.service.job_rest import JobsHere
from harness.service.jobs import shipped
from harness.service.run_index import RunIndex
from harness.service.templates import page

activity_pages = APIRouter(prefix="/activity", include_in_schema=False)


@activity_pages.get("")
def show_work(request: Request, jobs: JobsHere) -> HTMLResponse:
    """Show all jobs, and what a new one may be."""
    index: RunIndex = request.app.state.index
    runs = [f"{e}/{s}" for (e, s), run in index.runs().items() if run.finished_steps]
    return page("work.html.j2", "", jobs=jobs.jobs(), experiments=list(shipped()), runs=runs)


@activity_pages.get("/{job}")
def show_job(jobs: JobsHere, job: str) -> HTMLResponse:
    """Show one job: how it stands, what it said, what came of it."""
    return page("job.html.j2", "../", job=jobs.job(job), log=jobs.log(job))
