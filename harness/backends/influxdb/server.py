"""A real InfluxDB 2 as a server of the local cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.backends.influxdb.api import PORT, InfluxApi
from harness.backends.influxdb.spool import LocalFolder, MetricSpool
from harness.machine import secret_files
from harness.machine.companions import DataServer
from harness.machine.server_config import LOOPBACK

OPTIONS = ("--reporting-disabled", "--ui-disabled", "--log-level=warn")
"""Options that it gets wherever it runs."""


class InfluxServer(DataServer):
    """InfluxDB with one bucket and one token, made at its first start; it listens on loopback, in plain HTTP.

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

    trust = None
    ca_file = ""

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
        self._logged: Mapping[Path, int] = {}

    @property
    def api(self) -> InfluxApi:
        """Where it is asked."""
        return InfluxApi(self.host, self.port)

    @property
    def url(self) -> str:
        """Its address."""
        return self.api.url

    @property
    def write_url(self) -> str:
        """Where lines are posted to, timestamps in nanoseconds."""
        return self.api.write_url

    @property
    def token_file(self) -> Path:
        """File with the token in use; that of a token that was given exists only while the server runs."""
        return self.data / ("token" if self._token is None else "token.given")

    @property
    def spool(self) -> Path:
        """Where metrics wait that it has not taken yet."""
        return self.data / "spool"

    @property
    def batches(self) -> MetricSpool:
        """The metrics there."""
        return MetricSpool([LocalFolder(self.spool)])

    def token(self) -> str:
        """Return the token in use."""
        return secret_files.read(self.token_file)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Do nothing for a run: it had what waited when it was started."""
        yield

    def command(self) -> Sequence[str]:
        """Return its command line."""
        return (
            str(self._program),
            f"--http-bind-address={self.host}:{self.port}",
            f"--bolt-path={self.data}/influxd.bolt",
            f"--sqlite-path={self.data}/influxd.sqlite",
            f"--engine-path={self.data}/engine",
            *OPTIONS,
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
        self._logged = self._log_sizes()

    def answers(self) -> bool:
        """Return True if the server says that it is healthy."""
        return self.api.answers()

    def begin(self) -> None:
        """Make its organisation, bucket and token at the first start, and give it what waits for it."""
        now = self._log_sizes()
        if any(now.get(file, size) < size for file, size in self._logged.items()):
            # It has cut off a record that a full disk left half written, but goes on writing behind the cut:
            # what it takes would be gone at its next start.
            self._start_again()
        password = secret_files.read_or_make(self.data / "password")
        self.api.set_up(self.token(), self._retention_days, password)
        self.batches.tidy()
        self._deliver()

    def _log_sizes(self) -> dict[Path, int]:
        """Return the sizes of the files of its write-ahead log."""
        return {file: file.stat().st_size for file in (self.data / "engine" / "wal").rglob("*.wal")}

    def _deliver(self) -> None:
        """Give it what consumers that have ended left; what it does not take stays for the next time."""
        token = self.token()
        self.batches.deliver(lambda lines: self.api.post(lines, token))

    def stop(self) -> None:
        """End it, once it has what consumers left; its data stay."""
        try:
            if self._process is not None and self._process.exit_status is None:
                self._deliver()
        finally:
            if self._token is not None and self._lock is not None:
                self.token_file.unlink(missing_ok=True)
            super().stop()
