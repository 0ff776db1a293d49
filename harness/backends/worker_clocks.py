"""Clocks of a node's workers that a fault can move: their time of day alone, by Debian's libfaketime.

Workers that start while a node's folder is there have the library preloaded (``java-of-workers.sh``). Runs
without such a fault have no folder, and their workers are as always. The monotonic clock, by which latency is
measured, is left alone.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import MissingTool
from harness.machine.keeper import kept

LIBRARY = "libfaketimeMT.so.1"
"""The one for processes of several threads."""
MOVED = "moved_s"
"""File of a node's folder: the seconds by which its workers' time of day is moved."""
PUT = 'put() { printf "%s\\n" "$1" > "$file.new" && mv "$file.new" "$file"; }; file=$1'
"""Writes the file whole: a worker may read it at any time."""


def library() -> Path:
    """Return the library of this machine.

    Raises
    ------
    MissingTool
        When it is not installed.
    """
    for found in sorted(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}")):
        return found
    raise MissingTool(
        "skew-clock: this machine has no libfaketime, which moves the clock of a worker",
        "apt-get install libfaketime",
    )


@contextmanager
def movable(folders: Mapping[str, Path], nodes: Sequence[str]) -> Iterator[None]:
    """Let workers that start in the block have a clock that can be moved; those of other nodes have not.

    Parameters
    ----------
    folders : mapping of str to Path
        Each node's, as seen from here. What a run that was killed left in them is removed first.
    nodes : sequence of str
        Nodes whose workers' clocks can be moved.

    Raises
    ------
    MissingTool
        When nodes are named and the library is not installed.
    """
    _remove(folders)
    try:
        for node in nodes:
            folder = folders[node]
            folder.mkdir(parents=True, mode=0o755)
            shutil.copyfile(library(), folder / LIBRARY)
            (folder / MOVED).write_text("+0\n")
        yield
    finally:
        _remove(folders)


@contextmanager
def moved(folder: Path, by_s: int) -> Iterator[None]:
    """Move the time of day of a node's workers while the block lasts.

    They look once in each second of the time of day, so the block begins with the second after.

    Raises
    ------
    ClusterError
        When it cannot be moved.
    """
    with kept(
        f"{PUT}; put {by_s:+d}", "put +0", str(folder / MOVED), otherwise=f"{folder.name}: its clock stays"
    ):
        _wait_for_next_second()
        yield
    _wait_for_next_second()


def _wait_for_next_second() -> None:
    time.sleep(1 - time.time() % 1)


def _remove(folders: Mapping[str, Path]) -> None:
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
