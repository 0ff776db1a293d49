"""Stands between metrics consumers and InfluxDB: what InfluxDB took goes to the embedded store too.

Every third request that was taken is not answered, so that its sender sends it again.
"""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from harness.backends.influxdb.server import InfluxServer
from harness.backends.metrics.rows import MetricRows

UNANSWERED = 3


class Relay:
    """A relay in a thread of its own; counts what passes."""

    def __init__(self, server: InfluxServer) -> None:
        self.store = MetricRows()
        self.taken = 0
        self.unanswered = 0
        self.away = 0
        relay, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
                    headers = {"Authorization": self.headers["Authorization"]}
                    connection.request("POST", self.path, body, headers)
                    answer = connection.getresponse()
                    status, said = answer.status, answer.read()
                    connection.close()
                except OSError:
                    status, said = 503, b"away"
                with lock:
                    if status == 204:
                        relay.taken += 1
                        relay.store.add(body.decode(), 1)
                    relay.away += status == 503
                    lost = status == 204 and relay.taken % UNANSWERED == 0
                    relay.unanswered += lost
                if lost:
                    self.close_connection = True
                    return
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._path = server.write_url.removeprefix(server.url)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What consumers post to."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{self._path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
