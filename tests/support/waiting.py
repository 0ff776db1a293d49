"""Wait for a condition, instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LOOK_S = 0.05
LONGEST_S = 120.0
"""Longer than most things take on a busy machine."""


def until(found: Callable[[], Found], what: str, within_s: float = LONGEST_S) -> Found:
    """Return what is found, as soon as that is true.

    Raises
    ------
    TimeoutError
        When nothing was within that time.
    """
    deadline = time.monotonic() + within_s
    while not (value := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(LOOK_S)
    return value
