"""The few requests to InfluxDB that need no client library: is it well, its first settings, lines to take."""

from __future__ import annotations

import http.client
import json
import secrets
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from harness.errors import ClusterError, UsageError
from harness.machine.trust import Trust, require_trusted

PORT = 8086
ORG = "harness"
BUCKET = "harness"
WRITE = f"/api/v2/write?org={ORG}&bucket={BUCKET}&precision=ns"
GROUP_SECONDS = ((180 * 86_400, 7 * 86_400), (2 * 86_400, 86_400), (0, 3_600))
"""Lengths of the groups that InfluxDB keeps points in, by the least time that points are kept: its own."""
REFUSED = (400, 413, 422)
"""Statuses that it answers to lines that it will never take."""
TIMEOUT_S = 10.0
DAY_S = 86_400


@dataclass(frozen=True)
class Answer:
    """Answer of a server to a request: the status, and the body's values."""

    status: int
    said: dict[str, object]

    @property
    def message(self) -> str:
        """Its own words, in one line."""
        return " ".join(str(self.said.get("message", f"status {self.status}")).split())


class InfluxApi:
    """A server by its address.

    Parameters
    ----------
    host, port
        Where it listens.
    trust : Trust, optional
        How its certificate is known; without, it speaks plain HTTP.

    Raises
    ------
    UsageError
        By every method, when its certificate is another one.
    """

    def __init__(self, host: str, port: int = PORT, trust: Trust | None = None) -> None:
        self.host = host
        self.port = port
        self.trust = trust

    @classmethod
    def of(cls, url: str, trust: Trust | None = None) -> Self:
        """Return the server with an address, ``http://host:port`` or, with ``trust``, ``https://host:port``."""
        address = urlsplit(url)
        return cls(str(address.hostname), address.port or PORT, trust)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http{'s' if self.trust else ''}://{self.host}:{self.port}"

    @property
    def write_url(self) -> str:
        """Where lines are posted to, timestamps in nanoseconds."""
        return f"{self.url}{WRITE}"

    def answers(self) -> bool:
        """Return True if the server says that it is healthy."""
        try:
            answer = self.request("GET", "/health")
        except (OSError, http.client.HTTPException):
            return False
        return answer.status == 200 and answer.said.get("status") == "pass"

    def set_up(self, token: str, retention_days: int, password: str = "") -> None:
        """Make its organisation, bucket and token where it has none yet.

        Parameters
        ----------
        token : str
            The one to have.
        retention_days : int
            How long the bucket keeps points; 0 for ever.
        password : str
            Of its only user; one that nobody knows when left out, as the token does all that is needed.

        Raises
        ------
        ClusterError
            When it does not answer or refuses.
        """
        settings = {
            "username": ORG,
            "password": password or secrets.token_urlsafe(32),
            "org": ORG,
            "bucket": BUCKET,
            "retentionPeriodSeconds": retention_days * DAY_S,
            "token": token,
        }
        try:
            if self.request("GET", "/api/v2/setup").said.get("allowed"):
                answer = self.request("POST", "/api/v2/setup", json.dumps(settings).encode())
                if answer.status != 201:
                    raise ClusterError(f"influxdb at {self.url} cannot be set up: {answer.message}")
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"influxdb at {self.url} cannot be set up: {error}") from None

    def keep_for(self, token: str, retention_days: int) -> None:
        """Let its bucket keep points for so many days, where it does not yet.

        Raises
        ------
        UsageError
            When it refuses the token.
        ClusterError
            When it does not answer or refuses.
        """
        wanted = retention_days * DAY_S
        try:
            answer = self.request("GET", f"/api/v2/buckets?name={BUCKET}", token=token)
            if answer.status in (401, 403):
                raise UsageError(f"influxdb at {self.url} refuses the token: {answer.message}")
            buckets = answer.said.get("buckets")
            if not isinstance(buckets, list) or len(buckets) != 1:
                raise ClusterError(f"influxdb at {self.url}: there is no bucket {BUCKET}: {answer.message}")
            if sum(rule["everySeconds"] for rule in buckets[0]["retentionRules"]) != wanted:
                # a group of points goes as a whole, so it has to be shorter than points are kept
                group = next(g for least, g in GROUP_SECONDS if wanted >= least or not wanted)
                rule = {"type": "expire", "everySeconds": wanted, "shardGroupDurationSeconds": group}
                rules = {"retentionRules": [rule]}
                path = f"/api/v2/buckets/{buckets[0]['id']}"
                answer = self.request("PATCH", path, json.dumps(rules).encode(), token)
                if answer.status != 200:
                    raise ClusterError(f"influxdb at {self.url}: cannot keep {wanted} s: {answer.message}")
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"influxdb at {self.url} does not answer: {error}") from None

    def post(self, lines: bytes, token: str) -> Answer:
        """Give it lines.

        Raises
        ------
        OSError, http.client.HTTPException
            When it does not answer.
        """
        return self.request("POST", WRITE, lines, token)

    def request(self, method: str, path: str, body: bytes | None = None, token: str = "") -> Answer:
        """Ask it something.

        Raises
        ------
        OSError, http.client.HTTPException
            When it does not answer.
        """
        headers = {"Authorization": f"Token {token}"} if token else {}
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            require_trusted(self.trust, f"influxdb at {self.url}", error)
            raise
        finally:
            connection.close()
        try:
            return Answer(answer.status, dict(json.loads(text)) if text else {})
        except ValueError:  # not what influxdb says
            return Answer(answer.status, {"message": text.decode(errors="replace")[:200]})

    def _connection(self) -> http.client.HTTPConnection:
        if self.trust is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        context = self.trust.context()
        return http.client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT_S, context=context)
