"""Two steps watched in one chart: of two runs at once, or one after the other of one run, aligned in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from harness.errors import UsageError
from harness.experiments.loading import load
from harness.experiments.progress import PROGRESS
from harness.runs import Run
from harness.service.job_rest import JobsHere
from harness.service.job_types import JobInfo
from harness.service.jobs import Jobs
from harness.service.pages import step_rows
from harness.service.proposal_pages import TunerAnswer, tuned_step
from harness.service.run_index import RunIndex
from harness.service.templates import page

together_pages = APIRouter(prefix="/together", include_in_schema=False)
ASK_EVERY_S = 1
"""Time between two looks whether a job has a run by now."""


@dataclass(frozen=True)
class FollowedStep:
    """A step that is watched beside another.

    Attributes
    ----------
    run : Run
    address : str
        EXPERIMENT/START, as an address has it.
    step : int
    """

    run: Run
    address: str
    step: int

    @property
    def name(self) -> str:
        """The step in words."""
        return f"{self.run.path.parent.name}, step {self.step}"

    @property
    def found(self) -> dict[str, object] | None:
        """The row of what was measured; None until the step is finished."""
        return next((row for row in step_rows(self.run) if row["step"] == self.step), None)

    @property
    def simulated(self) -> bool:
        """True where it was played."""
        return not load(self.run.path / "experiment.yaml").cluster.measured

    @property
    def declined(self) -> str:
        """Why it was not measured; empty where it was, or may be yet."""
        declined = self.run.declined_steps.get(self.step)
        return "" if declined is None else declined.reason

    @property
    def tuned(self) -> TunerAnswer | None:
        """The tuner's answer that it is of; None until it is finished, and where no tuner was asked."""
        return tuned_step(self.run, self.step)


@together_pages.get("")
def watch_together(
    request: Request,
    jobs: JobsHere,
    step: Annotated[list[str], Query()] = [],  # noqa: B006
    job: Annotated[list[str], Query()] = [],  # noqa: B006
) -> Response:
    """Show two steps, ``EXPERIMENT/START/STEP`` each, or those that jobs measure."""
    index: RunIndex = request.app.state.index
    if job:
        return _of_jobs(index, jobs, job)
    if len(step) != 2:
        raise UsageError(f"{len(step)} steps chosen", "name two: step=EXPERIMENT/START/STEP, twice")
    followed = [_followed(index, address) for address in step]
    return page("together.html.j2", "", followed=followed, cost=request.app.state.load.words)


def _of_jobs(index: RunIndex, jobs: Jobs, names: Sequence[str]) -> Response:
    """Lead to the steps that jobs measure: the first of each, or the first two of one job's run."""
    if len(names) > 2:
        raise UsageError(f"{len(names)} jobs chosen", "name one or two")
    infos = [jobs.job(name) for name in names]
    waiting = [info for info in infos if not _has_events(index, info)]
    if waiting:
        shown = page("together_starting.html.j2", "", jobs=infos)
        if all(info.ongoing for info in waiting):
            shown.headers["refresh"] = str(ASK_EVERY_S)
        return shown
    steps = (
        [f"{info.run}/0" for info in infos] if len(infos) == 2 else [f"{infos[0].run}/{i}" for i in (0, 1)]
    )
    return RedirectResponse(f"together?{urlencode([('step', step) for step in steps])}", 303)


def _has_events(index: RunIndex, info: JobInfo) -> bool:
    """Return True once a job's run has begun: before, its page would take it for one that has ended."""
    experiment, _, start = info.run.rpartition("/")
    found = index.runs().get((experiment, start))
    return found is not None and (found.path / PROGRESS).is_file()


def _followed(index: RunIndex, address: str) -> FollowedStep:
    named, _, step = address.rpartition("/")
    experiment, _, start = named.rpartition("/")
    if not step.isdecimal():
        raise UsageError(f"step {address!r}: its last part is no number", "write EXPERIMENT/START/STEP")
    run = index.run(experiment, start)
    return FollowedStep(run, f"{quote(experiment)}/{quote(start)}", int(step))
