"""A provisioned cluster as a campaign sees it: generator, receiver and metrics beside the broker.

With hosts of kind local the campaign goes into their private network as a whole, as one more host on their
bridge. Other hosts are reached over the network that they share with this machine.

Before anything is measured, the monotonic clocks of the hosts are compared with this machine's own. Where all
workers have this machine's clock, every path has a ground truth. Elsewhere messages are measured by the
broker's stamps, and only paths within a host have a ground truth.
"""

from __future__ import annotations

import json
import logging
import platform
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from harness.backends.hosts import clocks, probing
from harness.backends.hosts.clocks import HostClock
from harness.backends.hosts.data_servers import login_of, named, require_named
from harness.backends.hosts.host_faults import clocks_of, faults_of
from harness.backends.hosts.provision import broker_answers, broker_of, network, nimbus_of
from harness.backends.hosts.reach import Reach, reached
from harness.backends.hosts.state import ProvisionedState, known
from harness.backends.hosts.unequal_hosts import require_local, unequal
from harness.backends.hosts.variables import METRICS_TOKEN_FILE, PLANS_FOLDER
from harness.backends.kafka.client import Topics
from harness.errors import ClusterError, UsageError
from harness.experiments.cluster_file import ONE_OF, ClusterFile, ExistingHosts, LocalHosts, load
from harness.experiments.clusters import Provisioned
from harness.experiments.config import Experiment
from harness.experiments.step_faults import FaultMaker
from harness.machine import host_logs
from harness.machine.host_ports import address_towards
from harness.machine.server_archive import digest
from harness.machine.server_config import LOOPBACK, Ports
from harness.machine.servers import ServerHomes
from harness.machine.ssh import Login, Shell
from harness.plans import WorkerNode
from harness.storm.pinned_plans import remove_command, write_command
from harness.storm.running_cluster import FixedNodes, Kind, Left, UnwatchedStarts

log = logging.getLogger(__name__)

LOGS_WITHIN_S = 60.0
PROBES_WITHIN_S = 30.0
LOGS = (
    "sudo sh -c 'cd /var/log/harness &&"
    f" find . -type f -size -{(host_logs.MOST_FILE_BYTES >> 10) + 1}k -print0 |"
    " tar --create --null --no-recursion --ignore-failed-read --files-from=-'"
)
"""Archive of regular files alone, none too large: a sparse one of a terabyte would take all of the time."""
CORES_WITHIN_S = 30.0
MOST_APART_MS = 50.0
"""So far a host's time of day may be from this machine's: its metrics are told apart by it, in buckets of
a second and more."""


class RemoteCluster(FixedNodes):
    """A cluster on hosts that is up (``harness.storm.running_cluster.RunningCluster``).

    Parameters
    ----------
    state : ProvisionedState
        What is kept of it.
    cluster : ClusterFile
        What was asked.
    homes : ServerHomes
        Jars for submitting.
    home : Path
        Folder on this machine for what belongs to this campaign.
    found : mapping of str to HostClock
        Each host's clock.
    quota_cores : mapping of str to float
        Cores that a host may use at most, where it is under a quota.
    """

    def __init__(
        self,
        state: ProvisionedState,
        cluster: ClusterFile,
        homes: ServerHomes,
        home: Path,
        found: Mapping[str, HostClock],
        quota_cores: Mapping[str, float],
    ) -> None:
        self._login = login_of(state, cluster)
        self._state = state
        self._cluster = cluster
        self._addresses = state.addresses()
        self._hosts = reached(state, cluster)
        self.homes = homes
        self.home = home
        self.nimbus = nimbus_of(cluster)
        self.broker = broker_of(cluster)
        self.here = address_towards(self.broker.address)
        self.worker_output = UnwatchedStarts()
        first = Ports().slot_base
        self.nodes: tuple[WorkerNode, ...] = tuple(
            WorkerNode(
                name=machine.name,
                address=self._addresses[machine.name],
                # whose clock and cores they share; no machine's name has a slash
                host=platform.node() if found[machine.name].shared else f"{cluster.name}/{machine.name}",
                cores=_cores(machine.name, self._login, self._addresses[machine.name]),
                slots=tuple(range(first, first + cluster.storm.slots_per_node)),
                cpu_quota_cores=quota_cores.get(machine.name),
            )
            for machine in cluster.having("supervisor")
        )
        self.one_clock = all(found[node.name].shared for node in self.nodes)
        self.broker_ahead_ms = found[cluster.having("kafka")[0].name].offset_ms
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
        return tuple(node for node in self.nodes if not self._hosts.host_alive(node.name))

    def check(self) -> None:
        """Raise ClusterError when a host that the whole cluster needs has died."""
        needed = [m.name for m in self._cluster.hosts.machines if set(m.roles) & set(ONE_OF)]
        _require_alive(self._hosts, self._cluster.name, needed)

    def require_ready(self) -> None:
        """Raise ClusterError when a server does not answer or a supervisor is missing."""
        hint = f"harness cluster status {self._cluster.name}"
        if isinstance(self._cluster.hosts, ExistingHosts):
            hint += f"; to reach it {self.here} must be among hosts.controllers, or one of the hosts"
        if not broker_answers(self.broker):
            raise ClusterError(f"kafka at {self.broker.address} does not answer", hint)
        registered = {s.address: s.slots for s in self.nimbus.cluster_summary().supervisors}
        for node in self.nodes:
            if registered.get(node.address) != len(node.slots):
                offered = registered.get(node.address, 0)
                raise ClusterError(f"{node.name} offers {offered} slots, not {len(node.slots)}", hint)

    def require_idle(self) -> None:
        """Raise UsageError when somebody's topology shares the cluster."""
        if others := sorted(self.nimbus.cluster_summary().topologies):
            what = f"topology {others[0]} is on the cluster {self._cluster.name} already"
            raise UsageError(what, "it would share the hosts with what is measured; kill it first")

    def jar(self, topology: Path, _instrumentation: Path, /) -> Path:
        """Return the topology's jar: workers have the instrumentation in their class path."""
        return topology

    def hand_out(self, secret: str) -> str:
        """Put a secret on the hosts that run workers, whose user alone can read it; return the file's path.

        Raises
        ------
        ClusterError
            When a host does not answer.
        """
        # by that user, not by root: its folder may hold a link that leads anywhere; and by a shell's own
        # printf, whose arguments no list of processes shows
        write = f"umask 077; rm -f {METRICS_TOKEN_FILE}; cat > {METRICS_TOKEN_FILE}"
        for machine in self._cluster.having("supervisor"):
            shell = Shell(self._login, machine.name, self._addresses[machine.name])
            try:
                shell.run(f"printf '%s\\n' {shlex.quote(secret)} | runuser -u storm -- sh -c '{write}'")
            except ClusterError:  # which names the command, and so the secret
                what = f"{machine.name} does not take the token for metrics"
                raise ClusterError(what, f"harness cluster status {self._cluster.name}") from None
            finally:
                shell.close()
        return METRICS_TOKEN_FILE

    def pin(self, topology: str, text: str) -> None:
        """Put a topology's plan file where Nimbus' scheduler reads it.

        Raises
        ------
        ClusterError
            When Nimbus' host does not answer or does not take it.
        """
        self._on_nimbus(write_command(PLANS_FOLDER, topology, text), "does not take the plan")

    def unpin(self, topology: str) -> None:
        """Take a topology's plan file away; executors stay where they are until something moves them."""
        self._on_nimbus(remove_command(PLANS_FOLDER, topology), "does not remove the plan")

    def _on_nimbus(self, command: str, complaint: str) -> None:
        """Run a command as the user of Storm, whose folder may hold a link that leads anywhere."""
        (machine,) = self._cluster.having("nimbus")
        shell = Shell(self._login, machine.name, self._addresses[machine.name])
        try:
            shell.run(f"runuser -u storm -- sh -c {shlex.quote(command)}")
        except ClusterError:  # which names the command, and so the whole plan
            hint = f"harness cluster status {self._cluster.name}"
            raise ClusterError(f"{machine.name} {complaint}", hint) from None
        finally:
            shell.close()

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
            self.unpin(name)
        if left.topic:
            with Topics(self.broker.address, self.broker.trust) as topics:
                for name in topics.names() & set(left.topic):
                    topics.delete(name)
        self._state.write_left(Left())

    def round_trips(self, since_ms: int, until_ms: int) -> pa.Table:
        """Fetch the round trips between worker nodes that their probes saw in a span of epoch ms.

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
            if self._hosts.host_alive(name)
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

    def faults(self, own: Mapping[str, int], /) -> FaultMaker:
        """Return what makes faults on the hosts."""
        return faults_of(self._state, self._cluster, self.nodes, own)

    def movable_clocks(self, nodes: Sequence[str], /) -> AbstractContextManager[None]:
        """Let workers of nodes that start in the block have a clock that faults can move.

        Raises
        ------
        HarnessError
            When a host is gone, or this machine has nothing that moves clocks.
        """
        return clocks_of(self._state, self._cluster, self.nodes, nodes, self._hosts.host_alive)

    def fetch_logs(self) -> None:
        """Copy the hosts' logs here, as far as they can be had."""
        for name, address in self._addresses.items():
            if not self._hosts.host_alive(name):
                continue
            target = self.logs / name
            target.mkdir(exist_ok=True)
            try:
                host_logs.tell(name, self._unpack_logs(address, target))
            except OSError as error:  # the disk is full: those of the other hosts would find no room
                log.warning("logs of %s cannot be kept: %s", name, error)
                return

    def _unpack_logs(self, address: str, target: Path) -> tuple[str, ...]:
        """Unpack a host's logs while they arrive, and return what was left out."""
        with subprocess.Popen(
            self._login.command(address, LOGS),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as sent:
            assert sent.stdout is not None  # asked for above
            too_long = threading.Timer(LOGS_WITHIN_S, sent.kill)
            too_long.start()
            try:
                return host_logs.unpack(sent.stdout, target)
            finally:
                too_long.cancel()
                sent.kill()


def require_provisioned(shape: Provisioned, jars: Path) -> tuple[ProvisionedState, ClusterFile]:
    """Return the provisioned cluster that an experiment names.

    Parameters
    ----------
    shape : harness.experiments.clusters.Provisioned
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
    state, command = ProvisionedState(shape.name), f"harness provision {shape.file}"
    if shape.name not in known():
        raise UsageError(f"the cluster {shape.name} is not provisioned", command)
    record = state.record()
    cluster = record.cluster
    if not isinstance(cluster.hosts, LocalHosts | ExistingHosts):
        raise UsageError(
            f"the cluster {shape.name} has hosts of kind {cluster.hosts.kind}, in a network of their own",
            "run experiments from a host in that network, to which they are of kind existing",
        )
    require_local(shape, cluster.hosts)
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
    _require_alive(reached(state, cluster), shape.name, [m.name for m in cluster.hosts.machines], command)
    return state, cluster


def use_of(experiment: Experiment, shape: Provisioned, jars: Path) -> str:
    """Return, in a line, the parts of a provisioned cluster that an experiment would use.

    Raises
    ------
    HarnessError
        As ``require_provisioned``, and when the cluster lacks a server that the experiment names.
    """
    state, cluster = require_provisioned(shape, jars)
    require_named(experiment, shape.file, state.record())
    kept = {"influxdb": "metrics", "neo4j": "plans"}
    stores = ", ".join(f"{kept[s]} in {s} on {cluster.having(s)[0].name}" for s in named(experiment))
    nodes = ", ".join(m.name for m in cluster.having("supervisor"))
    broker = cluster.having("kafka")[0].name
    where = "in the network" if isinstance(cluster.hosts, LocalHosts) else "on this machine, beside that"
    return (
        f"on the cluster {shape.name}: workers on {nodes}, {shape.slots_per_node} slots each; generator,"
        f" receiver and metrics {where} of the broker on {broker}{stores and '; '}{stores}"
    )


def describe(shape: Provisioned, jars: Path) -> dict[str, object]:
    """Return a provisioned cluster's part of ``environment.json``: the cluster as asked, and its clocks now.

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
        "servers_niceness": json.loads(state.plain_variables.read_text(encoding="utf-8"))["niceness"],
        "clocks": {name: clock._asdict() for name, clock in found.items()},
    }


@contextmanager
def remote_cluster(
    shape: Provisioned, homes: ServerHomes, home: Path, jars: Path, progress: Callable[[str], None]
) -> Iterator[RemoteCluster]:
    """Go to a provisioned cluster, and come back with the block; nobody else uses or changes it meanwhile.

    Parameters
    ----------
    shape : harness.experiments.clusters.Provisioned
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
        When one of its hosts or servers does not answer, or a host's clock is too far from this machine's.
    """
    state, asked = require_provisioned(shape, jars)
    progress(f"going to the cluster {shape.name}")
    with state.locked(), network(state, asked), unequal(shape, state):
        found = _clocks(state, asked)
        _require_comparable(found, isinstance(asked.hosts, LocalHosts))
        cluster = RemoteCluster(state, asked, homes, home, found, shape.cpu_quota_cores)
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


def _clocks(state: ProvisionedState, cluster: ClusterFile) -> dict[str, HostClock]:
    login = login_of(state, cluster)
    return {
        name: clocks.ask(name, login.command(address, clocks.READER))
        for name, address in state.addresses().items()
    }


def _require_comparable(found: Mapping[str, HostClock], one_machine: bool) -> None:
    """Raise ClusterError when a host's clocks are not what its times are taken for.

    Those of hosts that are this machine's are its own. Of others the time of day must be near.
    """
    for name, clock in found.items():
        log.info("clock of %s: %+.4f ms ± %.4f, shared: %s", name, *clock)
    if apart := [name for name, clock in found.items() if not clock.shared and one_machine]:
        raise ClusterError(
            f"{', '.join(apart)}: a clock of its own, not this machine's",
            "its messages' times could not be compared with ours",
        )
    for name, clock in found.items():
        if abs(clock.offset_ms) > MOST_APART_MS + clock.uncertainty_ms:
            raise ClusterError(
                f"{name}: its time of day is {clock.offset_ms:+.0f} ms from this machine's",
                f"let NTP keep both: {MOST_APART_MS:g} ms are allowed",
            )


def _cores(name: str, login: Login, address: str) -> int:
    try:
        done = subprocess.run(
            login.command(address, "nproc"),
            capture_output=True,
            text=True,
            check=False,
            timeout=CORES_WITHIN_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{name} does not say within {CORES_WITHIN_S:g} s how many cores it has") from None
    if done.returncode:
        raise ClusterError(f"{name} does not say how many cores it has: {done.stderr.strip()}")
    return int(done.stdout)


def _require_alive(hosts: Reach, cluster: str, names: Iterable[str], command: str = "") -> None:
    hint = f"{command or 'harness provision'} makes it anew; a run goes on with --resume"
    if not hosts.alive:
        raise ClusterError(f"the hosts' sandbox of the cluster {cluster} is gone", hint)
    for name in names:
        if not hosts.host_alive(name):
            raise ClusterError(f"host {name} of the cluster {cluster} is gone", hint)
