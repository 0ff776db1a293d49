"""Compilation to machine code, kept on disk as long as no module with compiled functions changes.

Numba keys a compiled function by its own file's time of change and leaves out the files of the functions
that it calls, so a mended mechanism would go on unmended in its callers' code. Here the folder is named
after the contents of all modules with compiled functions, and of the records that they work on.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from importlib import resources
from typing import Any, TypeVar

from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])

MODULES = (
    *("compiled", "draws", "events", "heap", "kinds", "lineage"),
    *("sending", "serving", "windowing"),
)
"""Modules with compiled functions; a test compares."""


def _folder() -> str:
    digest = blake2b(digest_size=8)
    for name in MODULES:
        digest.update(resources.files(__package__).joinpath(f"{name}.py").read_bytes())
    return str(resources.files(__package__).joinpath("__pycache__", f"numba-{digest.hexdigest()}"))


_FOLDER = _folder()


def compiled(function: Function) -> Function:
    """Return the function compiled to machine code when it is first called with new types, and kept."""
    return _kept(function)


def compiled_bare(function: Function) -> Function:
    """Return the same for a function that makes no arrays: it counts no references to those it is given.

    Counting costs several times what the work itself does, where an array of a tuple is named often.
    """
    return _kept(function, _nrt=False)


def inner(function: Function) -> Function:
    """Return the same for a function that only compiled ones call.

    It is part of what is kept of its callers. By itself it is neither kept nor made callable from Python:
    that takes long.
    """
    return _jitted(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Return the same for a function that is part of its callers' inner loops: no call is made."""
    return _jitted(function, _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _kept(function: Function, **options: Any) -> Function:
    settings: Any = config
    others, settings.CACHE_DIR = settings.CACHE_DIR, _FOLDER
    try:
        return _jitted(function, cache=True, **options)
    finally:
        settings.CACHE_DIR = others


def _jitted(function: Function, **options: Any) -> Function:
    result: Function = njit(error_model="numpy", **options)(function)
    return result
