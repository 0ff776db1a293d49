"""Compilation to machine code, kept on disk as long as nothing that it was made from changes.

Numba looks only at the file of the function itself to tell whether what it kept is still true, not at those
of the functions that it calls: a mended function would go on unmended in its callers' code. So the folder is
named after the contents of all modules of a package that compiled code may come from, and of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib import resources
from typing import Any, TypeVar

from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., Any])


def folder(package: str, modules: Sequence[str] = ()) -> str:
    """Return where a package's machine code is kept.

    Parameters
    ----------
    package : str
        Its full name.
    modules : sequence of str
        Those of its modules that the code is made from; all when empty.
    """
    own = resources.files(package)
    wanted = [f"{name}.py" for name in modules] or sorted(
        f.name for f in own.iterdir() if f.name.endswith(".py")
    )
    digest = blake2b(resources.files(__package__).joinpath("compiling.py").read_bytes(), digest_size=8)
    for name in wanted:
        digest.update(own.joinpath(name).read_bytes())
    return str(own.joinpath("__pycache__", f"numba-{digest.hexdigest()}"))


def kept(function: Function, place: str, **options: Any) -> Function:
    """Return the function compiled to machine code when it is first called with new types, and kept there."""
    settings: Any = config
    others, settings.CACHE_DIR = settings.CACHE_DIR, place
    try:
        return jitted(function, cache=True, **options)
    finally:
        settings.CACHE_DIR = others


def part(function: Function, **options: Any) -> Function:
    """Return the same for a function that only compiled ones call.

    It is in what is kept of its callers. By itself it is neither kept nor made callable from Python: that
    takes long.
    """
    return jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def jitted(function: Function, **options: Any) -> Function:
    """Return the function compiled; a division by zero gives what arrays give."""
    result: Function = njit(error_model="numpy", **options)(function)
    return result
