"""One Spark session, tuned to the amount of data: started once, ended without leaving a JVM behind.

The time that a small run takes is broken down in ``docs/performance.md``. In short, the JVM's start and the
compilation of the first queries cost several times more than the data. So a small run gets the quick compiler
only (C1), serial garbage collection, one shuffle partition and no adaptive re-planning. A large one gets
Spark's own choices and the garbage collector that takes the least of two cores. Both get an archive of loaded
classes (``class_archive``).

The master is ``local[2]`` unless one is given or ``SPARK_REMOTE`` names a Spark Connect server; nothing
else in this package knows the difference. No Python runs on executors, so a cluster needs Spark only.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from subprocess import Popen
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness.analysis.spark import class_archive
from harness.analysis.spark.remote_session import remote_session
from harness.errors import HarnessError, UsageError
from harness.machine.java_environment import to_blame

SMALL_ROWS = 5_000_000
"""Up to so many raw rows the start costs more than the work, and is what is tuned."""

_FILE = re.compile(r"error while reading file (?:file:)?/*(/\S+?\.parquet)", re.IGNORECASE)

_MASTER = re.compile(r"local(\[[\d*]+(,\d+)?\])?|spark://[^/\s]+:\d+(,[^/\s]+:\d+)*|yarn|k8s://\S+")
_HERE = re.compile(r"local|spark://(127\.|localhost:)")
"""Masters of this machine: the driver then listens on loopback only."""

_ALWAYS: Mapping[str, str] = {
    "spark.app.name": "harness-analysis",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # PySpark notes the caller's line for every expression, which takes several calls to the JVM each time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A job's queries compile to more classes than Spark keeps; the next job then compiles them all again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_LOCAL: Mapping[str, str] = {
    # Driver and executor are one process: after a sleep, or when the clock is set, neither is lost.
    "spark.network.timeout": "7d",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_QUERIES: Mapping[str, str] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
_SMALL_QUERIES: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_LARGE_QUERIES: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.enabled": "true",
}
_SMALL_PAGES: Mapping[str, str] = {"spark.buffer.pageSize": "1m"}
"""Each table that is broadcast takes a page at least, until the next full collection: of 16 MB, Spark's own
choice, a session of many jobs filled its heap.
"""
_SMALL_MEMORY, _LARGE_MEMORY = "1g", "1200m"
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn400m"
_LARGE_JVM = "-XX:+UseParallelGC"


def settings(rows: int, master: str, class_option: str = "") -> dict[str, str]:
    """Return the Spark settings for so many raw rows.

    Parameters
    ----------
    rows : int
        Raw rows that will be read.
    master : str
        A Spark master.
    class_option : str
        What a local run's JVM is told of the class archive.

    Examples
    --------
    >>> settings(1000, "local[2]")["spark.sql.shuffle.partitions"]
    '1'
    """
    small = rows <= SMALL_ROWS
    chosen = {**_ALWAYS, **query_settings(rows), "spark.master": master}
    chosen["spark.driver.memory"] = _SMALL_MEMORY if small else _LARGE_MEMORY
    chosen |= _SMALL_PAGES if small else {}
    java = f"-Dlog4j2.configurationFile={resources.files('harness') / 'assets' / 'spark-log4j2.properties'}"
    if master.startswith("local"):
        chosen |= _LOCAL
        java += f" {_SMALL_JVM if small else _LARGE_JVM} {class_option}"
    chosen["spark.driver.extraJavaOptions"] = java.strip()
    return chosen


def query_settings(rows: int) -> dict[str, str]:
    """Return what any session, one on somebody else's server too, chooses about its queries."""
    return {**_QUERIES, **(_SMALL_QUERIES if rows <= SMALL_ROWS else _LARGE_QUERIES)}


@contextmanager
def spark_session(
    rows: int = 0, master: str | None = None, remember_classes: bool = False, aside: Executor | None = None
) -> Iterator[SparkSession]:
    """Give the session that is already there, or start one and end it with the block.

    Parameters
    ----------
    rows : int
        Raw rows that will be read, by which the session is tuned.
    master : str, optional
        A Spark master (``local[2]``, ``spark://host:7077``); by default ``local[2]``, or what
        ``SPARK_REMOTE`` names (a master that is given goes before it).
    remember_classes : bool
        Whether to make a class archive where there is none.
    aside : Executor, optional
        Where to wait for the JVM's end, instead of here.

    Raises
    ------
    HarnessError
        When Spark does not start (the message names its log) or answer, or cannot compute.
    UsageError
        When a file that is read in the block turns out to be damaged; the message names it.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        with _one_line():
            yield active
        return
    if master is None and (url := os.environ.get("SPARK_REMOTE")):
        with _one_line(), remote_session(url, query_settings(rows)) as remote:
            yield remote
        return
    archive = class_archive.archive_path()
    option = class_archive.use(archive)
    if remember_classes and not option:
        option = class_archive.record(archive)
    session = _start(settings(rows, checked_master(master or "local[2]"), option))
    try:
        with _one_line():
            yield session
    finally:
        jvm = _stop(session)
        if aside is None:
            _await_end(jvm, archive)
        else:
            aside.submit(_await_end, jvm, archive)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn what Spark raises, a page of Java, into one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if damaged := _FILE.search(text):
            path = unquote(damaged.group(1))
            raise UsageError(f"{path}: damaged", "it cannot be read to its end") from error
        first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        raise HarnessError(f"Spark failed: {first.strip()}") from error


def checked_master(master: str) -> str:
    """Return a Spark master's address if it is one.

    Raises
    ------
    UsageError
        When it is none.

    Examples
    --------
    >>> checked_master("spark://127.0.0.1:7077")
    'spark://127.0.0.1:7077'
    """
    if not _MASTER.fullmatch(master):
        hint = "give local[2] or spark://HOST:PORT; a Spark Connect server goes into SPARK_REMOTE"
        raise UsageError(f"{master}: no Spark master", hint)
    return master


def _start(chosen: Mapping[str, str]) -> SparkSession:
    master = chosen["spark.master"]
    if _HERE.match(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.pop("SPARK_REMOTE", None)  # it was not taken, and a JVM with a master refuses to start with it
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    handle, name = tempfile.mkstemp(prefix="spark-", suffix=".log")
    try:
        with open(handle, "wb") as log:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    except Exception as error:
        blamed = " ".join(to_blame())
        hint = f"try without {blamed} in the environment" if blamed else "is a JDK 17 or newer on the PATH?"
        hint += "" if master.startswith("local") else f" Does a master answer at {master}?"
        raise HarnessError(f"Spark did not start ({type(error).__name__})", hint, name) from error
    Path(name).unlink()  # what Spark says matters only where it does not start
    return session


def _stop(session: SparkSession) -> Popen[bytes]:
    """End the session and tell its JVM to end (PySpark alone would keep it until Python ends)."""
    gateway = SparkContext._gateway
    assert gateway is not None, "a classic session has a gateway"
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    jvm: Popen[bytes] = gateway.proc
    return jvm


def _await_end(jvm: Popen[bytes], archive: Path | None) -> None:
    class_archive.keep(archive, jvm.wait())
