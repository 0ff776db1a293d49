"""Clocks of a cluster's hosts beside this machine's: how far apart, and whether they are one and the same.

A host is asked for its times over ssh, some exchanges after one another: whatever it reads, it reads between
our question and its answer. So the shortest exchange bounds the offset of its time of day by half of its
length. And a monotonic clock that is ours cannot be seen outside of any exchange, by however little: that
needs no tolerance.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from harness.errors import ClusterError

EXCHANGES = 25
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Drawn by a kernel when it starts: namespaces of one machine have the same."""
READER = f"""/usr/bin/python3 -uc '
import sys, time
print(open("{BOOT_ID}").read().strip())
for _ in sys.stdin:
    print(time.time_ns(), time.monotonic_ns())
'"""
"""Program that a host runs; Ansible needs that Python as well."""


class ClockTimes(NamedTuple):
    """Time of day and monotonic clock, ns."""

    of_day: int
    monotonic: int

    @classmethod
    def now(cls) -> ClockTimes:
        """Read this machine's."""
        return cls(time.time_ns(), time.monotonic_ns())


class Exchange(NamedTuple):
    """A host's times, and ours before and after."""

    before: ClockTimes
    theirs: ClockTimes
    after: ClockTimes


class HostClock(NamedTuple):
    """A host's clock.

    Attributes
    ----------
    offset_ms : float
        Its time of day minus this machine's, to within ``uncertainty_ms`` either way.
    shared : bool
        Whether its monotonic clock is this machine's own.
    """

    offset_ms: float
    uncertainty_ms: float
    shared: bool


def compared(exchanges: Sequence[Exchange], *, one_kernel: bool) -> HostClock:
    """Return offset, uncertainty and kind of a host's clock, as exchanges show them.

    Examples
    --------
    >>> before, after = ClockTimes(0, 50), ClockTimes(2_000_000, 70)
    >>> compared([Exchange(before, ClockTimes(3_000_000, 60), after)], one_kernel=True)
    HostClock(offset_ms=2.0, uncertainty_ms=1.0, shared=True)
    """
    best = min(exchanges, key=lambda e: e.after.monotonic - e.before.monotonic)
    middle_ns = (best.before.of_day + best.after.of_day) / 2
    return HostClock(
        offset_ms=round((best.theirs.of_day - middle_ns) / 1e6, 4),
        uncertainty_ms=round((best.after.of_day - best.before.of_day) / 2e6, 4),
        shared=one_kernel
        and all(e.before.monotonic <= e.theirs.monotonic <= e.after.monotonic for e in exchanges),
    )


def ask(name: str, reader: Sequence[str]) -> HostClock:
    """Compare a host's clock with this machine's.

    Parameters
    ----------
    name : str
        Of the host, for errors.
    reader : sequence of str
        What runs ``READER`` there.

    Raises
    ------
    ClusterError
        When the host does not answer.
    """
    with subprocess.Popen(
        reader, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as there:
        assert there.stdin is not None
        assert there.stdout is not None
        assert there.stderr is not None
        try:
            boot_id = there.stdout.readline().decode().strip()
            exchanges = [_exchange(there.stdin, there.stdout) for _ in range(EXCHANGES)] if boot_id else []
            there.stdin.close()
        except (OSError, ValueError):  # it hung up, or said half a line
            exchanges = []
            there.kill()
        said = there.stderr.read().decode(errors="replace").splitlines()
    if not exchanges:
        raise ClusterError(
            f"{name} does not tell its time: {said[-1] if said else 'it hung up'}", "harness cluster status"
        )
    return compared(exchanges, one_kernel=boot_id == BOOT_ID.read_text(encoding="ascii").strip())


def _exchange(questions: IO[bytes], answers: IO[bytes]) -> Exchange:
    before = ClockTimes.now()
    os.write(questions.fileno(), b"\n")
    answer = answers.readline()
    after = ClockTimes.now()
    of_day, monotonic = map(int, answer.split())
    return Exchange(before, ClockTimes(of_day, monotonic), after)
