"""The embedded metrics store: takes what an InfluxDB 2 would take, over HTTP, and keeps it in memory.

It answers the write interface as InfluxDB does:

- 204 when all lines were taken;
- 400, with the reason, when some were malformed (the good ones are kept);
- 401 without the run's token;
- 413 for too large a body.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socket
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

from harness.backends.metrics.rows import NS_PER_UNIT, MetricRows
from harness.errors import ClusterError

log = logging.getLogger(__name__)

WRITE = "/api/v2/write"
MOST_BYTES = 32 << 20
"""A larger request is refused, as is one that is larger when unpacked."""
MOST_CONNECTIONS = 256
"""Each has a thread; consumers have one connection each. One more is answered with 503, and tried again."""
FIRST_WITHIN_S = 10
"""So soon a connection has to show the token."""
IDLE_S = 60
_GZIP = 31
"""zlib's number for gzip's own format."""
_BLOCK = 1 << 16
_DRAINED_BYTES = 1 << 20
_DIGITS = 12
"""A length of so many is too large, and is not made a number of."""


def _keep(_token: str) -> str:
    return ""


class MetricsReceiver:
    """An HTTP server in a thread of its own, which puts what it is sent into ``store``.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        0 takes a free one.
    hand_out : callable
        Puts the token where consumers can read it and returns the file's path there; nobody gets it when
        left out.

    Attributes
    ----------
    token : str
        What a request has to show, made anew for each receiver.
    token_file : str
        What holds the token, on the workers' hosts.

    Raises
    ------
    ClusterError
        When the address cannot be had.

    Examples
    --------
    >>> with MetricsReceiver("127.0.0.1", 0) as metrics:  # doctest: +SKIP
    ...     metrics.url
    'http://127.0.0.1:41233/api/v2/write?org=harness&bucket=harness&precision=ns'
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 8086, hand_out: Callable[[str], str] = _keep
    ) -> None:
        self.store = rows = MetricRows()
        self.token = made = secrets.token_urlsafe(32)

        class Handler(_RequestHandler):
            store = rows
            token = made

        try:
            self._server = _Server((host, port), Handler)
        except OSError as e:
            raise ClusterError(f"metrics receiver: cannot listen on {host}:{port}: {e.strerror}") from e
        try:
            self.token_file = hand_out(made)
        except BaseException:
            self._server.server_close()
            raise
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where lines are written to, timestamps in nanoseconds."""
        host = str(self._server.server_address[0])
        return f"http://{host}:{self.port}{WRITE}?org=harness&bucket=harness&precision=ns"

    spool = ""
    """It is never away while there are workers, so nothing waits for it on disk."""
    ca_file = ""
    """It speaks plain HTTP."""

    def close(self) -> None:
        """Stop listening; the rows stay."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Server(ThreadingHTTPServer):
    """A worker that is killed hangs up in the middle of a request; that is no error of ours to print."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Serve a connection in a thread of its own, or refuse it when there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        assert isinstance(request, socket.socket)  # of TCP
        with suppress(OSError):
            request.setblocking(False)
            request.send(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Serve a connection, and make room for another one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 (the server calls it)
        """Pass over a connection that broke; say anything else in the log."""
        if not isinstance(sys.exception(), ConnectionError):
            log.exception("a request from %s", client_address)


class _Refused(Exception):
    """A request that cannot be taken: status and reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _RequestHandler(BaseHTTPRequestHandler):
    store: MetricRows
    token: str
    protocol_version = "HTTP/1.1"
    timeout = FIRST_WITHIN_S

    def do_POST(self) -> None:
        try:
            self._require_token()
            body = self._body()
            url = urlsplit(self.path)
            if url.path != WRITE:
                raise _Refused(HTTPStatus.NOT_FOUND, f"nothing is at {url.path}")
            precision = parse_qs(url.query).get("precision", ["ns"])[0]
            if precision not in NS_PER_UNIT:
                raise _Refused(HTTPStatus.BAD_REQUEST, f"precision {precision!r} is none of {[*NS_PER_UNIT]}")
            complaints = self.store.add(body, NS_PER_UNIT[precision])
            if complaints:
                more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
                raise _Refused(HTTPStatus.BAD_REQUEST, complaints[0] + more)
        except _Refused as e:
            self._answer(e.status, {"code": e.status.phrase.lower(), "message": str(e)})
        else:
            self._answer(HTTPStatus.NO_CONTENT, None)

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/health":
            self._answer(HTTPStatus.OK, {"name": "harness", "status": "pass"})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"code": "not found", "message": f"nothing is at {self.path}"})

    def _require_token(self) -> None:
        """Refuse a request without the token before its body is read into memory."""
        shown = self.headers.get("Authorization", "").encode(errors="replace")
        if hmac.compare_digest(shown, f"Token {self.token}".encode()):
            self.connection.settimeout(IDLE_S)
            return
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        left = min(int(length), _DRAINED_BYTES) if length.isdecimal() and len(length) < _DIGITS else 0
        # one that is sending hears the answer only if what it sends is read
        while left > 0 and (block := self.rfile.read(min(left, _BLOCK))):
            left -= len(block)
        raise _Refused(HTTPStatus.UNAUTHORIZED, "the request does not show this run's token")

    def _body(self) -> str:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length")
        if len(length) >= _DIGITS or int(length) > MOST_BYTES:
            self.close_connection = True
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MOST_BYTES} bytes")
        body = self.rfile.read(int(length))
        if self.headers.get("Content-Encoding", "identity") == "gzip":
            body = _unpacked(body)
        # a byte that is no text spoils its own line, not the others
        return body.decode(errors="surrogateescape")

    def _answer(self, status: HTTPStatus, content: dict[str, str] | None) -> None:
        body = json.dumps(content).encode() if content is not None else b""
        self.send_response(status)
        if content is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: refusals are counted, and named in the answer."""


def _unpacked(body: bytes) -> bytes:
    """Return what gzip packed, one member or several, of at most ``MOST_BYTES``."""
    parts, left = list[bytes](), MOST_BYTES
    try:
        while body:
            member = zlib.decompressobj(_GZIP)
            parts.append(member.decompress(body, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise _Refused(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MOST_BYTES} bytes when unpacked"
                )
            if not member.eof:
                raise _Refused(HTTPStatus.BAD_REQUEST, "the body cannot be read: it ends early")
            body = member.unused_data
    except zlib.error as e:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {e}") from e
    return b"".join(parts)
