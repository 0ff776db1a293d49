"""Spark's classes, loaded once: a class-data archive that later JVMs map instead of loading 10,000 classes.

The archive is made from the first analysis that asks for one, when its JVM ends, in the user's cache folder
(about 180 MB). It belongs to one java, one PySpark and one place of both; any other has another file. A JVM
that finds an archive unfit goes on without it. The archive fits whatever garbage collector and compiler the
JVM has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark

from harness.machine.servers import cache_folder


def archive_path() -> Path | None:
    """Return where the archive of this java and PySpark is or would be; None where there is no java."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        return None
    java = Path(found).resolve()
    key = f"{java}:{java.stat().st_mtime_ns}:{pyspark.__file__}:{pyspark.__version__}"
    name = f"spark-{pyspark.__version__}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"
    return cache_folder() / "classes" / name


def use(path: Path | None) -> str:
    """Return the JVM's option to use an archive; empty without an archive."""
    return f"-XX:SharedArchiveFile={path}" if path is not None and path.is_file() else ""


def unfinished(path: Path) -> Path:
    """Return the file that a JVM of this process writes an archive to."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def record(path: Path | None) -> str:
    """Return the JVM's option to write an archive when it ends, empty where that cannot be."""
    if path is None:
        return ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return f"-XX:ArchiveClassesAtExit={unfinished(path)}"


def keep(path: Path | None, exit_status: int | None) -> None:
    """Put an archive in place that a JVM wrote, if that JVM ended well."""
    if path is None or not unfinished(path).is_file():
        return
    if exit_status == 0:
        unfinished(path).replace(path)
    else:
        unfinished(path).unlink()
