"""Workers that cannot start: a slot's worker died, and nobody has started another.

A supervisor overlooks the end of a worker that has not reported yet, until the long time that a slow start is
granted is over. In place of a worker that has reported, the supervisor starts another at once, without end.
Nimbus only says that the plan is not whole. Each start leaves a line in ``worker-<port>.log``
(``assets/servers/storm/java-of-workers.sh``), then the JVM's output before the worker had a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from harness.errors import ClusterError
from harness.machine.server_process import cause_in

DEAD_S = 5.0
"""A supervisor that has noticed a worker's end starts another sooner than that."""
VAIN_STARTS = 3
"""A worker that died so often while its plan was waited for is given up."""
EXCERPT_LINES = 15
_START = re.compile(r"worker started (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) process (\d+)$")


class Start(NamedTuple):
    """One start of a slot's worker: local time to the second, process, and what it printed."""

    time: str
    process: int
    output: tuple[str, ...]


def starts(text: str) -> list[Start]:
    r"""Return the starts that a slot's file tells of, in order.

    Examples
    --------
    >>> starts("worker started 2026-01-02 03:04:05 process 7\nUnrecognized VM option 'x'\n")
    [Start(time='2026-01-02 03:04:05', process=7, output=("Unrecognized VM option 'x'",))]
    """
    found: list[Start] = []
    for line in text.splitlines():
        if match := _START.match(line):
            found.append(Start(match[1], int(match[2]), ()))
        elif found:
            found[-1] = found[-1]._replace(output=(*found[-1].output, line))
    return found


class WorkerOutput:
    """Starts of a cluster's workers, as the slots' files tell them.

    Parameters
    ----------
    logs : Path
        Folder of the servers' logs.
    slots : mapping of int to str
        The node of each port.
    """

    def __init__(self, logs: Path, slots: Mapping[int, str]) -> None:
        self._logs = logs
        self._slots = slots
        self._before: dict[int, int] = {}
        self._died_s: dict[int, float] = {}

    def mark(self) -> None:
        """Forget the starts until now: another plan is asked for."""
        self._before = {port: len(self._starts(port)) for port in self._slots}
        self._died_s.clear()

    def check(self, ports: Iterable[int], now_s: float) -> None:
        """Raise ClusterError when a worker died at its start, since the mark; to be asked repeatedly.

        Parameters
        ----------
        ports : iterable of int
            Slots in use by the plan.
        now_s : float
            ``time.monotonic()``.
        """
        for port in ports:
            recent = self._starts(port)[self._before.get(port, 0) :]
            dead = [start for start in recent if not psutil.pid_exists(start.process)]
            if not dead:
                continue
            gone_s = now_s - self._died_s.setdefault(dead[-1].process, now_s)
            if len(dead) >= VAIN_STARTS or (dead[-1] is recent[-1] and gone_s >= DEAD_S):
                raise self._failure(port, dead[-1])

    def _failure(self, port: int, last: Start) -> ClusterError:
        log, lines = self._log(port), list(last.output)
        own = self._own_log(port, last.time)
        if own is not None:
            log, lines = own
        return ClusterError(
            f"the worker on {self._slots[port]}:{port} died at its start: {cause_in(lines)}",
            log=str(log),
            excerpt="\n".join(lines[-EXCERPT_LINES:]),
        )

    def _own_log(self, port: int, since: str) -> tuple[Path, list[str]] | None:
        """Return the worker's own log with the lines since then; None when it did not get so far."""
        found = sorted(self._logs.glob(f"workers/*/{port}/worker.log"), key=lambda p: p.stat().st_mtime)
        if not found:
            return None
        lines = found[-1].read_text(errors="replace").splitlines()
        first = next((i for i, line in enumerate(lines) if _timestamp(line) >= since), None)
        return None if first is None else (found[-1], lines[first:])

    def _starts(self, port: int) -> list[Start]:
        log = self._log(port)
        return starts(log.read_text(errors="replace")) if log.exists() else []

    def _log(self, port: int) -> Path:
        return self._logs / f"worker-{port}.log"


def _timestamp(line: str) -> str:
    """Return the time that a log's line begins with, to the second; empty when it continues another."""
    return line[:19] if line[:4].isdigit() else ""
