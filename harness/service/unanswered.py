"""Requests that nothing has answered: the service failed at one, or ends while it is computed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.errors import HarnessError

logger = logging.getLogger(__name__)


class ServiceFault(HarnessError):
    """The service has a fault, which its log has with a traceback."""


class ServiceEnds(HarnessError):
    """The service was told to end before a request was answered."""


class AnsweredFaults:
    """Answers in one line where an application raises what it does not handle, or has to end.

    Parameters
    ----------
    application : callable
        An ASGI application.
    answer : callable
        Returns the answer that says an error.
    """

    def __init__(self, application: ASGIApp, answer: Callable[[Request, Exception], Response]) -> None:
        self._application = application
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        error: HarnessError
        try:
            await self._application(scope, receive, send_noted)
            return
        except asyncio.CancelledError:  # nothing else cancels an answer
            error = ServiceEnds("the service ends before this is answered", "ask the next one")
        except Exception:
            asked = f"{scope['method']} {scope['path']}"
            logger.exception("%s was not answered", asked)
            error = ServiceFault(f"the service failed at {asked}", "what it printed says where")
        if not begun:
            await self._answer(Request(scope), error)(scope, receive, send)
