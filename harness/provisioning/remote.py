"""A provisioned cluster as a campaign sees it: generator, receiver and metrics beside the broker.

Hosts of kind local share this machine's clock, which is tried before anything is measured, so every path has
a ground truth there. The campaign goes into their private network as a whole, one more host on their bridge.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.backends.host_network import HostNetwork
from harness.backends.kafka import Topics
from harness.backends.server_archive import digest
from harness.backends.server_config import LOOPBACK, Ports
from harness.backends.server_process import kafka_answers
from harness.backends.servers import ServerHomes
from harness.deployment import Kind
from harness.errors import ClusterError, UsageError
from harness.experiments.config import Experiment, LocalCluster
from harness.plans import WorkerNode
from harness.provisioning import clocks, probing
from harness.provisioning.clocks import HostClock
from harness.provisioning.config import ONE_OF, Cluster, LocalHosts, load
from harness.provisioning.data_servers import login_of, named, require_named
from harness.provisioning.provision import bootstrap_of, network, nimbus_of
from harness.provisioning.state import Left, State, known

log = logging.getLogger(__name__)

LOGS_WITHIN_S = 60.0
PROBES_WITHIN_S = 30.0
LOGS = "sudo tar --create --directory /var/log/harness ."


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
        assert isinstance(cluster.hosts, LocalHosts), "required before"
        self._login = login_of(state, cluster)
        self._state = state
        self._cluster = cluster
        self._addresses = state.addresses()
        self._network = HostNetwork(state.hosts)
        self.homes = homes
        self.home = home
        self.here = cluster.hosts.gateway
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

    @property
    def lost(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that are gone, while the cluster goes on without them."""
        return tuple(node for node in self.nodes if not self._network.host_alive(node.name))

    def check(self) -> None:
        """Raise ClusterError when a host that the whole cluster needs has died."""
        needed = [m.name for m in self._cluster.hosts.machines if set(m.roles) & set(ONE_OF)]
        _require_alive(self._network, self._cluster.name, needed)

    def require_ready(self) -> None:
        """Raise ClusterError when a server does not answer or a supervisor is missing."""
        hint = f"harness cluster status {self._cluster.name}"
        registered = {s.address: s.slots for s in self.nimbus.cluster_summary().supervisors}
        for node in self.nodes:
            if registered.get(node.address) != len(node.slots):
                offered = registered.get(node.address, 0)
                raise ClusterError(f"{node.name} offers {offered} slots, not {len(node.slots)}", hint)
        host, _, port = self.bootstrap.rpartition(":")
        if not kafka_answers(host, int(port)):
            raise ClusterError(f"kafka at {self.bootstrap} does not answer", hint)

    def require_idle(self) -> None:
        """Raise UsageError when somebody's topology shares the cluster."""
        if others := sorted(self.nimbus.cluster_summary().topologies):
            what = f"topology {others[0]} is on the cluster {self._cluster.name} already"
            raise UsageError(what, "it would share the hosts with what is measured; kill it first")

    def remember(self, kind: Kind, name: str) -> None:
        """Take note of what is to be removed from the cluster, by the next run if this one is killed."""
        left = self._state.left()
        there: tuple[str, ...] = getattr(left, kind)
        if name not in there:
            self._state.write_left(left.model_copy(update={kind: (*there, name)}))

    def clear(self) -> None:
        """Remove what runs have put on the cluster, and nothing else.

        Raises
        ------
        ClusterError
            When nimbus or the broker does not answer.
        """
        left = self._state.left()
        for name in left.topology:
            self.nimbus.kill(name)
        if left.topic:
            with Topics(self.bootstrap) as topics:
                for name in topics.names() & set(left.topic):
                    topics.delete(name)
        self._state.write_left(Left())

    def round_trips(self, since_ms: int, until_ms: int) -> pa.Table:
        """Fetch what the probes of the worker nodes saw of each other in a span of epoch ms.

        Those of a node that is gone or does not answer are missing, which the log says.
        """
        probed = {m.name for m in self._cluster.having("probes")} & {node.name for node in self.nodes}
        command = probing.reader(since_ms, until_ms)
        asked = {
            name: subprocess.Popen(
                self._login.command(self._addresses[name], command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
            for name in sorted(probed)
            if self._network.host_alive(name)
        }
        said = []
        for name, process in asked.items():
            try:
                out, err = process.communicate(timeout=PROBES_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            if process.returncode == 0:
                said.append(out)
            else:
                log.warning("the probes of %s cannot be read: %s", name, err.strip() or "no answer")
        return probing.rows("".join(said), probed)

    def fetch_logs(self) -> None:
        """Copy the hosts' logs here, as far as they can be had."""
        for name, address in self._addresses.items():
            if not self._network.host_alive(name):
                continue
            target = self.logs / name
            target.mkdir(exist_ok=True)
            unpack = ["tar", "--extract", "--no-same-owner", "--directory", str(target)]
            with suppress(OSError, subprocess.TimeoutExpired):
                sent = subprocess.run(
                    self._login.command(address, LOGS),
                    capture_output=True,
                    check=False,
                    timeout=LOGS_WITHIN_S,
                    stdin=subprocess.DEVNULL,
                )
                subprocess.run(unpack, input=sent.stdout, capture_output=True, check=False)


class _Unwatched:
    """Starts of workers on other hosts, which nobody watches: only that a plan is not whole is seen."""

    def mark(self) -> None:
        """Do nothing."""

    def check(self, ports: Iterable[int], now_s: float) -> None:
        """Do nothing."""


def require_provisioned(shape: LocalCluster, jars: Path) -> tuple[State, Cluster]:
    """Return the provisioned cluster that an experiment names.

    Parameters
    ----------
    shape : harness.experiments.config.LocalCluster
        What the experiment says of it.
    jars : Path
        Folder of ``instrumentation.jar``.

    Raises
    ------
    UsageError
        When there is none, it is half-provisioned or not as its file and this version of the harness would
        make it, or no experiment can run on its hosts.
    ClusterError
        When one of its hosts is gone.
    """
    state, command = State(shape.name), f"harness provision {shape.file}"
    if shape.name not in known():
        raise UsageError(f"the cluster {shape.name} is not provisioned", command)
    record = state.record()
    cluster = record.cluster
    if not isinstance(cluster.hosts, LocalHosts):
        raise UsageError(
            f"the cluster {shape.name} has hosts of kind {cluster.hosts.kind}: experiments need kind local",
            "generator and receiver would have to run beside its broker, which they cannot yet",
        )
    if record.phase != "ready":
        raise UsageError(f"the cluster {shape.name} is half-provisioned", f"{command} goes on")
    if record.instrumentation != digest(jars / "instrumentation.jar"):
        raise UsageError(f"the cluster {shape.name} is of another version of the harness", command)
    if (file := Path(shape.file)).is_file() and load(file) != cluster:  # of a resumed run it may be gone
        raise UsageError(f"the cluster {shape.name} is not as {file} says", f"{command} changes it")
    there = (len(cluster.having("supervisor")), cluster.storm.slots_per_node, cluster.storm.worker_heap_mb)
    if there != (asked := (shape.nodes, shape.slots_per_node, shape.worker_heap_mb)):
        what = f"the cluster {shape.name} has nodes, slots and heap {there}, not the experiment's {asked}"
        raise UsageError(what, command)
    _require_alive(HostNetwork(state.hosts), shape.name, [m.name for m in cluster.hosts.machines], command)
    return state, cluster


def use_of(experiment: Experiment, jars: Path) -> str:
    """Return what an experiment would use of a provisioned cluster, in a line.

    Raises
    ------
    HarnessError
        As ``require_provisioned``, and when the cluster lacks a server that the experiment names.
    """
    shape = experiment.cluster
    state, cluster = require_provisioned(shape, jars)
    require_named(experiment, state.record())
    kept = {"influxdb": "metrics", "neo4j": "plans"}
    stores = ", ".join(f"{kept[s]} in {s} on {cluster.having(s)[0].name}" for s in named(experiment))
    nodes = ", ".join(m.name for m in cluster.having("supervisor"))
    broker = cluster.having("kafka")[0].name
    return (
        f"on the cluster {shape.name}: workers on {nodes}, {shape.slots_per_node} slots each; generator,"
        f" receiver and metrics in the network of the broker on {broker}{stores and '; '}{stores}"
    )


def describe(shape: LocalCluster, jars: Path) -> dict[str, Any]:
    """Return what ``environment.json`` says of a provisioned cluster: what was asked, and its clocks by now.

    Raises
    ------
    HarnessError
        As ``require_provisioned``, and when a host does not answer.
    """
    state, cluster = require_provisioned(shape, jars)
    with network(state, cluster):
        found = _clocks(state, cluster)
    return {
        "provisioned": cluster.model_dump(mode="json"),
        "servers_niceness": json.loads(state.variables.read_text(encoding="utf-8"))["niceness"],
        "clocks": {name: clock._asdict() for name, clock in found.items()},
    }


@contextmanager
def remote_cluster(
    shape: LocalCluster, homes: ServerHomes, home: Path, jars: Path, progress: Callable[[str], None]
) -> Iterator[RemoteCluster]:
    """Go to a provisioned cluster, and come back with the block; nobody else uses or changes it meanwhile.

    Parameters
    ----------
    shape : harness.experiments.config.LocalCluster
        What an experiment says of it: name, nodes and slots.
    homes : ServerHomes
        Jars for submitting.
    home : Path
        Folder on this machine for what belongs to this campaign.
    jars : Path
        Folder of ``instrumentation.jar``.
    progress : callable
        Told what is being done.

    Raises
    ------
    UsageError
        As ``require_provisioned``, and when somebody uses the cluster.
    ClusterError
        When one of its hosts or servers does not answer, or a host has a clock of its own.
    """
    state, asked = require_provisioned(shape, jars)
    progress(f"going to the cluster {shape.name}")
    with state.locked(), network(state, asked):
        _require_one_clock(_clocks(state, asked))
        cluster = RemoteCluster(state, asked, homes, home)
        cluster.require_ready()
        cluster.clear()
        cluster.require_idle()
        try:
            yield cluster
        except ClusterError:
            cluster.fetch_logs()
            raise
        finally:
            with suppress(ClusterError):  # what is gone needs no clearing
                cluster.clear()


def _clocks(state: State, cluster: Cluster) -> dict[str, HostClock]:
    login = login_of(state, cluster)
    return {
        name: clocks.ask(name, login.command(address, clocks.READER))
        for name, address in state.addresses().items()
    }


def _require_one_clock(found: Mapping[str, HostClock]) -> None:
    """Raise ClusterError when a host's monotonic clock is not ours, from which its times are subtracted."""
    for name, clock in found.items():
        log.info("clock of %s: %+.4f ms ± %.4f, shared: %s", name, *clock)
    if apart := [name for name, clock in found.items() if not clock.shared]:
        raise ClusterError(
            f"{', '.join(apart)}: a clock of its own, not this machine's",
            "its messages' times could not be compared with ours",
        )


def _require_alive(network: HostNetwork, cluster: str, names: Iterable[str], command: str = "") -> None:
    hint = f"{command or 'harness provision'} makes it anew; a run goes on with --resume"
    if not network.alive:
        raise ClusterError(f"the hosts' sandbox of the cluster {cluster} is gone", hint)
    for name in names:
        if not network.host_alive(name):
            raise ClusterError(f"host {name} of the cluster {cluster} is gone", hint)
