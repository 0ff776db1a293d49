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
        nodes=shape.nodes,
        slots_per_node=shape.slots_per_node,
        worker_heap_mb=shape.worker_heap_mb,
        jit=shape.worker_jit,
        extlib=(jars / "instrumentation.jar",),
        cpu_quota_cores=shape.cpu_quota_cores,
        companions=companions,
    )
    cluster.start(progress)
    try:
        yield cluster
    finally:
        cluster.stop()
