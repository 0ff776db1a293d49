"""The servers' jars: fetched once from Maven Central into the user's cache, then only looked up.

The class paths are pinned by the poms in ``harness/assets/servers``; the cache folder is named after
their contents, so that a change of versions makes a new folder and never mixes two.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

from harness.errors import HarnessError, MissingTool

STORM_VERSION = "2.8.3"
KAFKA_VERSION = "4.1.0"
ASSEMBLIES = (
    # folder in the cache, pom, Maven profile
    ("storm/lib", "storm", "daemons"),
    ("storm/lib-worker", "storm", "workers"),
    ("kafka/lib", "kafka", ""),
)
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
        return self.root / "manifest.json"


def cache_folder() -> Path:
    """Return the user's cache folder for this product (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "storm-harness"


def installed(cache: Path | None = None) -> ServerHomes | None:
    """Return the servers' homes when they have been installed, else None."""
    homes = _homes(cache or cache_folder())
    return homes if homes.manifest.exists() else None


def install(cache: Path | None = None, progress: Callable[[str], None] = quiet) -> ServerHomes:
    """Fetch the servers' jars with Maven unless they are there already.

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
        When Maven fails or the disk is too full; the cache is left as it was.
    """
    cache = cache or cache_folder()
    homes = _homes(cache)
    if homes.manifest.exists():
        return homes
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("there is no mvn on PATH", "apt-get install maven")
    homes.root.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(homes.root.parent).free
    if free_bytes < DISK_NEEDED_BYTES:
        raise HarnessError(
            f"{homes.root.parent} has {free_bytes / 1e6:.0f} MB free and the servers need "
            f"{DISK_NEEDED_BYTES / 1e6:.0f} MB",
            "free some space or set XDG_CACHE_HOME to another disk",
        )
    with _only_one(homes.root.parent / ".lock"):
        if homes.manifest.exists():  # another process installed them while this one waited
            return homes
        partial = Path(mkdtemp(prefix=".partial-", dir=homes.root.parent))
        try:
            _assemble(maven, partial, cache / "servers" / "maven.log", progress)
            partial.chmod(0o755)
            partial.rename(homes.root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return homes


def _homes(cache: Path) -> ServerHomes:
    digest = hashlib.sha256()
    for name in ("storm", "kafka"):
        digest.update(_pom(name))
    return ServerHomes(cache / "servers" / digest.hexdigest()[:16])


def _pom(name: str) -> bytes:
    return (files("harness") / "assets" / "servers" / name / "pom.xml").read_bytes()


def _assemble(maven: str, root: Path, log: Path, progress: Callable[[str], None]) -> None:
    log.write_text("")
    for folder, pom_name, profile in ASSEMBLIES:
        # a copy, since Maven wants a writable folder beside the pom and a package's may not be
        pom = root / "poms" / pom_name / "pom.xml"
        pom.parent.mkdir(parents=True, exist_ok=True)
        pom.write_bytes(_pom(pom_name))
        command = [maven, "--batch-mode", "--strict-checksums", "--file", str(pom)]
        command += [f"--activate-profiles={profile}"] if profile else []
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={root / folder}"]
        _run(command, log, progress)
    # the manifest is written last: a folder without it is never taken for an installed one
    jars = sorted(root.glob("*/*/*.jar"))
    entries = [
        {
            "jar": str(jar.relative_to(root)),
            "bytes": jar.stat().st_size,
            "sha256": hashlib.sha256(jar.read_bytes()).hexdigest(),
        }
        for jar in jars
    ]
    (root / "manifest.json").write_text(json.dumps(entries, indent=1) + "\n")


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
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
