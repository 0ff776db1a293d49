"""Temporary folders for clusters, which the next one removes when its own process could not."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "storm-harness-"
_LOCK = ".lock"


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Give a new folder, removed with the block, and remove those of processes that were killed."""
    _remove_abandoned()
    home = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    try:
        named = home / f"{_LOCK}.new"
        with named.open("w") as lock:  # held as long as this process lives, however it ends
            fcntl.flock(lock, fcntl.LOCK_EX)
            named.rename(home / _LOCK)  # only now can another process see it
            yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _remove_abandoned() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_LOCK}"):
        with suppress(OSError), lock.open("r+") as file:  # it is another user's, or is being used
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
