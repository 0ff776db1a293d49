"""Machine code of this package's loops, kept as long as the modules that it is made from do not change.

The loops make no arrays, so they count no references to those they are given (``_nrt``): that would take
several times as long as their work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from harness.models import compiling
from harness.models.compiling import P, R

_MODULES = ("compiled", "band_moves", "band_annealing")


@cache
def _place() -> str:
    return compiling.folder(__package__ or "", _MODULES)


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function compiled when it is first called, and kept; see ``harness.models.compiling``."""
    return compiling.kept(function, _place(), _nrt=False)


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that only compiled ones call."""
    return compiling.part(function, _nrt=False)
