"""Digests of code as it is: predictions with another one are of other models."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib import resources
from pathlib import Path

from harness.models.compiling import code_of


@cache
def models_digest() -> str:
    """Return a digest of the code of all models and of their calibration.

    Comments and docstrings are no part of it, nor is the place of a module.
    """
    package = Path(str(resources.files("harness.models")))
    return code_digest(package.rglob("*.py"), package.rglob("*.json"))


def code_digest(modules: Iterable[Path], files: Iterable[Path] = ()) -> str:
    """Return a digest of modules' code and of files' bytes, in whatever order they are given."""
    parts = [code_of(path.read_text(encoding="utf-8")).encode() for path in modules]
    parts += [path.read_bytes() for path in files]
    digest = blake2b(digest_size=6)
    for part in sorted(blake2b(part).digest() for part in parts):
        digest.update(part)
    return digest.hexdigest()
