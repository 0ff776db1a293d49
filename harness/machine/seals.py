"""Sealed folders: a list of the SHA-256 of every file, by which any later change of one shows.

A seal shows accidents and careless edits. It is no signature: who changes a file can seal the folder anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

SEAL = "seal.json"
VERSION = 1


def seal(folder: Path, left_out: Mapping[str, str] | None = None) -> None:
    """Write ``seal.json``, which lists the folder's files.

    Parameters
    ----------
    folder : Path
        Folders in it are not listed.
    left_out : mapping of str to str, optional
        Files from which something was left out on purpose, with the SHA-256 that they had before.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     _ = (folder / "plan.json").write_text("{}")
    ...     seal(folder)
    ...     before = broken(folder)
    ...     _ = (folder / "plan.json").write_text("[]")
    ...     before, broken(folder)
    ((), ('plan.json was changed',))
    """
    listed = {"version": VERSION, "files": _digests(folder)}
    if left_out:
        listed["left_out"] = dict(left_out)
    (folder / SEAL).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def broken(folder: Path) -> tuple[str, ...] | None:
    """Return in what a folder differs from its seal, a line a file; None where it has no seal."""
    path = folder / SEAL
    if not path.is_file():
        return None
    try:
        sealed: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["files"]
        listed = {str(name): str(digest) for name, digest in sealed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return (f"{SEAL} is no list of files",)
    found = _digests(folder)
    return (
        *(f"{name} is missing" for name in sorted(listed.keys() - found.keys())),
        *(f"{name} was added" for name in sorted(found.keys() - listed.keys())),
        *(f"{name} was changed" for name in sorted(listed) if name in found and listed[name] != found[name]),
    )


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    files = (p for p in sorted(folder.iterdir()) if p.is_file() and p.name != SEAL)
    return {p.name: sha256(p) for p in files if not p.name.startswith(".")}
