"""Sealed archives of runs: a zip file that says what is in it, and shows when any byte of it has changed.

``BUNDLE.json`` lists every file's SHA-256 with the versions and the schema number; the zip's comment holds
the SHA-256 of all that precedes it. Files are stored, not compressed (Parquet is already), in one order and
with one date, so the same run gives the same bytes anywhere.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TypedDict

from harness.errors import UsageError, one_line
from harness.machine.version import HARNESS_VERSION
from harness.machine.whole_files import folder_atomically
from harness.runs import Run
from harness.schemas import SCHEMA_VERSION

MANIFEST = "BUNDLE.json"
KIND = "harness-bundle"
VERSION = 1
SUFFIX = ".harness.zip"
_DATE = (1980, 1, 1, 0, 0, 0)
_SEAL = re.compile(rb"sha256:([0-9a-f]{64})")
_SEAL_BYTES = 71
_BLOCK = 1 << 20
MOST_FILES = 20_000
MOST_MANIFEST_BYTES = 8 << 20
MOST_DIRECTORY_BYTES = 8 << 20
"""Most bytes of the zip's own list of files, which the zip module reads into memory; 20,000 long names
fit."""
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)
"""Errors that the zip module raises for a damaged entry, by what was damaged."""


class BundledFile(TypedDict):
    """A file of a bundle."""

    sha256: str
    bytes: int


class BundleManifest(TypedDict):
    """``BUNDLE.json``: a bundle's run and its files by name."""

    kind: str
    version: int
    schema: int
    experiment: str
    run: str
    sealed_with: str
    measured_with: dict[str, object]
    files: dict[str, BundledFile]


@dataclass(frozen=True)
class Verified:
    """Result of comparing a bundle's files with its list.

    Attributes
    ----------
    name : str
        Experiment and run.
    files, size_bytes : int
    problems : tuple of str
        One line for each file that was changed, is missing or does not belong; empty when all is well.
    seal : str
        SHA-256 of the archive; empty for an extracted one.
    """

    name: str
    files: int
    size_bytes: int
    problems: tuple[str, ...]
    seal: str


def bundle(run_path: Path, out: Path | None = None) -> tuple[Path, str]:
    """Seal a run.

    Parameters
    ----------
    run_path : Path
        A run directory.
    out : Path, optional
        The archive; by default ``<experiment>-<stamp>.harness.zip`` in the current folder.

    Returns
    -------
    tuple of Path and str
        The archive, whole or not at all, and its seal.

    Raises
    ------
    UsageError
        When it is no run directory or has no finished step.
    """
    run = Run(run_path)
    if not (run.path / "steps").is_dir() or not run.finished_steps:
        raise UsageError(f"{run.path}: no finished step", "there is nothing to seal")
    experiment = run.path.parent.name
    target = out or Path(f"{experiment}-{run.path.name}{SUFFIX}")
    files = {p.relative_to(run.path).as_posix(): p for p in run.path.rglob("*") if p.is_file()}
    chosen = {
        name: p
        for name, p in sorted(files.items())
        if name != MANIFEST and not any(part.startswith(".") for part in PurePosixPath(name).parts)
    }
    for name, path in chosen.items():
        if path.is_symlink():
            raise UsageError(f"{path}: a link, and no file of the run", "what it leads to is not sealed")
        if not _is_inside(name):
            raise UsageError(f"{path}: no bundle can have a file of that name", "rename it")
    known = run.environment
    manifest: BundleManifest = {
        "kind": KIND,
        "version": VERSION,
        "schema": known["schema"],
        "experiment": experiment,
        "run": run.path.name,
        "sealed_with": HARNESS_VERSION,
        "measured_with": {k: known.get(k) for k in ("harness", "commit", "cluster", "packages")},
        "files": {name: {"sha256": _hash_of(p), "bytes": p.stat().st_size} for name, p in chosen.items()},
    }
    temporary = target.with_name(f".{target.name}.partial")
    try:
        with temporary.open("w+b") as file:
            _write(file, f"{experiment}/{run.path.name}", manifest, chosen)
            seal = _seal(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target, seal


def _write(file: IO[bytes], root: str, manifest: BundleManifest, files: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = b"sha256:" + b"0" * 64
        archive.writestr(_entry(f"{root}/{MANIFEST}"), json.dumps(manifest, indent=1) + "\n")
        for name, path in files.items():
            entry = _entry(f"{root}/{name}")
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as out:
                while block := source.read(_BLOCK):
                    out.write(block)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def _seal(file: IO[bytes]) -> str:
    """Put the hash of everything before it into the comment at the archive's end."""
    size = file.seek(0, os.SEEK_END)
    seal = _hash(file, size - _SEAL_BYTES)
    file.seek(size - _SEAL_BYTES)
    file.write(b"sha256:" + seal.encode())
    return seal


def _hash(file: IO[bytes], most: int | None = None) -> str:
    file.seek(0)
    found, left = hashlib.sha256(), most
    while block := file.read(_BLOCK if left is None else min(_BLOCK, left)):
        found.update(block)
        left = None if left is None else left - len(block)
    return found.hexdigest()


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return _hash(file)


def verify(path: Path) -> Verified:
    """Check a bundle, or the folder that it was extracted to, against its own list.

    Raises
    ------
    UsageError
        When it is not a bundle, cut short, or of a newer version or schema.
    """
    if path.is_dir():
        return _verify_folder(path)
    try:
        with path.open("rb") as file:
            return _verify_archive(path, file)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such bundle") from None


def _verify_archive(path: Path, file: IO[bytes]) -> Verified:
    size = file.seek(0, os.SEEK_END)
    _require_small_directory(path, file, size)
    file.seek(max(0, size - _SEAL_BYTES))
    sealed = _SEAL.fullmatch(file.read())
    seal = _hash(file, max(0, size - _SEAL_BYTES))
    archive = _opened(path, file)
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    roots = [n.removesuffix(f"/{MANIFEST}") for n in names if n.endswith(f"/{MANIFEST}")]
    if not roots:
        raise UsageError(f"{path}: not a bundle", f"there is no {MANIFEST} in it")
    root = min(roots, key=len)

    def verified(files: int, problems: Iterable[str]) -> Verified:
        return Verified(root, files, size, tuple(map(one_line, problems)), seal)

    if problems := [*_misfits(entries, root, size)]:
        return verified(len(names) - 1, problems)
    found = {n.removeprefix(f"{root}/"): n for n in names}
    try:
        text = archive.read(f"{root}/{MANIFEST}")
    except _UNREADABLE:
        return verified(len(names) - 1, (f"{MANIFEST}: changed",))
    intact = sealed is not None and sealed[1].decode() == seal
    manifest = _manifest(f"{path}: {MANIFEST}", text, intact)
    if manifest is None:
        return verified(len(names) - 1, (f"{MANIFEST}: changed",))

    def contents(name: str) -> str:
        with archive.open(found[name]) as entry:
            hashed = hashlib.sha256()
            while block := entry.read(_BLOCK):
                hashed.update(block)
        return hashed.hexdigest()

    problems = list(_problems(manifest, set(found), contents))
    if f"{manifest['experiment']}/{manifest['run']}" != root:
        problems.append(f"{MANIFEST}: is of another run than {root}")
    if not problems and not intact:
        problems = ["the archive itself was changed outside its files, or its seal was"]
    return verified(len(manifest["files"]), problems)


def _opened(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _UNREADABLE as error:
        raise UsageError(f"{path}: not a whole bundle ({error})", "copy it again") from None


def _require_small_directory(path: Path, file: IO[bytes], size: int) -> None:
    """Raise UsageError for a list of files so long that the zip module could not hold it in memory."""
    start = max(0, size - _END_WITHIN)
    file.seek(start)
    tail = file.read()
    at = len(tail) - _END_BYTES if tail[-_END_BYTES:].startswith(_END) else tail.rfind(_END)
    if at < 0 or at + _END_BYTES > len(tail):
        return  # no zip file, which the zip module says
    (directory_bytes,) = struct.unpack_from("<L", tail, at + 12)
    locator, large = at - _LOCATOR_BYTES, at - _LOCATOR_BYTES - _LARGE_END_BYTES
    if large >= 0 and tail.startswith(_LOCATOR, locator):
        directory_bytes = max(directory_bytes, *struct.unpack_from("<Q", tail, large + 40))
    if directory_bytes > MOST_DIRECTORY_BYTES and directory_bytes <= size:
        raise UsageError(f"{path}: its list of files has {directory_bytes} bytes", "that is no bundle")


_END, _LOCATOR = b"PK\5\6", b"PK\6\7"
_END_BYTES, _LOCATOR_BYTES, _LARGE_END_BYTES = 22, 20, 56
_END_WITHIN = (1 << 16) + _END_BYTES + _LOCATOR_BYTES + _LARGE_END_BYTES
"""The zip format's end: of a list of files, where that of a large one is, and of a large one."""


def _misfits(entries: list[zipfile.ZipInfo], root: str, size: int) -> Iterator[str]:
    """Yield why entries are none of a bundle's, before any of them is read.

    Files are stored as they are, so together they are smaller than the archive; whatever is not so would
    grow when it is read.
    """
    if not _is_run(root):
        yield f"{root}: no experiment and run"
    if len(entries) > MOST_FILES:
        yield f"{len(entries)} files, and a bundle has at most {MOST_FILES}"
        return
    names = set[str]()
    for entry in entries:
        name = entry.filename
        if not name.startswith(f"{root}/") or not _is_inside(name.removeprefix(f"{root}/")):
            yield f"{name}: leads out of its folder"
        if name in names:
            yield f"{name}: is in it twice"
        names.add(name)
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            yield f"{name}: compressed, as no file of a bundle is"
        if name == f"{root}/{MANIFEST}" and entry.file_size > MOST_MANIFEST_BYTES:
            yield f"{MANIFEST}: larger than {MOST_MANIFEST_BYTES} bytes"
    if sum(entry.file_size for entry in entries) > size:
        yield "its files are larger than the archive"


def _is_run(name: str) -> bool:
    return name.count("/") == 1 and _is_inside(name)


def _is_inside(name: str) -> bool:
    """Return whether a name is one of a file in a folder, on every system."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or _NOT_IN_NAMES.search(part) for part in parts)


_NOT_IN_NAMES = re.compile(r"[\\\x00-\x1f]")


def _verify_folder(path: Path) -> Verified:
    file = path / MANIFEST
    if not file.is_file():
        raise UsageError(f"{path}: not an extracted bundle", f"there is no {MANIFEST} in it")
    if file.stat().st_size > MOST_MANIFEST_BYTES:
        raise UsageError(
            f"{file}: larger than {MOST_MANIFEST_BYTES} bytes", "that is no bundle's list of files"
        )
    manifest = _manifest(str(file), file.read_bytes(), intact=True)
    assert manifest is not None
    found = {p.relative_to(path).as_posix(): p for p in path.rglob("*") if p.is_file()}
    problems = tuple(map(one_line, _problems(manifest, set(found), lambda name: _hash_of(found[name]))))
    size = sum(p.stat().st_size for p in found.values())
    return Verified(f"{manifest['experiment']}/{manifest['run']}", len(manifest["files"]), size, problems, "")


def _manifest(where: str, text: bytes, intact: bool) -> BundleManifest | None:
    """Return what a manifest says; None where it is damaged."""
    try:
        manifest = json.loads(text)
        version, schema = manifest["version"], manifest["schema"]
        whole = manifest["kind"] == KIND and all(
            isinstance(f["sha256"], str) for f in manifest["files"].values()
        )
        named = isinstance(manifest["experiment"], str) and isinstance(manifest["run"], str)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = named = False
    if not whole or not named or not isinstance(version, int) or not isinstance(schema, int):
        if intact:
            raise UsageError(f"{where}: not a bundle's list of files")
        return None
    if version > VERSION:
        raise UsageError(
            f"{where}: version {version} is newer than this harness reads ({VERSION})", "update it"
        )
    if schema > SCHEMA_VERSION:
        raise UsageError(
            f"{where}: schema {schema} is newer than this harness reads ({SCHEMA_VERSION})", "update it"
        )
    found: BundleManifest = manifest
    return found


def _problems(manifest: BundleManifest, found: set[str], hash_of: Callable[[str], str]) -> Iterator[str]:
    listed = manifest["files"]
    for name, said in listed.items():
        if not _is_inside(name):
            yield f"{name}: leads out of its folder"
            continue
        if name not in found:
            yield f"{name}: missing"
            continue
        try:
            same = hash_of(name) == said["sha256"]
        except _UNREADABLE:
            same = False
        if not same:
            yield f"{name}: changed"
    for name in sorted(found - set(listed) - {MANIFEST}):
        yield f"{name}: does not belong to the bundle"


def extract(path: Path, folder: Path) -> Path:
    """Verify a bundle and put its run into ``folder/<experiment>/<stamp>``, whole or not at all.

    Raises
    ------
    UsageError
        When the bundle is not intact, or the run is there already.
    """
    try:
        with path.open("rb") as file:  # one file, whatever takes its name meanwhile
            return _extract(path, file, folder)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such bundle") from None


def _extract(path: Path, file: IO[bytes], folder: Path) -> Path:
    checked = _verify_archive(path, file)
    if checked.problems:
        raise UsageError(f"{path}: {checked.problems[0]}", "it is not extracted")
    target = folder / checked.name
    if target.exists():
        raise UsageError(f"{target}: exists already", "extract into another folder")
    archive = _opened(path, file)
    listed = json.loads(archive.read(f"{checked.name}/{MANIFEST}"))["files"]
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_atomically(target) as temporary:
        for entry in archive.infolist():
            name = entry.filename.removeprefix(f"{checked.name}/")
            place, hashed = temporary / name, hashlib.sha256()
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, place.open("wb") as out:
                while block := source.read(_BLOCK):
                    out.write(block)
                    hashed.update(block)
            if name != MANIFEST and hashed.hexdigest() != listed[name]["sha256"]:
                raise UsageError(f"{path}: {name}: changed meanwhile", "it is not extracted")
    return target
