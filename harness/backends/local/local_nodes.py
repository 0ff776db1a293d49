"""Worker nodes of a cluster of this machine: those that it began with, and those that come and go."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from harness.machine.server_config import MOST_NODES, Ports, node_address
from harness.plans import WorkerNode


class LocalNodes:
    """Descriptions of all nodes that the ports of this machine allow, and which of them are there.

    Parameters
    ----------
    ports : Ports
    nodes, slots_per_node : int
        Worker nodes that the cluster begins with, and workers that each may run.
    quota_cores : mapping
        CPU that a node's workers may use together, by node name. Nodes beyond the first are like the last of
        these.

    Examples
    --------
    >>> nodes = LocalNodes(Ports(), 2, 1, {"node-2": 0.5})
    >>> nodes.possible[2].name, nodes.possible[2].slots, nodes.possible[2].cpu_quota_cores
    ('node-3', (6900,), 0.5)
    """

    def __init__(
        self, ports: Ports, nodes: int, slots_per_node: int, quota_cores: Mapping[str, float]
    ) -> None:
        last = quota_cores.get(f"node-{nodes}")
        self.possible = tuple(
            WorkerNode(
                name=f"node-{i + 1}",
                address=node_address(i),
                host=platform.node(),
                cores=os.cpu_count() or 1,
                slots=ports.slots(i, slots_per_node),
                cpu_quota_cores=quota_cores.get(f"node-{i + 1}") if i < nodes else last,
            )
            for i in range(MOST_NODES)
        )
        self.first = self.there = self.possible[:nodes]

    def number(self, node: WorkerNode) -> int:
        """Return a node's number, from 0."""
        return self.possible.index(node)

    def named(self, *names: str) -> tuple[WorkerNode, ...]:
        """Return the nodes of these names."""
        return tuple(node for node in self.possible if node.name in names)

    def come(self, *nodes: WorkerNode) -> None:
        """Count nodes among those that are there."""
        self.there = tuple(node for node in self.possible if node in {*self.there, *nodes})

    def go(self, *nodes: WorkerNode) -> None:
        """Count them no longer."""
        self.there = tuple(node for node in self.there if node not in nodes)
