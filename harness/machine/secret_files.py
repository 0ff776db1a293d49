"""Secrets: from the environment, or from a file that nobody but its owner can read.

A secret is never written into a log, a run directory or a command line; only the name of its file is handed
on.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from harness.errors import UsageError

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(path: Path) -> str:
    """Return the secret in a file.

    Raises
    ------
    UsageError
        When it is not there, empty, or can be read by others.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the secret in it cannot be read", str(error)) from None
    if mode & OTHERS:
        raise UsageError(f"{path}: others than its owner can read the secret in it", f"chmod 600 {path}")
    if not text:
        raise UsageError(f"{path}: there is no secret in it")
    return text


def read_or_make(path: Path) -> str:
    """Return the secret in a file, which is made with a random one when it is not there."""
    with suppress(FileExistsError):
        _make(path, secrets.token_urlsafe(32))
    return read(path)


def replace(path: Path, secret: str) -> None:
    """Write a file that has a secret in it, in place of what was there."""
    path.unlink(missing_ok=True)
    _make(path, secret)


def _make(path: Path, secret: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")


def from_environment(variable: str) -> str | None:
    """Return the secret in a variable, or in the file that the variable with ``_FILE`` added names.

    Raises
    ------
    UsageError
        When that file cannot be used.
    """
    if given := os.environ.get(variable):
        return given
    if path := os.environ.get(f"{variable}_FILE"):
        return read(Path(path))
    return None
