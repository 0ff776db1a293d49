"""One process at a time: a file's lock, which ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HarnessError, UsageError

LOOK_S = 0.2
"""Who only looks whether it is held has it for less."""


@contextmanager
def held(path: Path, refusal: UsageError) -> Iterator[None]:
    """Hold the lock of a file or folder that exists during the block.

    Raises
    ------
    UsageError
        The refusal, when another process holds it.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        until_s = time.monotonic() + LOOK_S
        while not _locked(file, fcntl.LOCK_EX):
            if time.monotonic() > until_s:
                raise refusal
            time.sleep(LOOK_S / 20)
        yield
    finally:
        os.close(file)


def take(path: Path, refusal: HarnessError) -> int:
    """Return a descriptor that holds the lock of a file or folder, for whoever gets it, until all close it.

    Raises
    ------
    HarnessError
        The refusal, when another process holds it.
    """
    file = os.open(path, os.O_RDONLY)
    if not _locked(file, fcntl.LOCK_EX):
        os.close(file)
        raise refusal
    return file


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file or folder; two that look do not see each other."""
    file = os.open(path, os.O_RDONLY)
    try:
        return not _locked(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
