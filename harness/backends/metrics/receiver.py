"""The embedded metrics store: takes what an InfluxDB 2 would take, over HTTP, and keeps it in memory.

It answers the write interface as InfluxDB does: 204 when all lines were taken, 400 with the reason
when some were malformed (the good ones are kept).
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import threading
import zlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

from harness.backends.metrics.rows import NS_PER_UNIT, MetricRows
from harness.errors import ClusterError

log = logging.getLogger(__name__)

WRITE = "/api/v2/write"
MOST_BYTES = 32 << 20
"""A larger request is refused."""


class MetricsReceiver:
    """An HTTP server in a thread of its own, which puts what it is sent into ``store``.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        0 takes a free one.

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

    def __init__(self, host: str = "127.0.0.1", port: int = 8086) -> None:
        self.store = rows = MetricRows()

        class Handler(_RequestHandler):
            store = rows

        try:
            self._server = _Server((host, port), Handler)
        except OSError as e:
            raise ClusterError(f"metrics receiver: cannot listen on {host}:{port}: {e.strerror}") from e
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

    token_file = ""
    """It asks for no token."""
    spool = ""
    """It is never away while there are workers, so nothing waits for it on disk."""

    def close(self) -> None:
        """Stop listening; the rows stay."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """A worker that is killed hangs up in the middle of a request; that is no error of ours to print."""

    daemon_threads = True

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
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_POST(self) -> None:
        try:
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

    def _body(self) -> str:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the request has no Content-Length")
        if int(length) > MOST_BYTES:
            self.close_connection = True
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MOST_BYTES} bytes")
        body = self.rfile.read(int(length))
        try:
            if self.headers.get("Content-Encoding", "identity") == "gzip":
                body = gzip.decompress(body)
            return body.decode()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as e:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {e}") from e

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
