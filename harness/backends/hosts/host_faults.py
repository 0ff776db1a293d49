"""Faults on the hosts of a provisioned cluster that are namespaces of this machine.

Their processes are this machine's as well, so they are found and stopped from here. All of it ends with the
fault, and also when this process is killed: the hosts outlive a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from harness.backends import worker_clocks
from harness.backends.faults import Commands, clock_moved, done_to, first, workers
from harness.backends.hosts.full_disk import filled
from harness.backends.hosts.host_network import HostNetwork
from harness.backends.hosts.slow_link import LinkEnd, slowed
from harness.backends.hosts.state import ProvisionedState
from harness.backends.hosts.variables import CLOCK_FOLDER
from harness.experiments.cluster_file import ClusterFile, ClusterRole, LocalHosts
from harness.experiments.step_faults import Fault, FaultMaker, NoFaults
from harness.plans import WorkerNode

SERVERS: Mapping[str, tuple[ClusterRole, str]] = {
    "broker": ("kafka", "kafka.Kafka"),
    "nimbus": ("nimbus", "-Ddaemon.name=nimbus"),
    "zookeeper": ("zookeeper", "-Dlogfile.name=zookeeper.log"),
}
"""Where a server of the whole cluster runs, and a word of its command line (``infra/ansible``)."""
SUPERVISOR = "-Ddaemon.name=supervisor"


class HostFaults:
    """Makes faults on local hosts (a ``harness.experiments.step_faults.FaultMaker``).

    Parameters
    ----------
    network : HostNetwork
        The sandbox of the hosts.
    cluster : ClusterFile
        What was asked.
    hosts : LocalHosts
        Its hosts.
    nodes : sequence of WorkerNode
    own : mapping of str to int
        Processes of the harness itself by what they are: ``generator``, ``receiver``.
    """

    def __init__(
        self,
        network: HostNetwork,
        cluster: ClusterFile,
        hosts: LocalHosts,
        nodes: Sequence[WorkerNode],
        own: Mapping[str, int],
    ) -> None:
        self._network = network
        self._servers = {p: (cluster.having(role)[0].name, word) for p, (role, word) in SERVERS.items()}
        sizes: Mapping[str, int] = hosts.disk_mb.model_dump()
        self._disk_mb = {m.name: sizes[m.size] for m in hosts.machines}
        self._ends = {node.name: LinkEnd(node.name, node.address) for node in nodes}
        self._slots = {node.name: node.slots for node in nodes}
        self._own = dict(own)

    @contextmanager
    def made(self, fault: Fault) -> Iterator[str]:
        """Make a fault for a block, and give what was done to what."""
        if fault.slow_link and fault.delay_ms:
            one, other = (self._ends[name] for name in fault.nodes)
            with slowed(self._network, one, other, fault.delay_ms) as by:
                yield f"{fault.what} ({by})"
        elif fault.fill_disk:
            root, disk_mb = self._network.root(fault.fill_disk), self._disk_mb[fault.fill_disk]
            with filled(fault.fill_disk, root, disk_mb) as taken:
                yield f"{fault.what} ({taken >> 20} of {disk_mb} MB were free)"
        elif fault.skew_clock:
            folder = clock_folder(self._network, fault.skew_clock)
            with clock_moved(fault, folder, self._workers(fault.skew_clock)) as done:
                yield done
        else:
            with done_to(fault, self.find(fault)) as done:
                yield done

    def find(self, fault: Fault) -> int:
        """Return the process that a fault is for.

        Raises
        ------
        ClusterError
            When there is none, or its host is gone.
        """
        part, node = fault.part or "", fault.node or ""
        if part in self._own:
            return self._own[part]
        if part == "worker":
            return first(fault, self._workers(node))
        host, word = (node, SUPERVISOR) if part == "supervisor" else self._servers[part]
        return first(fault, (pid for pid, command in self._commands(host) if word in command))

    def _workers(self, node: str) -> list[int]:
        return workers(self._commands(node), self._slots[node])

    def _commands(self, host: str) -> Commands:
        for pid in self._network.processes(host):
            with suppress(psutil.NoSuchProcess):
                yield pid, psutil.Process(pid).cmdline()


def clock_folder(network: HostNetwork, node: str) -> Path:
    """Return the folder that moves the clocks of a host's workers, as seen from outside.

    Raises
    ------
    ClusterError
        When the host is gone.
    """
    return network.root(node) / CLOCK_FOLDER.removeprefix("/")


def faults_of(
    state: ProvisionedState, cluster: ClusterFile, nodes: Sequence[WorkerNode], own: Mapping[str, int]
) -> FaultMaker:
    """Return what makes faults on a provisioned cluster: none where its hosts are not of kind ``local``."""
    if not isinstance(cluster.hosts, LocalHosts):
        return NoFaults()
    return HostFaults(HostNetwork(state.hosts), cluster, cluster.hosts, nodes, own)


def clocks_of(
    state: ProvisionedState,
    cluster: ClusterFile,
    nodes: Sequence[WorkerNode],
    skewed: Sequence[str],
    alive: Callable[[str], bool],
) -> AbstractContextManager[None]:
    """Let workers of skewed nodes have a movable clock in a block; no clock moves where no faults are made.

    Raises
    ------
    HarnessError
        When the host of a skewed node is gone, or this machine has nothing that moves clocks.
    """
    if not isinstance(cluster.hosts, LocalHosts):
        return nullcontext()
    network = HostNetwork(state.hosts)
    there = [n.name for n in nodes if n.name in skewed or alive(n.name)]
    return worker_clocks.movable({name: clock_folder(network, name) for name in there}, skewed)
