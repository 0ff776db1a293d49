"""Hosts of one machine made unequal for a run: CPU quotas and slowed links, as its experiment says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.host_quotas import limited
from harness.backends.hosts.slow_link import LinkEnd, slowed
from harness.backends.hosts.state import ProvisionedState
from harness.errors import UsageError
from harness.experiments.cluster_file import Hosts, LocalHosts
from harness.experiments.clusters import Provisioned

log = logging.getLogger(__name__)


def require_local(shape: Provisioned, hosts: Hosts) -> None:
    """Raise UsageError where an experiment wants hosts slower that cannot be made so."""
    key = "links" if shape.links else "cpu_quota_cores" if shape.cpu_quota_cores else ""
    if key and not isinstance(hosts, LocalHosts):
        what = f"cluster.{key}: the cluster {shape.name} has hosts of kind {hosts.kind}"
        raise UsageError(what, "hosts of kind local can be made slower, others cannot")


@contextmanager
def unequal(shape: Provisioned, state: ProvisionedState) -> Iterator[None]:
    """Put an experiment's quotas and slowed links in force while the block lasts.

    Parameters
    ----------
    shape : Provisioned
        ``cpu_quota_cores`` and ``links`` are read.
    state : ProvisionedState
        What is kept of the cluster.

    Raises
    ------
    ClusterError
        When a link cannot be slowed or a quota cannot be set, or one of them ended before the block.
    """
    network, addresses = HostNetwork(state.hosts), state.addresses()
    with ExitStack() as undo:
        for link, made in shape.links.items():
            one, other = (LinkEnd(name, addresses[name]) for name in link.split("~"))
            by = undo.enter_context(slowed(network, one, other, made.delay_ms))
            log.info("link %s: packets take %g ms longer each way, by %s", link, made.delay_ms, by)
        others = [name for name in shape.node_names if name not in shape.cpu_quota_cores]
        undo.enter_context(limited(network, shape.cpu_quota_cores, others))
        for name, cores in shape.cpu_quota_cores.items():
            log.info("%s: at most %g cores", name, cores)
        yield
