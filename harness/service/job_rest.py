"""Jobs over HTTP: starting one needs the token that the service printed; looking at them does not."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from harness.errors import HarnessError
from harness.service.answers import Troubles
from harness.service.job_types import JobAsked, JobInfo
from harness.service.jobs import Jobs


class TokenNeeded(HarnessError):
    """A request that would start something came without the token that the service printed."""


def require_token(
    request: Request, authorization: Annotated[str, Header(description="Bearer and the token.")] = ""
) -> None:
    """Require the token of this start of the service.

    Raises
    ------
    TokenNeeded
        When it is another, or none.
    """
    kind, _, given = authorization.partition(" ")
    if kind.lower() != "bearer" or not secrets.compare_digest(
        given.encode(), request.app.state.token.encode()
    ):
        raise TokenNeeded("this needs the token that the service printed", "open the address that it printed")


def jobs_of(request: Request) -> Jobs:
    """Return the service's jobs."""
    found: Jobs = request.app.state.jobs
    return found


JobsHere = Annotated[Jobs, Depends(jobs_of)]
TROUBLE: dict[int | str, dict[str, object]] = {
    401: {"model": Troubles, "description": "Without the token"},
    404: {"model": Troubles, "description": "Unknown job, experiment, run, scheduler or tuner"},
    409: {"model": Troubles, "description": "It runs, is done, or too many run"},
    422: {"model": Troubles, "description": "Something in the request cannot be"},
}
job_rest = APIRouter(prefix="/jobs", responses=TROUBLE)


@job_rest.get("")
def list_jobs(jobs: JobsHere) -> list[JobInfo]:
    """List all jobs, newest first."""
    return jobs.jobs()


@job_rest.get("/{job}")
def show_job(jobs: JobsHere, job: str) -> JobInfo:
    """Show a job, with its result once there is one."""
    return jobs.job(job)


@job_rest.post("", status_code=202, dependencies=[Depends(require_token)])
def start_job(jobs: JobsHere, asked: JobAsked, response: Response) -> JobInfo:
    """Start a job; ``Location`` is where it is shown."""
    started = jobs.start(asked)
    response.headers["location"] = f"/jobs/{started.id}"
    return started


@job_rest.post("/{job}/again", status_code=202, dependencies=[Depends(require_token)])
def start_again(jobs: JobsHere, job: str) -> JobInfo:
    """Start an interrupted or failed job once more; a run goes on where it was."""
    return jobs.again(job)


@job_rest.post("/{job}/stop", status_code=202, dependencies=[Depends(require_token)])
def stop_job(jobs: JobsHere, job: str) -> JobInfo:
    """Stop a job; it is then interrupted."""
    return jobs.stop(job)
