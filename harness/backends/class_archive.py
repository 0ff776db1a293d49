"""Storm's and Java's own classes, parsed and verified once for all workers of this machine.

Every rebalance restarts workers, and most of what a worker does in its first seconds is to load five
thousand classes. A class data sharing archive, which the JVM maps into memory instead, takes a third off
the processor time of a worker's start. An archive that does not fit the JVM is ignored by it.

``worker-classes.txt.gz`` lists the classes. To make it anew for another version of Storm, run workers with
``-XX:DumpLoadedClassList=FILE-%p`` and give the files to ``python -m harness.backends.class_archive``.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from harness.backends.servers import ServerHomes, install

LIST = "assets/servers/storm/worker-classes.txt.gz"
DUMP_TIMEOUT_S = 300.0
_JDK = re.compile(r"(java|javax|jdk|sun|com/sun)/")


def class_archive(homes: ServerHomes) -> Path | None:
    """Return the archive for the java on PATH, made first where it is not there; None where it cannot be."""
    java = shutil.which("java")
    if java is None:
        return None
    runtime = Path(java).resolve().parent.parent
    modules = runtime / "lib" / "modules"
    if not modules.exists():
        return None
    # another JVM at the same place is another archive
    identity = f"{runtime} {modules.stat().st_mtime_ns} {modules.stat().st_size}"
    archive = homes.storm / f"workers-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    if not archive.exists():
        _make(java, runtime, homes, archive)
    return archive if archive.exists() else None


def _make(java: str, runtime: Path, homes: ServerHomes, archive: Path) -> None:
    default = runtime / "lib" / "classlist"
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=homes.storm) as folder:
        names = Path(folder) / "classes.txt"
        with names.open("wb") as out:
            out.write(default.read_bytes() if default.exists() else b"")
            out.write(gzip.decompress((files("harness") / LIST).read_bytes()))
        partial = Path(folder) / "partial.jsa"
        command = [java, "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={names}"]
        command += [f"-XX:SharedArchiveFile={partial}", "-cp", f"{homes.storm}/lib-worker/*"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=DUMP_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0 and partial.exists():
            partial.rename(archive)


def select(lists: Iterable[Sequence[str]], known: frozenset[str], already: frozenset[str]) -> list[str]:
    """Return the lines of class lists that are of Java or of known jars, beyond what is listed already.

    Classes of a topology's own jar are left out: that lies somewhere else for each topology.
    """
    found: set[str] = set()
    for lines in lists:
        for line in map(str.strip, lines):
            if not line or line.startswith("#") or " source:" in line or line in already:
                continue
            words = line.split()
            name = words[1] if words[0] == "@lambda-proxy" else words[0]
            if words[0] == "@lambda-form-invoker" or name in known or _JDK.match(name):
                found.add(line)
    return sorted(found)


def _main(lists: Sequence[str]) -> None:
    known: set[str] = set()
    for jar in (install().storm / "lib-worker").glob("*.jar"):
        with zipfile.ZipFile(jar) as opened:
            known.update(n.removesuffix(".class") for n in opened.namelist() if n.endswith(".class"))
    java = Path(os.path.realpath(shutil.which("java") or "java"))
    already = frozenset((java.parent.parent / "lib" / "classlist").read_text().splitlines())
    chosen = select((Path(p).read_text().splitlines() for p in lists), frozenset(known), already)
    data = gzip.compress(("\n".join(chosen) + "\n").encode(), compresslevel=9, mtime=0)
    Path(str(files("harness") / LIST)).write_bytes(data)


if __name__ == "__main__":
    _main(sys.argv[1:])
