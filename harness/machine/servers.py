"""The servers' jars: fetched once from Maven Central into the user's cache, then only looked up.

The class paths are pinned by the poms in ``harness/assets/servers``. The cache folder is named after the
poms' contents, so that a change of versions makes a new folder and never mixes two.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from harness.errors import HarnessError, MissingTool
from harness.machine.named_paths import user_folder
from harness.machine.server_pins import pinned, require_pinned

STORM_VERSION = "2.8.3"
KAFKA_VERSION = "4.1.0"


class Assembly(NamedTuple):
    """A class path that Maven gathers.

    Attributes
    ----------
    folder : str
        In the cache.
    pom : str
        Folder of the pom in ``harness/assets/servers``.
    profile : str
        Maven's; empty for none.
    properties : tuple of str
        ``NAME=VALUE``, in place of the pom's own.
    """

    folder: str
    pom: str
    profile: str = ""
    properties: tuple[str, ...] = ()


ASSEMBLIES = (
    Assembly("storm/lib", "storm", "daemons"),
    Assembly("storm/lib-worker", "storm", "workers"),
    Assembly("kafka/lib", "kafka"),
)
MANIFEST = "manifest.json"
DISK_NEEDED_BYTES = 1_000_000_000
"""For the jars, and the same again in Maven's own repository the first time."""


def quiet(_line: str) -> None:
    """Take a line of progress and show it to nobody."""


@dataclass(frozen=True)
class ServerHomes:
    """Where the servers' jars are.

    Attributes
    ----------
    root : Path
        The cache folder of this set of versions.
    """

    root: Path

    @property
    def storm(self) -> Path:
        """A Storm home: ``lib`` for daemons, ``lib-worker`` for workers and submitters."""
        return self.root / "storm"

    @property
    def kafka(self) -> Path:
        """Folder whose ``lib`` holds the broker's jars."""
        return self.root / "kafka"

    @property
    def manifest(self) -> Path:
        """JSON list of every jar with its size and SHA-256."""
        return self.root / MANIFEST


def cache_folder() -> Path:
    """Return the user's cache folder for this product (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    return user_folder("XDG_CACHE_HOME", ".cache") / "storm-harness"


def installed(cache: Path | None = None) -> ServerHomes | None:
    """Return the servers' homes when they have been installed, else None."""
    homes = _homes(cache or cache_folder())
    return homes if homes.manifest.exists() else None


def install(cache: Path | None = None, progress: Callable[[str], None] = quiet) -> ServerHomes:
    """Fetch the servers' jars with Maven unless they are there already; either way they are the pinned ones.

    Parameters
    ----------
    cache : Path, optional
        Folder to install into; the user's cache when left out.
    progress : callable
        Told what is being fetched, one short line a jar.

    Raises
    ------
    MissingTool
        When there is no Maven.
    HarnessError
        When Maven fails or the disk is too full; the cache is left as it was. When a jar is not the pinned
        one.
    """
    homes = _homes(cache or cache_folder())
    fetch(homes.root, ASSEMBLIES, DISK_NEEDED_BYTES, pinned("storm-kafka"), progress)
    return homes


def fetch(
    root: Path,
    assemblies: Sequence[Assembly],
    needed_bytes: int,
    expected: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Fetch class paths into a folder, which is made whole or not at all; when it is there, it is compared.

    Parameters
    ----------
    root : Path
        The folder, named after the versions it holds.
    assemblies
        The class paths.
    needed_bytes : int
        Disk that the first time needs.
    expected : mapping
        Jar -> SHA-256 that it must have.
    progress : callable
        Told what is being fetched, one short line a jar.

    Raises
    ------
    MissingTool
        When there is no Maven.
    HarnessError
        When Maven fails or the disk is too full, or a jar is not the pinned one.
    """
    manifest = root / MANIFEST
    if manifest.exists():
        require_pinned(root, expected)
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("there is no mvn on PATH", "apt-get install maven")
    root.parent.mkdir(parents=True, exist_ok=True)
    require_free(root.parent, needed_bytes)
    with only_one(root.parent / ".lock"):
        if manifest.exists():  # another process installed them while this one waited
            require_pinned(root, expected)
            return
        partial = Path(mkdtemp(prefix=".partial-", dir=root.parent))
        try:
            assemble(maven, partial, assemblies, root.parent / "maven.log", progress)
            require_pinned(partial, expected)
            partial.chmod(0o755)
            partial.rename(root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def require_free(folder: Path, needed_bytes: int) -> None:
    """Raise HarnessError when a folder's disk is too full for what is to be put there."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise HarnessError(
            f"{folder} has {free_bytes / 1e6:.0f} MB free and the servers need {needed_bytes / 1e6:.0f} MB",
            "free some space or set XDG_CACHE_HOME to another disk",
        )


def _homes(cache: Path) -> ServerHomes:
    digest = hashlib.sha256()
    for name in ("storm", "kafka"):
        digest.update(pom(name))
    return ServerHomes(cache / "servers" / digest.hexdigest()[:16])


def pom(name: str) -> bytes:
    """Return the pom that pins a class path."""
    return (files("harness") / "assets" / "servers" / name / "pom.xml").read_bytes()


def assemble(
    maven: str, root: Path, assemblies: Sequence[Assembly], log: Path, progress: Callable[[str], None]
) -> None:
    """Let Maven fill the folders of class paths, and list what came.

    Parameters
    ----------
    maven : str
        The program.
    root : Path
        Where the folders and the list go.
    assemblies
        The class paths.
    log : Path
        Gets what Maven says.
    progress : callable
        Told what is being fetched.

    Raises
    ------
    HarnessError
        When Maven fails.
    """
    log.write_text("")
    for assembly in assemblies:
        # a copy, since Maven wants a writable folder beside the pom and a package's may not be
        copy = root / "poms" / assembly.pom / "pom.xml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(pom(assembly.pom))
        command = [maven, "--batch-mode", "--strict-checksums", "--file", str(copy)]
        command += [f"--activate-profiles={assembly.profile}"] if assembly.profile else []
        command += [f"-D{given}" for given in assembly.properties]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={root / assembly.folder}"]
        _run(command, log, progress)
    # the manifest is written last: a folder without it is never taken for an installed one
    jars = sorted(root.rglob("*.jar"))
    entries = [
        {
            "jar": str(jar.relative_to(root)),
            "bytes": jar.stat().st_size,
            "sha256": hashlib.sha256(jar.read_bytes()).hexdigest(),
        }
        for jar in jars
    ]
    (root / MANIFEST).write_text(json.dumps(entries, indent=1) + "\n")


def _run(command: list[str], log: Path, progress: Callable[[str], None]) -> None:
    errors: list[str] = []
    with (
        log.open("a") as out,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as maven,
    ):
        assert maven.stdout is not None  # asked for above
        for line in maven.stdout:
            out.write(line)
            if "Downloaded from" in line and ".jar " in line:
                progress(f"fetched {line.split(' (')[0].rsplit('/', 1)[-1]}")
            if line.startswith("[ERROR]"):
                errors.append(line.removeprefix("[ERROR]").strip())
    if maven.returncode != 0:
        cause = errors[0] if errors else f"exit status {maven.returncode}"
        hint = "the servers come from Maven Central; look at the network or Maven's settings.xml"
        raise HarnessError(f"Maven could not fetch the servers: {cause}", hint, str(log))


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Let no two processes into the block at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
