"""Machine code of this package's loops, kept as long as the modules that it is made from do not change."""

from __future__ import annotations

from functools import cache
from typing import Any

from harness.models.compiling import Function, folder, part
from harness.models.compiling import kept as _kept

_MODULES = ("compiled", "band_moves", "band_annealing")


@cache
def _place() -> str:
    return folder(__package__ or "", _MODULES)


def kept(function: Function, **options: Any) -> Function:
    """Return the function compiled when it is first called, and kept; see ``harness.models.compiling``."""
    return _kept(function, _place(), **options)


__all__ = ["kept", "part"]
