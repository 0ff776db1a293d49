"""How often the workers of a cluster of this machine were started, from their files."""

from __future__ import annotations

from harness.backends.local.cluster import LocalCluster
from harness.storm.worker_output import starts


def count_starts(cluster: LocalCluster) -> dict[str, int]:
    """Return the starts of each slot's worker; 0 for one that never had any."""
    counts = {}
    for node in cluster.nodes:
        for port in node.slots:
            log = cluster.logs / f"worker-{port}.log"
            counts[f"{node.name}:{port}"] = len(starts(log.read_text())) if log.exists() else 0
    return counts
