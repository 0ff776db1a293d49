"""A real InfluxDB 2 as a server of the local cluster."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import secret_files
from harness.backends.companions import DataServer
from harness.backends.server_config import LOOPBACK
from harness.errors import ClusterError

logger = logging.getLogger(__name__)

PORT = 8086
ORG = "harness"
BUCKET = "harness"
WRITE = f"/api/v2/write?org={ORG}&bucket={BUCKET}&precision=ns"
TIMEOUT_S = 10.0
REFUSED = (400, 413, 422)
"""What it answers to lines that it will never take."""


class InfluxServer(DataServer):
    """InfluxDB with one bucket and one token, made at its first start.

    Parameters
    ----------
    program : Path
        ``influxd``.
    data : Path
        Its folder: the database, the token (a 0600 file) and the metrics that it has not taken yet.
    retention_days : int
        How long it keeps points; 0 for ever. It is fixed at the first start.
    token : str, optional
        The token to use; at the first start, the token to have. One is made when left out.
    """

    def __init__(
        self,
        program: Path,
        data: Path,
        retention_days: int = 0,
        token: str | None = None,
        port: int = PORT,
    ) -> None:
        super().__init__("influxdb", data, LOOPBACK, port)
        self._program = program
        self._retention_days = retention_days
        self._token = token

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"

    @property
    def write_url(self) -> str:
        """Where lines are posted to, timestamps in nanoseconds."""
        return f"{self.url}{WRITE}"

    @property
    def token_file(self) -> Path:
        """What holds the token in use; one that was given is there only as long as the server runs."""
        return self.data / ("token" if self._token is None else "token.given")

    @property
    def spool(self) -> Path:
        """Where metrics wait that it has not taken yet."""
        return self.data / "spool"

    def waiting(self, before_ms: int) -> int:
        """Return how many batches wait that were put aside by a time (ms since 1970, in their names)."""
        return sum(1 for file in self._waiting() if int(file.name[:13]) <= before_ms)

    def command(self) -> Sequence[str]:
        """Return its command line."""
        return (
            str(self._program),
            f"--http-bind-address={self.host}:{self.port}",
            f"--bolt-path={self.data}/influxd.bolt",
            f"--sqlite-path={self.data}/influxd.sqlite",
            f"--engine-path={self.data}/engine",
            "--reporting-disabled",
            "--ui-disabled",
            "--log-level=warn",
        )

    def environment(self) -> Mapping[str, str]:
        """Return the variables added to its environment."""
        return {"HOME": str(self.data)}

    def prepare(self) -> None:
        """Write its token's file, and make the folder for what waits."""
        if self._token is None:
            secret_files.read_or_make(self.token_file)
        else:
            secret_files.replace(self.token_file, self._token)
        self.spool.mkdir(mode=0o700, exist_ok=True)

    def answers(self) -> bool:
        """Whether it says that it is healthy."""
        try:
            status, said = self._request("GET", "/health")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and said.get("status") == "pass"

    def begin(self) -> None:
        """Make its organisation, bucket and token at the first start, and give it what waits for it."""
        setup = {
            "username": ORG,
            "password": secret_files.read_or_make(self.data / "password"),
            "org": ORG,
            "bucket": BUCKET,
            "retentionPeriodSeconds": self._retention_days * 86_400,
            "token": secret_files.read(self.token_file),
        }
        try:
            if self._request("GET", "/api/v2/setup")[1].get("allowed"):
                status, said = self._request("POST", "/api/v2/setup", json.dumps(setup).encode())
                if status != 201:
                    raise ClusterError(f"influxdb cannot be set up: {said.get('message', status)}")
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"influxdb cannot be set up: {error}") from None
        self.deliver()

    def deliver(self) -> None:
        """Give it what consumers that have ended left; what it does not take stays for the next time.

        No consumer may be at work.
        """
        for torn in self.spool.glob("*.partial"):  # its consumer was killed as it wrote
            torn.unlink()
        for file in self._waiting():
            try:
                status, said = self._request(
                    "POST", WRITE, file.read_bytes(), secret_files.read(self.token_file)
                )
            except (OSError, http.client.HTTPException) as error:
                logger.warning("metrics stay in %s: %s", self.spool, error)
                return
            if status == 204:
                file.unlink()
            elif status in REFUSED:
                logger.error("%s is refused: %s", file, said.get("message", status))
                file.rename(file.with_suffix(".refused"))
            else:
                logger.warning("metrics stay in %s: %s", self.spool, said.get("message", status))
                return

    def stop(self) -> None:
        """End it, once it has what consumers left; its data stay."""
        try:
            if self._process is not None and self._process.exit_status is None:
                self.deliver()
        finally:
            if self._token is not None and self._lock is not None:
                self.token_file.unlink(missing_ok=True)
            super().stop()

    def _waiting(self) -> list[Path]:
        return sorted(self.spool.glob("*.lines"))

    def _request(
        self, method: str, path: str, body: bytes | None = None, token: str = ""
    ) -> tuple[int, dict[str, object]]:
        headers = {"Authorization": f"Token {token}"} if token else {}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, dict(json.loads(text)) if text else {}
        except ValueError:  # not what influxdb says
            return answer.status, {"message": text.decode(errors="replace")[:200]}
