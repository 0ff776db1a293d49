"""The class paths that hosts get, as one tar that is the same byte for byte whoever makes it.

Names are sorted, times, owners and modes are set, equal jars are stored once, and nothing is compressed
(jars are already). The name says what is in it, and its last member is a file ``complete``: what has that was
unpacked whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from harness.machine.servers import ServerHomes

EPOCH_S = 315_532_800
"""1980-01-01, the first day of jar files."""
Contents = Mapping[str, Path | bytes]


@dataclass(frozen=True)
class ServerArchive:
    """An archive: where it is, what its only folder is called, which contents it has, how large it is."""

    path: Path
    folder: str
    version: str
    size_bytes: int


def storm_and_kafka(homes: ServerHomes, extlib: Path, cache: Path) -> ServerArchive:
    """Return the archive of Storm (with ZooKeeper) and Kafka, made first where it is not in the cache.

    Parameters
    ----------
    homes : ServerHomes
        The class paths, assembled from Maven's artifacts.
    extlib : Path
        Our instrumentation, for the class path of workers.
    cache : Path
        Folder that keeps archives.
    """
    assets = files("harness") / "assets" / "servers" / "storm"
    contents: dict[str, Path | bytes] = {
        str(jar.relative_to(homes.root)): jar for jar in homes.root.glob("*/lib*/*.jar")
    }
    contents[f"extlib/{extlib.name}"] = extlib
    contents["java/bin/java"] = (assets / "java-of-workers.sh").read_bytes()
    for name in ("cluster.xml", "worker.xml"):
        contents[f"log4j2/{name}"] = (assets / "log4j2" / name).read_bytes()
    return archive("servers", contents, cache)


def jars_of(name: str, folder: Path, cache: Path) -> ServerArchive:
    """Return the archive of one class path, which is ``NAME/lib`` in it."""
    return archive(name, {f"{name}/lib/{jar.name}": jar for jar in folder.glob("*.jar")}, cache)


def program(path: Path, cache: Path) -> ServerArchive:
    """Return the archive of one program, which is ``NAME/bin/NAME`` in it."""
    return archive(path.name, {f"{path.name}/bin/{path.name}": path}, cache)


def archive(name: str, contents: Contents, cache: Path) -> ServerArchive:
    """Return an archive with these contents, made first where it is not in the cache.

    Parameters
    ----------
    name : str
        Its folder is NAME-VERSION, where the version stands for names and contents.
    contents : mapping
        Path in the folder -> file, or bytes.
    cache : Path
        Where it goes; older ones of that name are removed.
    """
    digests = {path: digest(source) for path, source in sorted(contents.items())}
    listing = "".join(f"{digest}  {path}\n" for path, digest in digests.items())
    version = hashlib.sha256(listing.encode()).hexdigest()[:16]
    folder = f"{name}-{version}"
    target = cache / f"{folder}.tar"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=cache)
        try:
            with os.fdopen(descriptor, "wb") as out:
                _write(out, folder, contents, digests, listing.encode())
            os.rename(partial, target)
        except BaseException:
            os.unlink(partial)
            raise
        for other in cache.glob(f"{name}-*.tar"):
            if other != target:
                other.unlink()
    return ServerArchive(target, folder, version, target.stat().st_size)


def _write(
    out: io.BufferedIOBase, folder: str, contents: Contents, digests: Mapping[str, str], listing: bytes
) -> None:
    first: dict[str, str] = {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for directory in _directories(contents):
            member = _member(f"{folder}/{directory}".rstrip("/"), 0o755)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        for path in sorted(contents):
            source = contents[path]
            member = _member(f"{folder}/{path}", 0o755 if "/bin/" in path else 0o644)
            if (same := first.setdefault(digests[path], member.name)) != member.name:
                member.type, member.linkname = tarfile.LNKTYPE, same
                tar.addfile(member)
            elif isinstance(source, bytes):
                member.size = len(source)
                tar.addfile(member, io.BytesIO(source))
            else:
                member.size = source.stat().st_size
                with source.open("rb") as file:
                    tar.addfile(member, file)
        member = _member(f"{folder}/complete", 0o644)
        member.size = len(listing)
        tar.addfile(member, io.BytesIO(listing))


def _directories(contents: Contents) -> list[str]:
    found = {""}
    for path in contents:
        found.update(str(parent) for parent in Path(path).parents if str(parent) != ".")
    return sorted(found)


def _member(name: str, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mtime, member.mode = EPOCH_S, mode
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def digest(source: Path | bytes) -> str:
    """Return the SHA-256 of a file, or of bytes, as 64 hexadecimal digits."""
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
