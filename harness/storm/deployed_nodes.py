"""Worker nodes of a cluster that come and go under a topology."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ClusterError
from harness.plans import WorkerNode
from harness.storm.running_cluster import RunningCluster

COMMIT_WAIT_S = 1
"""Time for which the spouts of a topology are deactivated before it ends, as in a rebalance."""


class NodesOfDeployment:
    """Worker nodes as a deployment has them (``harness.experiments.contracts.Deployment``)."""

    _cluster: RunningCluster
    _name: str

    def nodes(self) -> tuple[WorkerNode, ...]:
        """Return the worker nodes that Nimbus knows now."""
        known = {s.address for s in self._cluster.nimbus.cluster_summary().supervisors}
        return tuple(node for node in self._cluster.possible_nodes if node.address in known)

    def spare_nodes(self) -> tuple[WorkerNode, ...]:
        """Return the nodes that may be added, in the order in which they come; empty where nodes stay."""
        return tuple(node for node in self._cluster.possible_nodes if node not in self._cluster.nodes)

    def add_nodes(self, names: Sequence[str]) -> None:
        """Start spare nodes; returns when Nimbus knows them."""
        self._cluster.add_nodes(names)

    def end_nodes(self, names: Sequence[str]) -> None:
        """End nodes without executors.

        Raises
        ------
        ClusterError
            When Nimbus has an executor on one of them; none is ended then.
        """
        used = {address for address, _ in self._cluster.nimbus.topology(self._name).slots()}
        for node in self._cluster.nodes:
            if node.name in names and node.address in used:
                raise ClusterError(f"{node.name} is not empty: it has executors of {self._name}")
        self._cluster.end_nodes(names)

    def restore_nodes(self) -> bool:
        """Have the nodes again that the cluster began with.

        Returns
        -------
        bool
            True where others were there: the topology was removed first.
        """
        if self._cluster.nodes == self._cluster.first_nodes:
            return False
        self._cluster.nimbus.kill(self._name, wait_s=COMMIT_WAIT_S)
        self._cluster.restore_nodes()
        return True
