"""Servers of a cluster of this machine that end while the rest of it goes on, and come back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from harness.backends.local.cluster import START_TIMEOUT_S, LocalCluster


@contextmanager
def lost_node(cluster: LocalCluster, name: str) -> Iterator[None]:
    """End a node with its workers for a block; Nimbus has forgotten it in the block, and knows it after it.

    It comes back with its name and Storm's identifier for it, and without what it knew of its workers. Else
    its supervisor takes dead ones for live until their last heartbeat is two minutes old
    (``supervisor.worker.timeout.secs``). Under another identifier at the same address, workers of other nodes
    that send to it would restart, by a fault of Storm 2.8.3: "A metric named ... already exists".
    """
    cluster.end_nodes([name])
    try:
        yield
    finally:
        shutil.rmtree(cluster.home / "data" / name / "workers")
        cluster.add_nodes([name])


def restart_nimbus(cluster: LocalCluster) -> None:
    """End Nimbus and start it again; returns when it knows all nodes."""
    cluster._end([server for server in cluster._servers if server.name == "nimbus"])
    nimbus = cluster._nimbus()
    nimbus.wait_ready(cluster._all_registered, START_TIMEOUT_S, cluster._servers)
