"""Files and folders that are written whole or not at all, and temporary folders that nobody else has."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file whole: temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as out:
        out.write(data.encode() if isinstance(data, str) else data)
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(path)


@contextmanager
def folder_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``path`` when the block ends well, and else is removed."""
    temporary = path.with_name(f".{path.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for file in (p for p in temporary.rglob("*") if p.is_file()):
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    for folder in (temporary, *(p for p in temporary.rglob("*") if p.is_dir())):
        _sync_names(folder)
    temporary.rename(path)
    _sync_names(path.parent)


def _sync_names(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def own_folder(parent: Path, purpose: str) -> Iterator[Path]:
    """Give a temporary folder that no other process has, and remove it with the block.

    Parameters
    ----------
    parent : Path
        Where it is made, so that what is in it can be moved there at once.
    purpose : str
        What it is for, in its name.
    """
    folder = Path(tempfile.mkdtemp(prefix=f".{purpose}.", suffix=".partial", dir=parent))
    folder.chmod(0o777 & ~_umask())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
