"""Presence of a cluster's hosts, whatever their kind."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.state import ProvisionedState
from harness.experiments.cluster_file import ClusterFile, LocalHosts
from harness.machine.host_ports import HostPorts


class Reach(Protocol):
    """The hosts, as seen from this machine."""

    @property
    def alive(self) -> bool:
        """True where the network or sandbox that all hosts are in is there."""

    def host_alive(self, name: str) -> bool:
        """Return True if a host is there."""


def reached(state: ProvisionedState, cluster: ClusterFile) -> Reach:
    """Return how the hosts of a cluster are looked at."""
    if isinstance(cluster.hosts, LocalHosts):
        return HostNetwork(state.hosts)
    return _ports(tuple(sorted(state.addresses().items())), cluster.hosts.port)


@cache
def _ports(addresses: tuple[tuple[str, str], ...], port: int) -> HostPorts:
    """Return one for all who look at the same hosts: it knows which were there, and asks for all of them."""
    return HostPorts(dict(addresses), port)
