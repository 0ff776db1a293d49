"""The cluster that an experiment asks for on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.backends.local.cluster import LocalCluster
from harness.experiments.clusters import Local
from harness.machine.companions import Companion
from harness.machine.servers import ServerHomes


@contextmanager
def local_cluster(
    shape: Local,
    homes: ServerHomes,
    home: Path,
    jars: Path,
    progress: Callable[[str], None],
    companions: Sequence[Companion] = (),
) -> Iterator[LocalCluster]:
    """Start the cluster that an experiment asks for, and end it with the block."""
    cluster = LocalCluster(
        homes,
        home,
        shape,
        extlib=(jars / "instrumentation.jar",),
        companions=companions,
    )
    cluster.start(progress)
    try:
        yield cluster
    finally:
        cluster.stop()
