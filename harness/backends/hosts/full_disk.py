"""A full disk on a local host: all that is free there is taken while a block lasts.

Each of these hosts has a file system of its own in memory, as large as ``hosts.disk_mb``. The file that takes
the room has no name. So the kernel gives the room back when the process that has it open ends in any way.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.errors import ClusterError

LEFT_BYTES = 1 << 30
"""Memory of this machine that is left to all else: a machine without any kills what it measures."""
PAGE_BYTES = 4096


@contextmanager
def filled(name: str, root: Path, disk_mb: int) -> Iterator[int]:
    """Leave no room on a host's disk while the block lasts; gives the bytes that were taken for it.

    What is freed there meanwhile can be used.

    Parameters
    ----------
    name : str
        Of the host, for errors.
    root : Path
        Its root folder.
    disk_mb : int
        Size of its file system.

    Raises
    ------
    ClusterError
        When it has no file system of that size, or this machine too little memory to fill it.
    """
    there = os.statvfs(root)
    size, free = there.f_frsize * there.f_blocks, there.f_frsize * there.f_bavail
    if size != disk_mb << 20:
        raise ClusterError(f"{name} has no disk of its own: {size >> 20} MB, not {disk_mb}")
    available = psutil.virtual_memory().available
    if free + LEFT_BYTES > available:
        raise ClusterError(
            f"{name}'s disk is in memory: to fill it takes {free >> 20} MB, {available >> 20} are available",
            "lower hosts.disk_mb in the cluster's file",
        )
    with tempfile.TemporaryFile(dir=root) as file:
        yield _fill(file.fileno())


def _fill(file: int) -> int:
    """Let a file take all that is free where it is, and return its size."""
    taken, more = 0, _free_bytes(file)
    while more >= PAGE_BYTES:
        try:
            os.posix_fallocate(file, taken, more)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            more //= 2  # others took some of it
        else:
            taken, more = taken + more, _free_bytes(file)
    return taken


def _free_bytes(file: int) -> int:
    there = os.fstatvfs(file)
    return there.f_frsize * there.f_bavail
