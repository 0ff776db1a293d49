"""Logs that other users' programs wrote, taken over as plain files: no modes, no owners, no links.

A worker runs the code of a jar and owns its log folder, so that folder may hold anything. Only the bytes of
its regular files are kept, up to a limited size, under this user and this user's umask.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from harness.machine.masking import SecretMask

log = logging.getLogger(__name__)

MOST_FILE_BYTES = 64 << 20
"""Most bytes of a log, the rest of which is left out; Storm's own are rotated at 100 MB."""
MOST_HOST_BYTES = 256 << 20
"""Most bytes of all logs of a host, and most that are read of its tar stream, headers included."""
MOST_FILES = 10_000
_BLOCK = 1 << 20
_NAMED = 5
_FULL = (errno.ENOSPC, errno.EDQUOT)


class LogLimits(NamedTuple):
    """Sizes beyond which logs are left out.

    Attributes
    ----------
    file_bytes, host_bytes : int
        Of one log, and of all.
    files : int
    """

    file_bytes: int = MOST_FILE_BYTES
    host_bytes: int = MOST_HOST_BYTES
    files: int = MOST_FILES


class _Limited:
    """A stream that ends after so many bytes, however long its writer goes on."""

    def __init__(self, stream: IO[bytes], most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def read(self, size: int) -> bytes:
        block = self._stream.read(min(size, self._left))
        self._left -= len(block)
        return block


def unpack(stream: IO[bytes], target: Path, limits: LogLimits | None = None) -> tuple[str, ...]:
    """Write the regular files of a tar stream into a folder, while the stream arrives.

    A file's mode, owner and time are not those of the stream. Links, devices, pipes and names that lead out
    of the folder are left out, and so is what exceeds the limits; the rest is kept.

    Parameters
    ----------
    stream : binary file
        An uncompressed tar archive, from a host that is not trusted.
    target : Path
        An existing folder that nobody else writes to.
    limits : LogLimits, optional

    Returns
    -------
    tuple of str
        One line for each entry that was left out or cut, and one for a stream that ended early.
    """
    limits, complaints = limits or LogLimits(), list[str]()
    # headers take a block a file, and a name of any length at most what the limit leaves
    limited = _Limited(stream, limits.host_bytes + limits.files * 2 * tarfile.BLOCKSIZE)
    left_bytes, files = limits.host_bytes, 0
    try:
        with tarfile.open(fileobj=limited, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                if member.isdir():
                    continue
                if reason := _unfit(member):
                    complaints.append(f"{member.name}: {reason}")
                    continue
                files += 1
                if files > limits.files:
                    complaints.append(f"{member.name}: beyond {limits.files} files")
                    break
                source = archive.extractfile(member)
                assert source is not None  # a regular file
                most_bytes = min(limits.file_bytes, left_bytes)
                left_bytes -= _write(source, target / PurePosixPath(member.name), most_bytes)
                if member.size > most_bytes:
                    complaints.append(f"{member.name}: cut after {most_bytes} of {member.size} bytes")
    except (tarfile.TarError, EOFError, ValueError) as error:
        complaints.append(f"the stream of logs ended early: {error}")
    return tuple(complaints)


def _unfit(member: tarfile.TarInfo) -> str:
    """Return why an entry is left out; empty for a regular file inside the folder."""
    name = PurePosixPath(member.name)
    if not member.isreg():
        return "not a regular file"
    if name.is_absolute() or ".." in name.parts or not name.parts or "\0" in member.name:
        return "leads out of its folder"
    return ""


def _write(source: IO[bytes], path: Path, most_bytes: int) -> int:
    """Write at most so many bytes into a new file, and return how many; a name that exists is passed over."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno in _FULL:
            raise
        return 0
    written = 0
    with os.fdopen(target, "wb") as out:
        while written < most_bytes and (block := source.read(min(_BLOCK, most_bytes - written))):
            out.write(block)
            written += len(block)
    return written


def copy(logs: Path, target: Path, mask: SecretMask | None = None) -> tuple[str, ...]:
    """Copy the regular files below a folder into a new one, as ``unpack`` does.

    A file that cannot be read is left out, and the others are kept.

    Parameters
    ----------
    logs : Path
        The servers' logs on this machine.
    target : Path
        Replaced when it exists.
    mask : SecretMask, optional
        Knows the secrets that servers and workers repeat in their logs.

    Returns
    -------
    tuple of str
        One line for each file that was left out.

    Raises
    ------
    OSError
        When the disk is full; nothing is left of the copy then.
    """
    shutil.rmtree(target, ignore_errors=True)
    complaints = list[str]()
    try:
        target.mkdir(parents=True)
        for path in _below(logs):
            name = path.relative_to(logs)
            try:
                with _opened(path) as source:
                    _copy_lines(source, target / name, (mask or SecretMask()).line)
            except OSError as error:
                if error.errno in _FULL:
                    raise
                complaints.append(f"{name}: {os.strerror(error.errno) if error.errno else error}")
    except OSError:
        shutil.rmtree(target, ignore_errors=True)  # the room that a part of them takes is needed more
        raise
    return tuple(complaints)


def _copy_lines(source: IO[bytes], path: Path, masked: Callable[[bytes], bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb") as out:
        # as long as it is now: what is still written to grows on, and no line is longer than a log
        left = os.fstat(source.fileno()).st_size
        while left > 0 and (line := source.readline(min(left, MOST_FILE_BYTES))):
            out.write(masked(line))
            left -= len(line)


def _below(folder: Path) -> Iterator[Path]:
    for base, _folders, names in os.walk(folder, followlinks=False):
        yield from (Path(base) / name for name in sorted(names))


def _opened(path: Path) -> IO[bytes]:
    """Open a regular file that is no link; neither a pipe nor a device is waited for."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(file, "rb")


def tell(where: str, complaints: tuple[str, ...]) -> None:
    """Say in the log which logs were left out; of many the first few."""
    for complaint in complaints[:_NAMED]:
        log.warning("logs of %s: %s", where, complaint)
    if len(complaints) > _NAMED:
        log.warning("logs of %s: and %d more", where, len(complaints) - _NAMED)
