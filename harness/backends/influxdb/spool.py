"""Metrics that InfluxDB has not taken yet: batches of lines in folders, a file each (``Spool.java``).

A batch's name begins with the time at which it was put there, in ms since 1970. A consumer removes it once
InfluxDB has it. Batches that a consumer left behind at its end are given to InfluxDB from here. A batch that
arrives twice is there once, as points are told apart by series and time.
"""

from __future__ import annotations

import http.client
import logging
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from harness.backends.influxdb.api import REFUSED, Answer
from harness.errors import ClusterError
from harness.machine.ssh import Shell

logger = logging.getLogger(__name__)

LINES = ".lines"
PARTIAL = ".partial"
"""A batch that is being written, or that its consumer could not write to the end."""

Post = Callable[[bytes], Answer]
"""Gives lines to InfluxDB; raises as ``harness.backends.influxdb.api.InfluxApi.request``."""


class BatchFolder(Protocol):
    """A folder of batches, on this machine or on another."""

    def __str__(self) -> str:
        """Return what it is called in messages."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return what is in a file; nothing when it is gone."""

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, if it is there."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return [file.name for file in self._folder.iterdir()] if self._folder.is_dir() else []

    def read(self, name: str) -> bytes:
        """Return what is in a file; nothing when it is gone."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, if it is there."""
        with suppress(FileNotFoundError):
            (self._folder / name).rename(self._folder / to)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._folder / name).unlink(missing_ok=True)


class HostFolder:
    """A folder of a host that is reached over ssh; empty once the host is gone, with all that waited there.

    Parameters
    ----------
    shell : Shell
        Where it is.
    folder : str
        Its path there.
    alive : callable
        Whether the host is there.
    """

    def __init__(self, shell: Shell, folder: str, alive: Callable[[], bool]) -> None:
        self._shell = shell
        self._folder = folder
        self._alive = alive

    def __str__(self) -> str:
        return f"{self._folder} of {self._shell.host}"

    def names(self) -> list[str]:
        """Return the names of all files."""
        return self._run("ls").decode().split()

    def read(self, name: str) -> bytes:
        """Return what is in a file; nothing when it is gone."""
        return self._run(f"cat {shlex.quote(name)} 2> /dev/null || true")

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, if it is there."""
        self._run(f"mv {shlex.quote(name)} {shlex.quote(to)} || [ ! -e {shlex.quote(name)} ]")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._run(f"rm -f {shlex.quote(name)}")

    def _run(self, command: str) -> bytes:
        if not self._alive():
            return b""
        try:
            return self._shell.run(f"cd {shlex.quote(self._folder)} && {{ {command}; }}")
        except ClusterError:
            if self._alive():
                raise
            return b""  # it ended as it was asked


class MetricSpool:
    """All folders in which the batches of one InfluxDB wait.

    Parameters
    ----------
    folders : sequence of BatchFolder
    """

    def __init__(self, folders: Sequence[BatchFolder]) -> None:
        self._folders = tuple(folders)

    def waiting(self, before_ms: int) -> int:
        """Return how many batches wait that were put aside by a time (ms since 1970)."""
        return sum(int(name[:13]) <= before_ms for folder in self._folders for name in _batches(folder))

    def tidy(self) -> None:
        """Remove what is torn, as its consumer was killed as it wrote. No consumer may be at work."""
        for folder in self._folders:
            for name in folder.names():
                if name.endswith(PARTIAL):
                    folder.remove(name)

    def deliver(self, post: Post) -> None:
        """Give every batch to InfluxDB, oldest first; what it does not take stays, which the log says."""
        for folder in self._folders:
            for name in _batches(folder):
                lines = folder.read(name)
                if not lines:  # its consumer was faster
                    continue
                try:
                    answer = post(lines)
                except (OSError, http.client.HTTPException) as error:
                    logger.warning("metrics stay in %s: %s", folder, error)
                    return
                if answer.status == 204:
                    folder.remove(name)
                elif answer.status in REFUSED:
                    logger.error("%s in %s is refused: %s", name, folder, answer.message)
                    folder.rename(name, name.removesuffix(LINES) + ".refused")
                else:
                    logger.warning("metrics stay in %s: %s", folder, answer.message)
                    return


def _batches(folder: BatchFolder) -> list[str]:
    return sorted(name for name in folder.names() if name.endswith(LINES))
