"""Jars of topologies that know nothing of the harness, compiled from tests/system/foreign."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

from harness.machine.servers import ServerHomes

SOURCES = Path(__file__).parents[1] / "system" / "foreign"


def compiled(source: str, homes: ServerHomes, folder: Path, brings: Iterable[Path] = ()) -> Path:
    """Return a jar of one source's classes.

    Parameters
    ----------
    brings : iterable of Path
        Jars whose contents it brings along, but for the harness's topologies.
    """
    classes, made = folder / "classes", folder / f"{Path(source).stem.lower()}.jar"
    path = ":".join([f"{homes.storm}/lib-worker/*", *map(str, brings)])
    command = ["javac", "-nowarn", "-cp", path, "-d", str(classes), str(SOURCES / source)]
    subprocess.run(command, check=True, capture_output=True)
    with ZipFile(made, "w") as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, file.relative_to(classes))
        for brought in brings:
            with ZipFile(brought) as other:
                for name in other.namelist():
                    if not name.startswith(("harness/storm/topologies/", "META-INF/", "module-info")):
                        jar.writestr(name, other.read(name))
    return made
