"""Digests of code as it is: predictions with another one are of other models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path

from harness.models.compiling import code_of

_PACKAGE = Path(str(resources.files("harness")))

PREDICTING = ("models", "plans.py", "protocols.py", "schemas")
"""Rooms whose code decides predictions."""


@cache
def models_digest() -> str:
    """Return a digest of the code of all models, of what they build on, and of their calibration.

    Comments and docstrings are no part of it, nor is the place of a module.
    """
    return code_digest(files_of(PREDICTING), files_of(PREDICTING, ".json"))


def files_of(rooms: Iterable[str], suffix: str = ".py") -> list[Path]:
    """Return files of some of the harness's packages and modules, which are named by their paths."""
    return [
        file
        for room in (_PACKAGE / name for name in rooms)
        for file in ([room] if room.is_file() else room.rglob("*"))
        if file.suffix == suffix
    ]


def code_digest(modules: Iterable[Path], files: Iterable[Path] = ()) -> str:
    """Return a digest of modules' code and of files' bytes, in whatever order they are given."""
    parts = [code_of(path.read_text(encoding="utf-8")).encode() for path in modules]
    parts += [path.read_bytes() for path in files]
    digest = blake2b(digest_size=6)
    for part in sorted(blake2b(part).digest() for part in parts):
        digest.update(part)
    return digest.hexdigest()
