"""Compilation to machine code, kept on disk as long as no module of this package changes.

Numba looks only at the file of the function itself to tell whether what it kept is still true, not at those
of the functions it calls. So the folder is named after the contents of all of the package's modules.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from importlib import resources
from typing import Any, TypeVar

from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])


def _folder() -> str:
    package = resources.files(__package__)
    digest = blake2b(digest_size=8)
    for file in sorted((f for f in package.iterdir() if f.name.endswith(".py")), key=lambda f: f.name):
        digest.update(file.read_bytes())
    return str(package.joinpath("__pycache__", f"numba-{digest.hexdigest()}"))


_FOLDER = _folder()


def compiled(function: Function) -> Function:
    """Return the function compiled to machine code when it is first called with new types, and kept."""
    settings: Any = config
    others, settings.CACHE_DIR = settings.CACHE_DIR, _FOLDER
    try:
        return _jitted(function, cache=True)
    finally:
        settings.CACHE_DIR = others


def inner(function: Function) -> Function:
    """Return the same for a function that only compiled ones call.

    It is part of what is kept of its callers. By itself it is neither kept nor made callable from Python:
    that takes long.
    """
    return _jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Return the same for a small one in their inner loops."""
    return _jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def _jitted(function: Function, **options: Any) -> Function:
    result: Function = njit(error_model="numpy", fastmath={"contract"}, **options)(function)
    return result
