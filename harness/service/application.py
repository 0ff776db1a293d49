"""The service as one application: pages, questions, and what is answered when something is wrong."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from harness.app.submitted.folder import DEFAULT_FOLDER
from harness.app.submitted.live_rows import LiveMetrics
from harness.errors import ClusterError, HarnessError, ModelDeclined
from harness.machine.version import HARNESS_VERSION
from harness.service.activity_pages import activity_pages
from harness.service.builder_pages import builder_pages
from harness.service.decision_pages import decision_pages
from harness.service.following import RunFollowers
from harness.service.guarding import LoopbackGuard
from harness.service.job_rest import TokenNeeded, job_rest
from harness.service.jobs import Busy, Jobs
from harness.service.live_pages import live_pages
from harness.service.model_loading import ModelLoading, health, load_model
from harness.service.own_load import CountedRequests, OwnLoad
from harness.service.pages import pages
from harness.service.rest import rest
from harness.service.run_index import RunIndex, UnknownName
from harness.service.templates import error_page
from harness.service.together_pages import together_pages
from harness.service.turns import ModelsBusy
from harness.service.unanswered import AnsweredFaults, ServiceEnds, ServiceFault

if TYPE_CHECKING:
    from harness.app.submitted.asked_cluster import AskedCluster

logger = logging.getLogger(__name__)

STATUS: tuple[tuple[type[HarnessError], int], ...] = (
    (UnknownName, 404),
    (TokenNeeded, 401),
    (Busy, 409),
    (ClusterError, 503),
    (ModelsBusy, 503),
    (ServiceEnds, 503),
    (ServiceFault, 500),
    (HarnessError, 422),
)
"""Status of an answer, by the first kind that its error is of."""
QUESTIONS = ("/model/", "/jobs", "/health")
"""Addresses that are answered in JSON, troubles too."""
JOBS = ".jobs"


def create_application(
    folders: Sequence[Path],
    jobs: Path | None = None,
    token: str = "",
    submitted: Path = DEFAULT_FOLDER,
    cluster: AskedCluster | None = None,
) -> FastAPI:
    """Return the application over the runs below some folders.

    ``state.stopping`` is set by whoever serves it, to end the streams of events; they start the loading of
    ``state.model``, too. Each function of ``state.ending`` is called when the service ends, all at once.

    Parameters
    ----------
    folders : sequence of Path
        Where run directories are; one that is not there yet holds none. Started runs go to the first.
    jobs : Path, optional
        Folder of jobs; by default ``.jobs`` in the first of the runs' folders.
    token : str
        What a request that starts something has to bring; drawn where it is empty.
    submitted : Path
        Where folders of submitted topologies are; one that is not there yet holds none.
    cluster : AskedCluster, optional
        Asked for topologies that nobody here knows, and for the plans in force of those submitted to it.
    """
    application = FastAPI(
        title="storm-harness",
        version=HARNESS_VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=_ending,
    )
    index = RunIndex(folders)
    application.state.index = index
    application.state.jobs = started = Jobs(jobs or folders[0] / JOBS, folders[0], index)
    application.state.ending = [started.end]
    application.state.token = token or secrets.token_urlsafe(16)
    application.state.stopping = False
    application.state.load = load = OwnLoad()
    application.state.followers = RunFollowers(lambda: bool(application.state.stopping), load)
    application.state.submitted = submitted
    application.state.live = LiveMetrics()
    application.state.cluster = cluster
    application.state.model = ModelLoading(load_model, load.rest)
    application.include_router(rest)
    application.include_router(health)
    application.include_router(job_rest)
    application.include_router(pages)
    application.include_router(activity_pages)
    application.include_router(decision_pages)
    application.include_router(together_pages)
    application.include_router(builder_pages)
    application.include_router(live_pages)
    application.add_middleware(CountedRequests, load=load)
    application.add_middleware(AnsweredFaults, answer=_answer_error)
    application.add_middleware(LoopbackGuard)
    application.add_exception_handler(HarnessError, _answer_error)
    application.add_exception_handler(RequestValidationError, _answer_invalid)
    application.add_exception_handler(HTTPException, _answer_http)
    return application


@asynccontextmanager
async def _ending(application: FastAPI) -> AsyncIterator[None]:
    """End with the service what goes on beside it."""
    yield
    await asyncio.gather(*(asyncio.to_thread(end) for end in application.state.ending))


def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HarnessError)
    status = next(code for kind, code in STATUS if isinstance(error, kind))
    if _is_page(request):
        return error_page(error, status)
    said: dict[str, object] = {"type": type(error).__name__, "error": str(error)}
    if isinstance(error, UnknownName):
        said["known"] = list(error.known)
    elif isinstance(error, ModelDeclined):
        said["error"] = f"declined: {error}"
    return JSONResponse({"errors": [said]}, status)


def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = []
    for each in error.errors():
        where = ".".join(str(part) for part in each["loc"])
        wrong.append({"type": str(each["type"]), "error": f"{where}: {each['msg']}"})
    if _is_page(request):
        return error_page(wrong[0]["error"], 422)
    return JSONResponse({"errors": wrong}, 422)


def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = f"{request.url.path}: {error.detail}"
    if _is_page(request):
        return error_page(said, error.status_code)
    errors = [{"type": "HTTPException", "error": said}]
    return JSONResponse({"errors": errors}, error.status_code, error.headers)


def _is_page(request: Request) -> bool:
    return not request.url.path.startswith(QUESTIONS)
