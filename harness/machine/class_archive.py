"""Storm's, Kafka's and Java's own classes, parsed and verified once for all JVMs of this machine.

Every run starts servers and every rebalance workers, and most of what they do in their first seconds is to
load some thousand classes. A class data sharing archive, which the JVM maps into memory instead, takes a
third off the processor time of a worker's start and half off a server's. An archive that does not fit the
JVM is ignored by it.

Files of the assets list the classes. To make one anew for another version of the servers, run them with
``-XX:DumpLoadedClassList=FILE-%p`` and give what they are, and the files, to
``python -m harness.machine.class_archive``.
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
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, NamedTuple, cast

from harness.machine.servers import ServerHomes, install

Of = Literal["workers", "daemons", "kafka"]
"""Workers and submitters; ZooKeeper, Nimbus and supervisors; Kafka and what formats its disk."""
DUMP_TIMEOUT_S = 300.0
_JDK = re.compile(r"(java|javax|jdk|sun|com/sun)/")


class _Classes(NamedTuple):
    """Where the class path is, and what lists the classes."""

    home: Path
    class_path: Path
    names: Traversable


def _classes(homes: ServerHomes, of: Of) -> _Classes:
    assets = files("harness") / "assets" / "servers"
    if of == "kafka":
        return _Classes(homes.kafka, homes.kafka / "lib", assets / "kafka" / "classes.txt.gz")
    names = assets / "storm" / f"{of.removesuffix('s')}-classes.txt.gz"
    return _Classes(homes.storm, homes.storm / ("lib-worker" if of == "workers" else "lib"), names)


def class_archive(homes: ServerHomes, of: Of = "workers") -> Path | None:
    """Return the archive for the java on PATH, made first where it is not there; None where it cannot be.

    A class path that begins with the jars of the archive may have more behind them.
    """
    java = shutil.which("java")
    if java is None:
        return None
    runtime = Path(java).resolve().parent.parent
    modules = runtime / "lib" / "modules"
    if not modules.exists():
        return None
    # another JVM at the same place is another archive
    identity = f"{runtime} {modules.stat().st_mtime_ns} {modules.stat().st_size}"
    classes = _classes(homes, of)
    archive = classes.home / f"{of}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
    if not archive.exists():
        _make(java, runtime, classes, archive)
    return archive if archive.exists() else None


def _make(java: str, runtime: Path, classes: _Classes, archive: Path) -> None:
    default = runtime / "lib" / "classlist"
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=classes.home) as folder:
        names = Path(folder) / "classes.txt"
        with names.open("wb") as out:
            out.write(default.read_bytes() if default.exists() else b"")
            out.write(gzip.decompress(classes.names.read_bytes()))
        partial = Path(folder) / "partial.jsa"
        command = [java, "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedClassListFile={names}"]
        command += [f"-XX:SharedArchiveFile={partial}", "-cp", f"{classes.class_path}/*"]
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


def _main(of: Of, lists: Sequence[str]) -> None:
    classes, known = _classes(install(), of), set[str]()
    for jar in classes.class_path.glob("*.jar"):
        with zipfile.ZipFile(jar) as opened:
            known.update(n.removesuffix(".class") for n in opened.namelist() if n.endswith(".class"))
    java = Path(os.path.realpath(shutil.which("java") or "java"))
    already = frozenset((java.parent.parent / "lib" / "classlist").read_text().splitlines())
    chosen = select((Path(p).read_text().splitlines() for p in lists), frozenset(known), already)
    data = gzip.compress(("\n".join(chosen) + "\n").encode(), compresslevel=9, mtime=0)
    Path(str(classes.names)).write_bytes(data)


if __name__ == "__main__":
    _main(cast(Of, sys.argv[1]), sys.argv[2:])
