"""Servers beside Storm and Kafka, whose data are in a folder that outlives them; one at a time may use it."""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from harness.errors import ClusterError, UsageError
from harness.machine.named_paths import user_folder
from harness.machine.server_process import ServerProcess, port_is_free

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 15.0
RESTARTS = 3
"""A server that dies more often than that is not started again."""


def data_folder(name: str) -> Path:
    """Return the user's folder for a server's data (``XDG_DATA_HOME``, else ``~/.local/share``)."""
    return user_folder("XDG_DATA_HOME", ".local/share") / "storm-harness" / name


class Companion(Protocol):
    """A server beside the cluster's own."""

    def start(self, logs: Path, progress: Callable[[str], None]) -> None:
        """Start it, and return when it has answered."""

    def check(self) -> None:
        """Start it again when it has died; raise ClusterError when that was of no use."""

    def stop(self) -> None:
        """End it."""


class DataServer:
    """A server with a data folder, which is started again when it dies: its clients wait for it.

    Subclasses say how it is started and when it is ready.

    Parameters
    ----------
    name : str
        What it is called in messages, and the name of its log.
    data : Path
        Its folder; made when it is not there.
    host, port
        Where it listens.
    """

    def __init__(self, name: str, data: Path, host: str, port: int) -> None:
        self.name = name
        self.data = data.resolve()
        self.host = host
        self.port = port
        self._logs: Path | None = None
        self._lock: IO[str] | None = None
        self._process: ServerProcess | None = None
        self._restarts = 0

    @property
    def room(self) -> str:
        """Free disk space for the server's data, in words; a server may not say that it lacks some."""
        return f"{shutil.disk_usage(self.data).free // 1_000_000} MB are free for its data in {self.data}"

    def command(self) -> Sequence[str]:
        """Return its command line."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return the variables added to its environment."""
        return {}

    def answers(self) -> bool:
        """Return True if the server answers a request."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Write what it needs before its start."""

    def begin(self) -> None:
        """Do what its first start needs, once it answers."""

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "started"
        return self._process.pid

    def start(self, logs: Path, progress: Callable[[str], None]) -> None:
        """Start it, and return when it has answered.

        Raises
        ------
        UsageError
            When another server uses its data.
        ClusterError
            When its port is taken, or it dies or does not answer in time.
        """
        progress(f"starting {self.name}")
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_data()
        try:
            if not port_is_free(self.host, self.port):
                raise ClusterError(f"port {self.port}, which {self.name} needs, is taken")
            self._logs = logs
            self.prepare()
            self._process = self._launch()
            self._process.wait_ready(self.answers, START_TIMEOUT_S)
            self.begin()
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Start it again when it has died.

        Raises
        ------
        ClusterError
            When it has died too often.
        """
        if self._process is None or self._process.exit_status is None:
            return
        death = self._process.death()
        if self._restarts == RESTARTS:
            raise death
        self._restarts += 1
        logger.warning("%s; started again", death.message)
        self._process.wait_ended(STOP_TIMEOUT_S)
        self._process = self._launch()

    def _start_again(self) -> None:
        """End it well and start it once more."""
        assert self._process is not None, "started"
        self._process.terminate()
        self._process.wait_ended(STOP_TIMEOUT_S)
        self._process = self._launch()
        self._process.wait_ready(self.answers, START_TIMEOUT_S)

    def wait(self) -> None:
        """Wait until it answers, which it does not for a while after it was started again.

        Raises
        ------
        ClusterError
            When it has died too often, or does not answer in time.
        """
        self.check()
        assert self._process is not None, "started"
        self._process.wait_ready(self.answers, START_TIMEOUT_S)

    def stop(self) -> None:
        """End it; its data stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait_ended(STOP_TIMEOUT_S)
            self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _launch(self) -> ServerProcess:
        assert self._logs is not None, "started"
        return ServerProcess(
            self.name, list(self.command()), self._logs / f"{self.name}.log", self.environment()
        )

    def _take_data(self) -> None:
        """Hold the data folder as long as this process lives, however it ends."""
        lock = (self.data / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with suppress(OSError):
                lock.close()
            raise UsageError(
                f"{self.data}: another {self.name} has its data there",
                "wait until that ends, or give this one a folder of its own",
            ) from None
        self._lock = lock
