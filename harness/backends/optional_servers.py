"""Servers that not every run needs: got once into the user's cache, then only looked up.

Neo4j comes as jars from Maven Central, as Storm and Kafka do. InfluxDB is built from its source, unless the
user has an InfluxDB 2. ``INFLUXD`` names its program, or ``influxd`` is on the PATH.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as kept
from pathlib import Path
from tempfile import mkdtemp

from harness.backends.influxdb import build as influxdb_build
from harness.errors import HarnessError, MissingTool, UsageError
from harness.machine import servers
from harness.machine.server_pins import pinned, require_pinned
from harness.machine.servers import MANIFEST, Assembly, cache_folder, fetch, only_one, quiet, require_free

INFLUXDB_VERSION = influxdb_build.VERSION
INFLUXD = "INFLUXD"
"""Environment variable: the path of the user's own InfluxDB 2."""
VERSION_S = 20.0
"""Time for a program to say its version."""
NEO4J_VERSION = "5.26.30"
NEO4J_ASSEMBLIES = (Assembly("lib", "neo4j"),)
NEO4J_DISK_BYTES = 400_000_000

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Obstacle:
    """Why an optional part cannot be had on this machine, and what would mend it."""

    reason: str
    mend: str


def install_possible(progress: Progress) -> None:
    """Install what can be had on this machine, and say of the rest why not.

    Raises
    ------
    HarnessError
        When a download or a build fails.
    """
    for name, path, obstacle, install in (
        ("neo4j", neo4j_home(), neo4j_obstacle(), install_neo4j),
        ("influxdb", influxd(), influxdb_obstacle(), install_influxdb),
    ):
        if path is None and obstacle is not None:
            progress(f"{name} is left out: {obstacle.reason} -> {obstacle.mend}")
        elif path is None:
            install(progress=progress)


# -- Neo4j ----------------------------------------------------------------------------------------


def neo4j_home(cache: Path | None = None) -> Path | None:
    """Return the folder whose ``lib`` holds Neo4j's jars, or None when it is not installed."""
    root = _neo4j_root(cache)
    return root if (root / MANIFEST).exists() else None


def require_intact_neo4j(home: Path) -> None:
    """Raise HarnessError when one of Neo4j's jars is not the pinned one."""
    require_pinned(home, pinned("neo4j"))


def neo4j_obstacle() -> Obstacle | None:
    """Return what keeps Neo4j from being installed here."""
    if shutil.which("mvn") is None:
        return Obstacle("there is no mvn on PATH", "apt-get install maven")
    return None


def install_neo4j(cache: Path | None = None, progress: Progress = quiet) -> Path:
    """Fetch Neo4j's jars with Maven unless they are there already, and return their home.

    Raises
    ------
    MissingTool
        When there is no Maven.
    HarnessError
        When Maven fails or the disk is too full, or a jar is not the pinned one.
    """
    root = _neo4j_root(cache)
    fetch(root, NEO4J_ASSEMBLIES, NEO4J_DISK_BYTES, pinned("neo4j"), progress)
    return root


def _neo4j_root(cache: Path | None) -> Path:
    digest = hashlib.sha256(servers.pom("neo4j")).hexdigest()[:16]
    return (cache or cache_folder()) / "servers" / f"neo4j-{digest}"


# -- InfluxDB -------------------------------------------------------------------------------------


def influxd(cache: Path | None = None) -> Path | None:
    """Return InfluxDB's server program, the user's own or the one that was built; None without either.

    Raises
    ------
    UsageError
        When ``INFLUXD`` names no InfluxDB 2.
    """
    if own := own_influxd():
        return own
    root = _influxdb_root(cache)
    return root / "influxd" if (root / MANIFEST).exists() else None


def own_influxd() -> Path | None:
    """Return the InfluxDB 2 that ``INFLUXD`` names, or ``influxd`` on the PATH.

    An ``influxd`` on the PATH of another version (Debian's is 1.6) is passed over.

    Raises
    ------
    UsageError
        When ``INFLUXD`` names no InfluxDB 2.
    """
    if named := os.environ.get(INFLUXD):
        program = Path(named).expanduser().absolute()
        version = influxd_version(program)
        if version is None:
            raise UsageError(f"{INFLUXD}={named}: no InfluxDB", "give the path of an influxd of version 2")
        if not version.startswith("2."):
            raise UsageError(f"{INFLUXD}={named}: InfluxDB {version}", "version 2 is needed")
        return program
    found = shutil.which("influxd")
    version = influxd_version(Path(found)) if found else None
    return Path(found).absolute() if found and version and version.startswith("2.") else None


@kept
def influxd_version(program: Path) -> str | None:
    """Return the version that an InfluxDB says it is; None of what is none."""
    try:
        done = subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=VERSION_S, check=True
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    said = re.search(r"InfluxDB v?(\d+\.\S+)", done.stdout)
    return said[1] if said else None


def require_intact_influxd(program: Path) -> None:
    """Raise HarnessError when InfluxDB's program is not what was built.

    Its source is pinned; the program is this machine's own, so the list beside it is all there is. The user's
    own program is what the user says that it is.
    """
    if program == own_influxd():
        return
    try:
        expected = json.loads((program.parent / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        with program.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{program}: cannot be compared: {error}", f"remove {program.parent}") from None
    if actual != expected:
        what = f"{program}: its SHA-256 is {actual[:16]}..., not that of the program that was built"
        raise HarnessError(what, f"remove {program.parent}, then make servers")


def influxdb_obstacle() -> Obstacle | None:
    """Return what keeps InfluxDB from being built here."""
    for tool, mend in influxdb_build.TOOLS.items():
        if shutil.which(tool) is None:
            return Obstacle(f"there is no {tool} on PATH", mend)
    return None


def install_influxdb(cache: Path | None = None, progress: Progress = quiet) -> Path:
    """Build InfluxDB unless it is there already or the user has one, and return its server program.

    Raises
    ------
    MissingTool
        When a compiler is missing.
    HarnessError
        When a download is not what it should be, the build fails or the disk is too full; what was
        done is kept for the next try.
    """
    if there := influxd(cache):
        return there
    root = _influxdb_root(cache)
    if obstacle := influxdb_obstacle():
        raise MissingTool(f"InfluxDB cannot be built: {obstacle.reason}", obstacle.mend)
    root.parent.mkdir(parents=True, exist_ok=True)
    require_free(root.parent, influxdb_build.DISK_BYTES)
    with only_one(root.parent / ".lock-influxdb"):
        if not (root / MANIFEST).exists():  # else another process built it while this one waited
            work = root.parent / f".build-{root.name}"
            program = influxdb_build.Build(work, root.parent / "influxdb.log", progress).influxd()
            _put_in_place(program, root)
            shutil.rmtree(work, ignore_errors=True)
    return root / "influxd"


def _influxdb_root(cache: Path | None) -> Path:
    return (cache or cache_folder()) / "servers" / f"influxdb-{INFLUXDB_VERSION}"


def _put_in_place(program: Path, root: Path) -> None:
    partial = Path(mkdtemp(prefix=".partial-", dir=root.parent))
    try:
        shutil.copy2(program, partial / "influxd")
        entry = {
            "program": "influxd",
            "version": INFLUXDB_VERSION,
            "bytes": program.stat().st_size,
            "sha256": hashlib.sha256(program.read_bytes()).hexdigest(),
        }
        (partial / MANIFEST).write_text(json.dumps(entry, indent=1) + "\n")
        partial.chmod(0o755)
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
