"""The model loaded when the service starts, so that the first question is answered as fast as the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from harness.machine.version import HARNESS_VERSION

logger = logging.getLogger(__name__)
ModelState = Literal["loading", "ready", "failed"]
health = APIRouter()


class Health(BaseModel):
    """State of the service.

    Attributes
    ----------
    model : {"loading", "ready", "failed"}
        Pages are served in any state. A question that comes while the model is being loaded waits for it.
    """

    version: str
    model: ModelState


class ModelLoading:
    """The model being loaded beside the service.

    Parameters
    ----------
    load : callable
        Loads it.
    then : callable, optional
        Called once it is loaded, or failed.
    """

    def __init__(self, load: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        self._load = load
        self._then = then
        self._thread = threading.Thread(target=self._carry_out, name="model loading")
        self.state: ModelState = "loading"

    def start(self) -> None:
        """Begin, and return at once."""
        self._thread.start()

    def join(self) -> None:
        """Wait until it is loaded, or failed."""
        self._thread.join()

    def _carry_out(self) -> None:
        try:
            self._load()
        except Exception:
            logger.exception("the model was not loaded; questions try it again")
            self.state = "failed"
        else:
            self.state = "ready"
        self._then()


def load_model() -> None:
    """Predict another plan of the shipped example, by the way that a question takes."""
    from harness.app.conformance import example  # noqa: PLC0415 (takes seconds)
    from harness.app.submitted.plan_file import labels  # noqa: PLC0415 (takes seconds)
    from harness.service import left_topology  # noqa: F401, PLC0415 (who asks about a submitted one waits)
    from harness.service.answers import ProposalAsked  # noqa: PLC0415 (takes seconds)
    from harness.service.proposals import predict_observed  # noqa: PLC0415 (takes seconds)
    from harness.service.questions import computing  # noqa: PLC0415 (takes seconds)

    with computing.loading():
        case = example()
        predict_observed(case.source, ProposalAsked(placement=labels(case.proposed)))


@health.get("/health")
def say_health(request: Request) -> Health:
    """Say whether the model is loaded."""
    loading: ModelLoading = request.app.state.model
    return Health(version=HARNESS_VERSION, model=loading.state)
