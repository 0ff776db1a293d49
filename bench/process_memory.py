"""The most memory that a command takes: of its process and of all that it starts, together."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.02


def peak_bytes(process: int) -> int:
    """Return the most resident memory that a process has had, as the kernel counts it."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


def carry_out(command: Sequence[str]) -> tuple[int, int]:
    """Carry out a command; return its exit status and the sum of its processes' peaks in bytes.

    The peaks need not be at one time, so the sum is at least what all had together at any time. A process
    is looked at every 20 ms: only what it takes in its last moments is missed.
    """
    peaks: dict[int, int] = {}
    with subprocess.Popen(command) as running:
        first = psutil.Process(running.pid)
        while running.poll() is None:
            with suppress(psutil.Error, OSError, StopIteration):  # one that ends meanwhile has no status
                for process in (first, *first.children(recursive=True)):
                    peaks[process.pid] = max(peaks.get(process.pid, 0), peak_bytes(process.pid))
            with suppress(subprocess.TimeoutExpired):
                running.wait(LOOK_EVERY_S)
    return running.returncode, sum(peaks.values())
