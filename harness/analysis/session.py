"""One Spark session, tuned to the amount of data: started once, ended without leaving a JVM behind.

Where the time of a small run goes is in ``docs/performance.md``; in short, the JVM's start and the
compilation of the first queries cost several times more than the data. So a small run gets the quick
compiler only (C1), serial garbage collection, one shuffle partition and no adaptive re-planning,
and a large one Spark's own choices.

The master is ``local[2]`` unless one is given or ``SPARK_REMOTE`` names a Spark Connect server; nothing
else in this package knows the difference.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness.errors import HarnessError

SMALL_ROWS = 5_000_000
"""Up to so many raw rows the start costs more than the work, and is what is tuned."""

_ALWAYS: Mapping[str, str] = {
    "spark.app.name": "harness-analysis",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
_LOCAL: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SMALL: Mapping[str, str] = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_LARGE: Mapping[str, str] = {
    "spark.driver.memory": "1500m",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.enabled": "true",
}
_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def settings(rows: int, master: str) -> dict[str, str]:
    """Return the Spark settings for so many raw rows.

    Examples
    --------
    >>> settings(1000, "local[2]")["spark.sql.shuffle.partitions"]
    '1'
    """
    small = rows <= SMALL_ROWS
    chosen = {**_ALWAYS, **(_SMALL if small else _LARGE), "spark.master": master}
    java = f"-Dlog4j2.configurationFile={Path(__file__).parent.parent / 'assets' / 'spark-log4j2.properties'}"
    if master.startswith("local"):
        chosen |= _LOCAL
        java += f" {_SMALL_JVM}" if small else ""
    chosen["spark.driver.extraJavaOptions"] = java
    return chosen


@contextmanager
def spark_session(rows: int = 0, master: str | None = None) -> Iterator[SparkSession]:
    """Give the session that is already there, or start one and end it with the block.

    Parameters
    ----------
    rows : int
        Raw rows that will be read, by which the session is tuned.
    master : str, optional
        A Spark master (``local[2]``, ``spark://host:7077``); by default ``local[2]``, or what
        ``SPARK_REMOTE`` names.

    Raises
    ------
    HarnessError
        When Spark does not start; the message names its log.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    if master is None and "SPARK_REMOTE" in os.environ:
        remote = SparkSession.builder.getOrCreate()
        try:
            yield remote
        finally:
            remote.stop()
        return
    log = Path(tempfile.mkstemp(prefix="spark-", suffix=".log")[1])
    session = _start(settings(rows, master or "local[2]"), log)
    log.unlink()  # Spark writes on; what it says matters only where it does not start
    try:
        yield session
    finally:
        _stop(session)


def _start(chosen: Mapping[str, str], log: Path) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    try:
        with log.open("ab") as out:
            gateway = launch_gateway(conf, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except Exception as error:
        raise HarnessError(
            f"Spark did not start ({type(error).__name__})", "is a JDK 17 or newer on the PATH?", str(log)
        ) from error


def _stop(session: SparkSession) -> None:
    """End the session and its JVM (PySpark alone would keep the JVM until Python ends)."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None
