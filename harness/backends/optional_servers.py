"""Servers that not every run needs: got once into the user's cache, then only looked up.

Neo4j comes as jars from Maven Central, as Storm and Kafka do.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.backends import servers
from harness.backends.servers import MANIFEST, Assembly, cache_folder, fetch, quiet

NEO4J_VERSION = "5.26.30"
NEO4J_ASSEMBLIES: tuple[Assembly, ...] = (("lib", "neo4j", ""),)
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
        When a download fails.
    """
    if neo4j_home() is not None:
        return
    if obstacle := neo4j_obstacle():
        progress(f"neo4j is left out: {obstacle.reason} -> {obstacle.mend}")
    else:
        install_neo4j(progress=progress)


def neo4j_home(cache: Path | None = None) -> Path | None:
    """Return the folder whose ``lib`` holds Neo4j's jars, or None when it is not installed."""
    root = _neo4j_root(cache)
    return root if (root / MANIFEST).exists() else None


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
        When Maven fails or the disk is too full.
    """
    root = _neo4j_root(cache)
    fetch(root, NEO4J_ASSEMBLIES, NEO4J_DISK_BYTES, progress)
    return root


def _neo4j_root(cache: Path | None) -> Path:
    digest = hashlib.sha256(servers.pom("neo4j")).hexdigest()[:16]
    return (cache or cache_folder()) / "servers" / f"neo4j-{digest}"
