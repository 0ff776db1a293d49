"""One process at a time: a file's lock, which ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UsageError


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
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield
    finally:
        os.close(file)
