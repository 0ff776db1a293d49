"""Jars of topologies that others published on Maven Central: fetched into the user's cache, and pinned.

python tests/support/published_jars.py          # fetch what is not there yet (make published)
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from harness.machine.servers import cache_folder, only_one

GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
"""The last version that can copy a jar whose parent pom nobody published, as flux-core's."""


class Published(NamedTuple):
    """A jar of Maven Central.

    Attributes
    ----------
    group, artifact, version : str
    sha256 : str
        That it must have.
    """

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> Path:
        """Where it is once it was fetched: the folder of the experiments in ``configs/experiments/jars``."""
        return cache_folder() / "jars" / f"{self.artifact}-{self.version}.jar"


STORM_STARTER = Published(
    "org.apache.storm",
    "storm-starter",
    "1.2.2",
    "53c4a1bd914743bbfdb4f4d55d47587987e28dc45df99c4907890af62c4a79cc",
)
FLUX = Published(
    "org.apache.storm",
    "flux-core",
    "2.8.3",
    "6e769c763908387e3e72d2580941aebd3b071d9df75f7b9576619b8ef2e49b8d",
)


def install(jar: Published) -> Path:
    """Return a jar's file; fetched unless it is there, and compared either way."""
    jar.file.parent.mkdir(parents=True, exist_ok=True)
    with only_one(jar.file.parent / ".lock"):
        if not jar.file.exists():
            _fetch(jar)
    found = hashlib.sha256(jar.file.read_bytes()).hexdigest()
    assert found == jar.sha256, f"{jar.file} has the SHA-256 {found}, not {jar.sha256}: remove it"
    return jar.file


def _fetch(jar: Published) -> None:
    named = f"{jar.group}:{jar.artifact}:{jar.version}"
    with tempfile.TemporaryDirectory(dir=jar.file.parent) as folder:
        command = ["mvn", "-q", "--batch-mode", "--strict-checksums", GET, "-Dtransitive=false"]
        subprocess.run([*command, f"-Dartifact={named}", f"-Ddest={folder}"], check=True)
        shutil.move(Path(folder) / jar.file.name, jar.file)


if __name__ == "__main__":
    for one in (STORM_STARTER, FLUX):
        print(install(one))
