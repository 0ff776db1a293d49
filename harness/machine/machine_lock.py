"""One measuring run at a time on a machine, whoever's it is; and word of clusters that come up beside it.

The lock is an advisory one on one file, so it ends with the processes that hold it, however they end. The
processes of a private network inherit it: they are those that measure, and the one outside is their parent.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from harness.errors import UsageError

PLACE = "HARNESS_LOCKS"
"""Environment variable: another folder for the lock, of runs that may disturb each other, as tests may."""
INHERITED = "STORM_HARNESS_LOCK"
"""Environment variable: the open file of the lock, in the process that a private network was entered with."""
SHARED_FOLDER = Path("/run/lock")
ANYBODYS_FOLDER = Path("/tmp")
BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The monotonic clock begins anew with each."""
LOCK = "storm-harness-measuring"
CLUSTERS = "storm-harness-clusters"
ENDING_S = 5.0
"""Longest time that the rest of a killed process may hold a lock."""
POLL_S = 0.1
WAITING, ITS_TURN = "waiting until it has ended", "it has ended: this run has the machine"
"""Last words of a run that waits for another, and what it says when it waits no longer."""
COMING_UP_MOST_S = 200.0
"""A cluster that never said that it was up was coming up no longer than this."""
KEPT = 100
"""Clusters that are remembered."""


def folder() -> Path:
    """Return where the lock is: the same for all users, where the machine has a place for it."""
    if named := os.environ.get(PLACE):
        return Path(named)
    shared = SHARED_FOLDER.is_dir() and os.access(SHARED_FOLDER, os.W_OK)
    return SHARED_FOLDER if shared else ANYBODYS_FOLDER


class LockHolder(NamedTuple):
    """Who holds the lock, by its own word."""

    pid: int
    run: str


class MachineLock:
    """The machine's lock, held from the start to ``release`` or to the end of the block.

    Parameters
    ----------
    run : str
        What is going to be measured, for whoever is refused.
    wait : bool
        Wait for another run to end, instead of refusing.
    say : callable
        Told when there is something to wait for, and when there no longer is.

    Raises
    ------
    UsageError
        When another run has it, naming process and run.
    """

    def __init__(self, run: str, *, wait: bool, say: Callable[[str], None]) -> None:
        inherited = os.environ.pop(INHERITED, "")
        self._file: int | None = int(inherited) if inherited else _open(folder() / LOCK)
        self._pid = os.getpid()
        try:
            if inherited:
                os.set_inheritable(int(inherited), False)
                self._pid = _holder(int(inherited)).pid  # the process outside, as others see it
            else:
                self._take(wait, say)
            self.measures(run)
        except BaseException:
            self._close()
            raise

    def _take(self, wait: bool, say: Callable[[str], None]) -> None:
        assert self._file is not None
        limit = time.monotonic() + ENDING_S
        while not _locked(self._file, fcntl.LOCK_NB):
            holder = _holder(self._file)
            if not Path(f"/proc/{holder.pid}").exists() and time.monotonic() < limit:
                time.sleep(POLL_S)  # it was killed, and its servers are ending
                continue
            held = f"process {holder.pid} is measuring {holder.run} on this machine"
            if not wait:
                raise UsageError(held, "two runs would measure each other; --wait waits for it")
            say(f"{held}: {WAITING}")
            _locked(self._file, 0)
            say(ITS_TURN)
            return

    def measures(self, run: str) -> None:
        """Say what is measured now, for whoever is refused."""
        if self._file is not None:
            _write(self._file, {"pid": self._pid, "run": run})

    def hand_on(self) -> None:
        """Let the program that this process becomes keep it."""
        if self._file is not None:
            os.set_inheritable(self._file, True)
            os.environ[INHERITED] = str(self._file)

    def release(self) -> None:
        """Let others measure."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also where the parent outside holds the same file
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open(path: Path) -> int:
    """Open a file that every user may write, making it if need be."""
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            made = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_CREAT, 0o666)
            os.fchmod(made, 0o666)  # whatever the umask
            return made
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be opened: {error.strerror}", f"{PLACE} names another folder"
        ) from None


def _locked(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | how)
    except BlockingIOError:
        return False
    return True


def _read(file: int) -> dict[str, object]:
    """Return what the file says; nothing where that is not readable, as while it is written."""
    try:
        said = json.loads(os.pread(file, os.fstat(file).st_size, 0))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _write(file: int, content: Mapping[str, object]) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(content).encode(), 0)


def _holder(file: int) -> LockHolder:
    said = _read(file)
    pid = said.get("pid")
    return LockHolder(pid, str(said.get("run", ""))) if isinstance(pid, int) else LockHolder(0, "a run")


@contextmanager
def coming_up() -> Iterator[None]:
    """Let the runs that are measured meanwhile know that a cluster comes up beside them."""
    mine = _ClusterStart(os.getpid(), time.monotonic_ns(), 0)
    _remember(mine)
    try:
        yield
    finally:
        _remember(mine._replace(up_ns=time.monotonic_ns()))


def came_up(start_ns: int, end_ns: int) -> list[int]:
    """Return the processes that brought clusters up on this machine in a span of the monotonic clock."""
    path = folder() / CLUSTERS
    if not path.exists():
        return []
    file = _open(path)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        known = _clusters(file)
    finally:
        os.close(file)
    most_ns = round(COMING_UP_MOST_S * 1e9)
    return [c.pid for c in known if c.began_ns < end_ns and (c.up_ns or c.began_ns + most_ns) >= start_ns]


class _ClusterStart(NamedTuple):
    """A cluster that came up; when is 0 as long as it is not up."""

    pid: int
    began_ns: int
    up_ns: int


def _remember(cluster: _ClusterStart) -> None:
    file = _open(folder() / CLUSTERS)
    try:
        _locked(file, 0)
        others = [c for c in _clusters(file) if c[:2] != cluster[:2]]
        _write(file, {"boot": _boot(), "clusters": [*others, cluster][-KEPT:]})
    finally:
        os.close(file)


def _boot() -> str:
    return BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else ""


def _clusters(file: int) -> list[_ClusterStart]:
    """Return the clusters that a file names, which anybody may write: what is none is left out."""
    said = _read(file)
    listed = said.get("clusters") if said.get("boot") == _boot() else None
    rows = listed if isinstance(listed, list) else []
    return [
        _ClusterStart(*row) for row in rows if isinstance(row, list) and [type(v) for v in row] == [int] * 3
    ]
