"""Compilation of this package's functions: sums of products may be rounded once (``contract``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.models import compiling
from harness.models.compiling import P, R

_FOLDER = compiling.folder(__package__)
_OPTIONS: Mapping[str, object] = {"fastmath": {"contract"}}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function compiled to machine code when it is first called with new types, and kept."""
    return compiling.kept(function, _FOLDER, **_OPTIONS)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that only compiled ones call."""
    return compiling.part(function, **_OPTIONS)


def bare(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for one that makes no arrays: it counts no references to those it is given.

    Counting costs more than what is done to a few numbers, where arrays are parts of records in records.
    """
    return compiling.part(function, _nrt=False, **_OPTIONS)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a small one in their inner loops."""
    return compiling.part(function, forceinline=True, **_OPTIONS)


def index(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same as ``bare`` for a small one in their inner loops."""
    return compiling.part(function, forceinline=True, _nrt=False, **_OPTIONS)
