"""Compilation to machine code, kept in the user's cache as long as what it was made from is the same code.

Numba checks kept code against the file of the function itself only, not against the files of the functions
that it calls. So a mended function would go on unmended in its callers' code. The folder is therefore named
after the code of all modules of a package that compiled code may come from, and of this one. Comments,
docstrings and the place of a checkout are no part of that name: mending a docstring compiles nothing anew.
"""

from __future__ import annotations

import ast
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import ParamSpec, Protocol, Self, TypeVar, cast

from numba import config, njit, typeof
from numba.core.caching import _CacheLocator
from numba.core.compiler_lock import global_compiler_lock

P = ParamSpec("P")
R = TypeVar("R")
Compilation = Callable[[tuple[object, ...]], object]
"""Compiles a function for arguments of some types."""

AHEAD = "HARNESS_COMPILES_AHEAD"
"""Environment variable of a process in which kept functions only note what they are called with."""
noted: list[Callable[[], object]] = []
"""Compilations of the functions that were called there, in the order of the calls."""


def code_of(source: str) -> str:
    r"""Return a module's code without comments and docstrings.

    Examples
    --------
    >>> code_of("def f():\n    'Say one.'\n    return 1  # why") == code_of("def f(): return 1")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_text(s)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


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
    read = [resources.files(__package__).joinpath("compiling.py"), *(own.joinpath(name) for name in wanted)]
    digest = blake2b(digest_size=8)
    for file in read:
        digest.update(code_of(file.read_text(encoding="utf-8")).encode())
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = named if named.is_absolute() else Path.home() / ".cache"  # its specification: others are ignored
    return str(cache / "storm-harness" / "compiled" / f"{package}-{digest.hexdigest()}")


class CodeLocator(_CacheLocator):
    """A place for a function's machine code: ``config.CACHE_DIR``, which is named after its code.

    ``config.CACHE_LOCATOR_CLASSES`` names this class. Numba's own locators add the source file's path, time
    and line numbers.
    """

    def __init__(self) -> None:
        self._path = vars(config)["CACHE_DIR"]

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._path)

    def get_source_stamp(self) -> str:
        """Return nothing: the folder's name says how fresh the code is."""
        return ""

    def get_disambiguator(self) -> str:
        """Return nothing: a package's functions are told apart by module and name."""
        return ""

    @classmethod
    def from_function(cls, py_func: object, py_file: str) -> Self | None:  # noqa: ARG003 (Numba's)
        """Return the locator; None where nothing can be written there, and Numba uses its own."""
        locator = cls()
        try:
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return locator


_LOCATORS = f"{__name__}.{CodeLocator.__name__},InTreeCacheLocator,UserWideCacheLocator"


@contextmanager
def _settings(**values: str) -> Iterator[None]:
    """Let Numba's settings have other values during the block."""
    settings = vars(config)
    others = {name: settings[name] for name in values}
    settings.update(values)
    try:
        yield
    finally:
        settings.update(others)


def kept(function: Callable[P, R], place: str, **options: object) -> Callable[P, R]:
    """Return the function compiled to machine code when it is first called with new types, and kept there."""
    with _settings(CACHE_DIR=place, CACHE_LOCATOR_CLASSES=_LOCATORS):
        compiled = jitted(function, cache=True, **options)
    dispatcher = cast("_Dispatcher", compiled)
    name = f"{function.__module__}.{function.__qualname__}"  # functions of one name may call each other
    dispatcher.compile = _in_one_process(dispatcher.compile, Path(place) / f"{name}.lock")
    return _noting(function, dispatcher) if AHEAD in os.environ else compiled


class _Dispatcher(Protocol):
    """Numba's, as far as it is used here."""

    compile: Compilation


def _in_one_process(compile_one: Compilation, lock: Path) -> Compilation:
    """Return the same, where processes wait for one that compiles the function, and take over its code.

    Numba's own lock is taken first, as whoever compiles a caller has it when it comes to the function.
    """

    def compile_or_wait(types: tuple[object, ...]) -> object:
        with global_compiler_lock, _held(lock):
            return compile_one(types)

    return compile_or_wait


@contextmanager
def _held(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError:  # nothing can be kept there
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _noting(function: Callable[P, R], dispatcher: _Dispatcher) -> Callable[P, R]:
    """Return a function that notes the types of its arguments, and answers 1 or nothing."""
    answer = 1.0 if function.__annotations__["return"] in ("float", float) else None

    def note(*values: object) -> object:
        types = tuple(typeof(v) for v in values)  # type: ignore[no-untyped-call]
        noted.append(lambda: dispatcher.compile(types))
        return answer

    return cast("Callable[P, R]", note)


def part(function: Callable[P, R], **options: object) -> Callable[P, R]:
    """Return a function compiled that only compiled ones call.

    Its callers' machine code contains it. By itself it is neither kept nor made callable from Python, since
    that takes long.
    """
    return jitted(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def jitted(function: Callable[P, R], **options: object) -> Callable[P, R]:
    """Return the function compiled; a division by zero gives what arrays give."""
    # Numba's types leave out some of its options, such as _nrt
    result: Callable[P, R] = njit(error_model="numpy", **options)(function)  # type: ignore[call-overload]
    return result
