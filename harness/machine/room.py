"""Check that this machine has the disk and the memory that a cluster of a given shape takes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import psutil

from harness.errors import UsageError

FREE_BYTES = 2 * 1024**3
"""Disk that servers' logs, topics and results of one run may need."""


def require_room(folders: Iterable[Path], slots: int, worker_heap_mb: int, more_mb: int = 0) -> None:
    """Check that disk and memory suffice.

    Parameters
    ----------
    folders : iterable of Path
        Where files will lie; of one that is not there yet, the nearest parent counts.
    slots, worker_heap_mb : int
        Workers that there may be, and the heap of each.
    more_mb : int
        Memory of what runs beside the cluster.

    Raises
    ------
    UsageError
        When they do not.
    """
    for folder in folders:
        existing = next(p for p in (folder, *folder.resolve().parents) if p.exists())
        free = shutil.disk_usage(existing).free
        if free < FREE_BYTES:
            raise UsageError(
                f"{existing}: {free >> 20} MiB free, a run needs {FREE_BYTES >> 20}", "make room"
            )
    # A worker's resident set is about its heap and 150 MiB; daemons, Kafka and Spark take 2.5 GiB.
    needed_mb = slots * (worker_heap_mb + 150) + 2500 + more_mb
    available_mb = psutil.virtual_memory().available >> 20
    if available_mb < needed_mb:
        raise UsageError(
            f"{available_mb} MiB of memory available, {slots} workers need about {needed_mb}",
            "lower the workers' heap (worker_heap_mb) or the number of nodes",
        )
