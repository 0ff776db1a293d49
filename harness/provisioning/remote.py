"""A provisioned cluster as a campaign sees it: generator, receiver and metrics beside the broker.

Hosts of kind local share this machine's clock, so every path has a ground truth there. The campaign goes into
their private network as a whole, as one more host on their bridge.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.backends.host_network import HostNetwork
from harness.backends.server_config import LOOPBACK, Ports
from harness.backends.server_process import kafka_answers
from harness.backends.servers import ServerHomes
from harness.errors import ClusterError, UsageError
from harness.plans import WorkerNode
from harness.provisioning.config import Cluster, LocalHosts
from harness.provisioning.provision import bootstrap_of, network, nimbus_of
from harness.provisioning.state import State

LOGS_TIMEOUT_S = 60.0


class RemoteCluster:
    """A cluster on local hosts that is up (``harness.deployment.RunningCluster``).

    Parameters
    ----------
    state : State
        What is kept of it.
    cluster : Cluster
        What was asked.
    homes : ServerHomes
        Jars for submitting.
    home : Path
        Folder on this machine for what belongs to this campaign.
    """

    def __init__(self, state: State, cluster: Cluster, homes: ServerHomes, home: Path) -> None:
        hosts = cluster.hosts
        if not isinstance(hosts, LocalHosts):
            raise UsageError(
                f"cluster {cluster.name} has hosts of kind {hosts.kind}: experiments run on kind local only",
                "generator and receiver would have to run beside its broker, which they cannot yet",
            )
        self._state = state
        self._cluster = cluster
        self._addresses = state.addresses()
        self._network = HostNetwork(state.hosts)
        self.homes = homes
        self.home = home
        self.here = hosts.gateway
        self.nimbus = nimbus_of(cluster)
        self.bootstrap = bootstrap_of(cluster)
        self.worker_output = _Unwatched()
        first = Ports().slot_base
        self.nodes: tuple[WorkerNode, ...] = tuple(
            WorkerNode(
                name=machine.name,
                address=self._addresses[machine.name],
                host=platform.node(),  # whose cores and clock they share
                cores=os.cpu_count() or 1,
                slots=tuple(range(first, first + cluster.storm.slots_per_node)),
            )
            for machine in cluster.having("supervisor")
        )
        self.logs.mkdir(parents=True, exist_ok=True)
        names = "".join(f"{address} {name}\n" for name, address in self._addresses.items())
        self.hosts.write_text(f"{LOOPBACK} localhost {platform.node()}\n{names}")

    @property
    def logs(self) -> Path:
        """Folder of logs on this machine."""
        return self.home / "logs"

    @property
    def hosts(self) -> Path:
        """Hosts file for Java programs that run beside the servers."""
        return self.home / "hosts"

    def check(self) -> None:
        """Raise ClusterError when a host has died."""
        if not self._network.alive:
            raise ClusterError(
                "the hosts' sandbox is gone", f"harness provision makes {self._cluster.name} anew"
            )
        for machine in self._cluster.hosts.machines:
            if not self._network.host_alive(machine.name):
                what = f"host {machine.name} of cluster {self._cluster.name} is gone"
                raise ClusterError(what, "harness provision makes it anew, then resume the run")

    def require_ready(self) -> None:
        """Raise ClusterError when a server does not answer or a supervisor is missing."""
        self.check()
        registered = {s.address: s.slots for s in self.nimbus.cluster_summary().supervisors}
        for node in self.nodes:
            if registered.get(node.address) != len(node.slots):
                what = f"{node.name} offers {registered.get(node.address, 0)} slots, not {len(node.slots)}"
                raise ClusterError(what, f"harness cluster status {self._cluster.name}")
        host, _, port = self.bootstrap.rpartition(":")
        if not kafka_answers(host, int(port)):
            what = f"kafka at {self.bootstrap} does not answer"
            raise ClusterError(what, f"harness cluster status {self._cluster.name}")

    def fetch_logs(self) -> None:
        """Copy the hosts' logs here, as far as they can be had."""
        tar = shutil.which("tar")
        key = self._state.key(self._cluster)
        options = ["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-i", str(key)]
        options += ["-o", f"UserKnownHostsFile={self._state.known_hosts}"]
        for name, address in self._addresses.items():
            if tar is None or not self._network.host_alive(name):
                continue
            login = f"{self._cluster.hosts.ssh_user}@{address}"
            command = ["ssh", *options, login, "sudo tar --create --directory /var/log/harness ."]
            target = self.logs / name
            target.mkdir(exist_ok=True)
            try:
                sent = subprocess.run(
                    command,
                    capture_output=True,
                    check=False,
                    timeout=LOGS_TIMEOUT_S,
                    stdin=subprocess.DEVNULL,
                )
                unpack = [tar, "--extract", "--no-same-owner", "--directory", str(target)]
                subprocess.run(unpack, input=sent.stdout, capture_output=True, check=False)
            except subprocess.TimeoutExpired:
                continue


class _Unwatched:
    """Starts of workers on other hosts, which nobody watches: only that a plan is not whole is seen."""

    def mark(self) -> None:
        """Do nothing."""

    def check(self, ports: Iterable[int], now_s: float) -> None:
        """Do nothing."""


@contextmanager
def remote_cluster(
    name: str, homes: ServerHomes, home: Path, progress: Callable[[str], None]
) -> Iterator[RemoteCluster]:
    """Go to a provisioned cluster, and come back with the block.

    Raises
    ------
    UsageError
        When there is no such cluster, it is half-provisioned, or no experiment can run on its hosts.
    ClusterError
        When one of its servers does not answer.
    """
    state = State(name)
    record = state.record()
    if record.phase != "ready":
        raise UsageError(f"the cluster {name} is half-provisioned", "harness provision goes on")
    progress(f"going to the cluster {name}")
    with network(state, record.cluster):
        cluster = RemoteCluster(state, record.cluster, homes, home)
        cluster.require_ready()
        try:
            yield cluster
        except ClusterError:
            cluster.fetch_logs()
            raise
