"""A real InfluxDB 2 as a server of the local cluster."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import secret_files
from harness.backends.companions import DataServer
from harness.backends.server_config import LOOPBACK
from harness.errors import ClusterError

PORT = 8086
ORG = "harness"
BUCKET = "harness"
TIMEOUT_S = 10.0


class InfluxServer(DataServer):
    """InfluxDB with one bucket and one token, made at its first start.

    The folder holds its data, the token (a 0600 file) and the metrics that it has not taken yet.

    Parameters
    ----------
    program : Path
        ``influxd``.
    data : Path
        Its folder.
    retention_days : int
        How long it keeps points; 0 for ever. It is fixed at the first start.
    """

    def __init__(self, program: Path, data: Path, retention_days: int = 0, port: int = PORT) -> None:
        super().__init__("influxdb", data, LOOPBACK, port)
        self._program = program
        self._retention_days = retention_days

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"

    @property
    def write_url(self) -> str:
        """Where lines are posted to, timestamps in nanoseconds."""
        return f"{self.url}/api/v2/write?org={ORG}&bucket={BUCKET}&precision=ns"

    @property
    def token_file(self) -> Path:
        """What holds its token."""
        return self.data / "token"

    @property
    def spool(self) -> Path:
        """Where metrics wait that it has not taken yet."""
        return self.data / "spool"

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
        """Make the token at the first start, and the folder for what waits."""
        secret_files.read_or_make(self.token_file)
        self.spool.mkdir(mode=0o700, exist_ok=True)

    def answers(self) -> bool:
        """Whether it says that it is healthy."""
        try:
            status, said = self._request("GET", "/health")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and said.get("status") == "pass"

    def begin(self) -> None:
        """Make its organisation, bucket and token at the first start."""
        try:
            if not self._request("GET", "/api/v2/setup")[1].get("allowed"):
                return
            status, said = self._request(
                "POST",
                "/api/v2/setup",
                {
                    "username": ORG,
                    "password": secret_files.read_or_make(self.data / "password"),
                    "org": ORG,
                    "bucket": BUCKET,
                    "retentionPeriodSeconds": self._retention_days * 86_400,
                    "token": secret_files.read(self.token_file),
                },
            )
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"influxdb cannot be set up: {error}") from None
        if status != 201:
            raise ClusterError(f"influxdb cannot be set up: {said.get('message', status)}")

    def _request(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        try:
            connection.request(
                method,
                path,
                json.dumps(body) if body else None,
                {"Content-Type": "application/json"} if body else {},
            )
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, dict(json.loads(text)) if text else {}
        except ValueError:  # not what influxdb says
            return answer.status, {"message": text.decode(errors="replace")[:200]}
