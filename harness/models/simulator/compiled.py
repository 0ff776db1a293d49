"""Compilation of this package's functions: inner ones count no references to arrays (``_nrt``)."""

from __future__ import annotations

from collections.abc import Callable

from harness.models import compiling
from harness.models.compiling import P, R

MODULES = (
    *("compiled", "draws", "events", "heap", "helping", "indices", "kinds", "lineage"),
    *("relieving", "sending", "serving", "windowing"),
)
"""Modules with compiled functions, and the records that these work on; a test compares."""
_FOLDER = compiling.folder(__package__, MODULES)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function compiled to machine code when it is first called with new types, and kept."""
    return compiling.kept(function, _FOLDER)


def compiled_bare(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that makes no arrays: it counts no references to those it is given.

    Counting costs several times what the work itself does, where an array of a tuple is named often.
    """
    return compiling.kept(function, _FOLDER, _nrt=False)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that only compiled ones call."""
    return compiling.part(function, _nrt=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that is part of its callers' inner loops: no call is made."""
    return compiling.part(function, _nrt=False, forceinline=True)


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """Return the same for a function that is seldom called: its code stays out of its callers' inner loops.

    Without a word about it, a function that an inlined one calls becomes part of the loop, too.
    """
    return compiling.part(function, _nrt=False, forceinline=False)
