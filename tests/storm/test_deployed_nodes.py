"""The first nodes of a cluster, had again: the topology ends before the nodes that it may be on."""

from __future__ import annotations

from harness.backends.local.local_nodes import LocalNodes
from harness.machine.server_config import Ports
from harness.plans import WorkerNode
from harness.storm.deployed_nodes import NodesOfDeployment


class Cluster:
    """The nodes of a local cluster, and in order what ends."""

    def __init__(self) -> None:
        self.of = LocalNodes(Ports(), 2, 1, {})
        self.nimbus, self.ended = self, list[str]()

    @property
    def nodes(self) -> tuple[WorkerNode, ...]:
        return self.of.there

    @property
    def first_nodes(self) -> tuple[WorkerNode, ...]:
        return self.of.first

    def kill(self, name: str, wait_s: int) -> None:
        assert wait_s > 0  # spouts commit what they have emitted
        self.ended.append(name)

    def restore_nodes(self) -> None:
        self.ended += [n.name for n in self.of.there if n not in self.of.first]
        self.of.there = self.of.first


class Deployed(NodesOfDeployment):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster  # type: ignore[assignment]
        self._name = "topology"


def test_a_topology_ends_before_nodes_that_came() -> None:
    cluster = Cluster()
    cluster.of.come(*cluster.of.named("node-3"))
    assert Deployed(cluster).restore_nodes()
    assert cluster.ended == ["topology", "node-3"]
    assert cluster.nodes == cluster.first_nodes


def test_nodes_that_went_are_missed_too() -> None:
    cluster = Cluster()
    cluster.of.go(*cluster.of.named("node-2"))
    assert Deployed(cluster).restore_nodes()
    assert len(cluster.nodes) == 2


def test_a_topology_on_the_first_nodes_goes_on() -> None:
    cluster = Cluster()
    cluster.of.come(*cluster.of.named("node-3"))
    cluster.of.go(*cluster.of.named("node-3"))
    assert not Deployed(cluster).restore_nodes()
    assert cluster.ended == []
