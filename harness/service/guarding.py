"""Who may ask the service: pages of its own on this machine, and nobody through another site's page."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20
"""A larger body is refused: the largest plan of a thousand executors has a tenth of that."""
TOO_LARGE = f"a body of more than {MOST_BYTES} bytes"
_DIGITS = 9
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content policy of every answer that sets none itself: only what this service serves."""
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""Content policy of a run's report, which is one file with its own styles and script: it reaches nothing,
this service included."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class LoopbackGuard:
    """Refuses requests by another host's name or from another origin, and adds headers that keep pages apart.

    A page elsewhere can make a browser ask a loopback address. By a name of its own that resolves to
    loopback, the ``Host`` tells; else the ``Origin`` does.

    Parameters
    ----------
    application : callable
        An ASGI application.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = {"content-security-policy": POLICY, **HEADERS}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in added.items() if k.encode() not in given),
                ]
            await send(message)

        received_bytes = 0

        async def receive_limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > MOST_BYTES:  # of a body that came in chunks, and did not say its length
                raise HTTPException(413, TOO_LARGE)
            return message

        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        asked = (headers.get(name) for name in (b"origin", b"sec-fetch-site", b"content-length"))
        if refusal := refusal_of(headers.get(b"host", ""), *asked):
            await _refuse(send_guarded, refusal)
        else:
            await self._application(scope, receive_limited, send_guarded)


def refusal_of(
    host: str, origin: str | None, fetch_site: str | None = None, length: str | None = None
) -> str:
    """Say why a request is refused; empty for one that may pass.

    Examples
    --------
    >>> refusal_of("localhost:8080", None), refusal_of("127.0.0.1:8080", "http://127.0.0.1:8080")
    ('', '')
    >>> refusal_of("127.0.0.1:8080", "http://elsewhere.example")
    "origin 'http://elsewhere.example' is not this service"
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in LOOPBACK:
        return f"host {host!r} is not this service: ask by a loopback address"
    if origin is not None and origin != f"http://{host}":
        return f"origin {origin!r} is not this service"
    if fetch_site in ("cross-site", "same-site"):  # an image or a link of another site's page
        return "another site's page asked: open the address itself"
    if length is not None and (len(length) > _DIGITS or not length.isdecimal() or int(length) > MOST_BYTES):
        return TOO_LARGE
    return ""


async def _refuse(send: Send, reason: str) -> None:
    body = json.dumps({"errors": [{"type": "Refused", "error": reason}]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    status = 413 if reason == TOO_LARGE else 403
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
