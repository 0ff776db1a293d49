"""A Storm cluster that somebody else runs, as a campaign sees it.

Nothing of the cluster is changed: the instrumentation travels inside the submitted jar. A run puts a topology
and two topics there. They are noted on this machine, and taken away at the run's end or by the next run.
"""

from __future__ import annotations

import hashlib
import logging
import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil
import pyarrow as pa

from harness.backends.kafka.client import Producer, Topics, require_reachable
from harness.backends.running.carried_jar import TOKEN_ENTRY, carry
from harness.errors import ClusterError, UsageError
from harness.experiments.clusters import FoundNode, Running
from harness.experiments.step_faults import NoFaults
from harness.machine.broker import Broker
from harness.machine.host_ports import address_towards
from harness.machine.named_paths import user_folder
from harness.machine.servers import ServerHomes
from harness.machine.whole_files import write_atomically
from harness.plans import WorkerNode
from harness.schemas import METRICS
from harness.storm.nimbus import PATIENCE_S, ClusterState, Nimbus
from harness.storm.running_cluster import FixedNodes, Kind, Left, UnwatchedStarts

log = logging.getLogger(__name__)

TRIED = ("2.6.", "2.7.", "2.8.")
"""Versions of Storm that this was tried with; other 2.x are warned of."""
DEFAULT_PORT = 6700
"""Storm's first port of workers."""
STAMPED = 10
"""Records by which the broker's time of day is compared with this machine's."""
ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True)
class FoundCluster:
    """A cluster as its Nimbus describes it.

    Attributes
    ----------
    version : str
        Storm's.
    nodes : tuple of FoundNode
        Its worker nodes.
    free_slots : int
        Slots that no topology uses.
    others : tuple of str
        Names of the topologies on it.
    """

    version: str
    nodes: tuple[FoundNode, ...]
    free_slots: int
    others: tuple[str, ...]


def nimbus_of(shape: Running, patience_s: float = PATIENCE_S) -> Nimbus:
    """Return a client of the cluster's Nimbus."""
    host, _, port = shape.nimbus.rpartition(":")
    return Nimbus(host, int(port), patience_s=patience_s)


def look(shape: Running, *, broker: bool = True) -> FoundCluster:
    """Ask Nimbus which nodes and slots a cluster has.

    Parameters
    ----------
    broker : bool
        Whether its Kafka has to answer, too.

    Raises
    ------
    UsageError
        When it is of a version that this cannot use.
    ClusterError
        When Nimbus or the broker does not answer, or no supervisor has registered.
    """
    nimbus = nimbus_of(shape)
    state = nimbus.cluster_summary()
    require_usable(state, shape)
    if broker:
        require_reachable(shape.kafka)
    ports = nimbus.settings().get("supervisor.slots.ports")
    offered = ports if isinstance(ports, list) else []
    return FoundCluster(
        version=state.version,
        nodes=tuple(
            FoundNode(
                name=s.address,
                address=s.address,
                # a supervisor's own ports are not told; who runs a cluster gives all of them the same
                slots=tuple(offered) if len(offered) == s.slots else _ports(s.slots),
                cores=float(psutil.cpu_count() or 1) if _is_here(s.address) else s.cores,
                here=_is_here(s.address),
            )
            for s in sorted(state.supervisors, key=lambda s: s.address)
        ),
        free_slots=sum(s.slots - s.used for s in state.supervisors),
        others=tuple(sorted(state.topologies)),
    )


def require_free(found: FoundCluster, shape: Running, workers: int) -> None:
    """Raise UsageError where fewer slots are free than a step takes; warn of what may disturb a run."""
    warn_untried(found)
    if found.free_slots < workers:
        used = f"{', '.join(found.others)} use the others" if found.others else "it has no more"
        what = f"{found.free_slots} slots of the cluster at {shape.nimbus} are free, not {workers}"
        raise UsageError(what, used)
    if found.others:
        log.warning("other topologies share the cluster: %s", ", ".join(found.others))


def warn_untried(found: FoundCluster) -> None:
    """Warn of a version of Storm that nobody has tried."""
    if not found.version.startswith(TRIED):
        tried = ", ".join(f"{version}x" for version in TRIED)
        log.warning("Storm %s was not tried: %s were", found.version, tried)


def require_usable(state: ClusterState, shape: Running) -> None:
    """Raise where a cluster cannot be measured, whoever asks.

    Raises
    ------
    UsageError
        When its Storm is not 2.x, or two of its supervisors have one name.
    ClusterError
        When it has no supervisor.
    """
    if not state.version.startswith("2."):
        what = f"cluster.nimbus: {shape.nimbus} is Storm {state.version or 'of no version that it tells'}"
        raise UsageError(what, "2.x can be measured")
    if not state.supervisors:
        raise ClusterError(f"nimbus at {shape.nimbus} knows no supervisor", "is the cluster up?")
    addresses = [s.address for s in state.supervisors]
    if twice := sorted({a for a in addresses if addresses.count(a) > 1}):
        what = f"two supervisors of the cluster are called {twice[0]}, so executors cannot be told apart"
        raise UsageError(what, "give each a storm.local.hostname of its own")


def _ports(count: int) -> tuple[int, ...]:
    return tuple(range(DEFAULT_PORT, DEFAULT_PORT + count))


def _is_here(host: str) -> bool:
    """Return True if a host's name or address is one of this machine's."""
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return False
    own = {a.address for addresses in psutil.net_if_addrs().values() for a in addresses}
    return address in own or address.startswith("127.")


def _note(shape: Running) -> Path:
    """Return the file that lists the topologies and topics that this user's runs have left on a cluster."""
    name = hashlib.sha256(f"{shape.nimbus} {shape.kafka}".encode()).hexdigest()[:16]
    return user_folder("XDG_STATE_HOME", ".local/state") / "storm-harness" / "running" / f"{name}.json"


class RunningElsewhere(FixedNodes):
    """A cluster that is up (``harness.storm.deployment.RunningCluster``).

    Parameters
    ----------
    shape : Running
        With the nodes that were found.
    homes : ServerHomes
        Jars for submitting.
    home : Path
        Folder on this machine for what belongs to this campaign.
    """

    def __init__(self, shape: Running, homes: ServerHomes, home: Path) -> None:
        self._shape = shape
        self._note = _note(shape)
        self._token = ""
        self.homes = homes
        self.home = home
        self.nimbus = nimbus_of(shape)
        self.bootstrap = shape.kafka
        self.broker = Broker(shape.kafka)
        self.here = address_towards(shape.kafka)
        self.worker_output = UnwatchedStarts()
        self.nodes = tuple(
            WorkerNode(
                name=node.name,
                address=node.address,
                host=platform.node() if node.here else f"{shape.nimbus}/{node.name}",
                cores=node.cores,
                slots=node.slots,
            )
            for node in shape.found
        )
        self.one_clock = all(node.here for node in shape.found)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.hosts.write_text(_hosts(shape))

    @property
    def logs(self) -> Path:
        """Folder of logs on this machine."""
        return self.home / "logs"

    @property
    def hosts(self) -> Path:
        """Hosts file for Java programs of this machine."""
        return self.home / "hosts"

    @cached_property
    def broker_ahead_ms(self) -> float:
        """The broker's time of day minus this machine's; tried where it is another machine's."""
        return 0.0 if _is_here(self.bootstrap.rpartition(":")[0]) else _ahead_ms(self.bootstrap)

    @property
    def lost(self) -> tuple[WorkerNode, ...]:
        """Worker nodes whose supervisors Nimbus has missed for so long that it forgot them."""
        there = {s.address for s in self.nimbus.cluster_summary().supervisors}
        return tuple(node for node in self.nodes if node.address not in there)

    def check(self) -> None:
        """Raise ClusterError when Nimbus or the broker does not answer."""
        self.nimbus.cluster_summary()
        require_reachable(self.bootstrap)

    def jar(self, topology: Path, instrumentation: Path, /) -> Path:
        """Return the topology's jar with the instrumentation and the metrics' token in it."""
        return carry(topology, instrumentation, self._token, self.home / f"carried-{topology.name}")

    def hand_out(self, secret: str) -> str:
        """Let the jar that is submitted next carry a secret; return where the workers read it."""
        self._token = secret
        return f"classpath:{TOKEN_ENTRY}"

    def pin(self, topology: str, text: str) -> None:
        """Refuse: its Nimbus has a scheduler of its own."""
        del topology, text
        raise UsageError(
            "a cluster that others run places executors itself", "leave scheduler and placement out"
        )

    def unpin(self, topology: str) -> None:
        """Do nothing: no plan is there."""

    def remember(self, kind: Kind, name: str) -> None:
        """Take note of what is to be removed from the cluster, by the next run if this one is killed."""
        left = self._left()
        there: tuple[str, ...] = getattr(left, kind)
        if name not in there:
            self._write(left.model_copy(update={kind: (*there, name)}))

    def clear(self) -> None:
        """Remove the topologies and topics that this user's runs have put on the cluster, and nothing else.

        Raises
        ------
        ClusterError
            When Nimbus or the broker does not answer.
        """
        left = self._left()
        for name in left.topology:
            self.nimbus.kill(name)
        if left.topic:
            with Topics(self.bootstrap) as topics:
                for name in topics.names() & set(left.topic):
                    topics.delete(name)
        self._note.unlink(missing_ok=True)

    def round_trips(self, _since_ms: int, _until_ms: int, /) -> pa.Table:
        """Return none: nobody probes its network."""
        return METRICS.empty_table()

    def faults(self, _own: Mapping[str, int], /) -> NoFaults:
        """Return what makes none: it is not ours."""
        return NoFaults()

    def movable_clocks(self, _nodes: Sequence[str], /) -> AbstractContextManager[None]:
        """Move none: it is not ours."""
        return nullcontext()

    def _left(self) -> Left:
        try:
            return Left.model_validate_json(self._note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Left()

    def _write(self, left: Left) -> None:
        self._note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._note, left.model_dump_json(indent=1))


@contextmanager
def running_cluster(
    shape: Running, homes: ServerHomes, home: Path, workers: int
) -> Iterator[RunningElsewhere]:
    """Use a cluster that others run for a block, and leave it as it was.

    Parameters
    ----------
    workers : int
        Most workers that a step asks for.

    Raises
    ------
    UsageError
        When too few slots are free.
    ClusterError
        When Nimbus or the broker does not answer.
    """
    cluster = RunningElsewhere(shape, homes, home)
    cluster.clear()
    require_free(look(shape), shape, workers)
    try:
        yield cluster
    finally:
        with suppress(ClusterError):  # what does not answer is cleared by the next run
            cluster.clear()


def _ahead_ms(bootstrap: str) -> float:
    """Return how far the broker's time of day is ahead of this machine's, in ms, by the stamps of records.

    The record that was answered soonest tells most: its stamp lies within its round trip.
    """
    name = f"harness-clock-{time.time_ns()}"
    readings = []
    with Topics(bootstrap) as topics:
        topics.create(name, partitions=1)
        try:
            producer = Producer(bootstrap, name)
            for tag in range(STAMPED):
                before_ms = time.time() * 1e3
                producer.send(0, b"", tag)
                (stamped,) = producer.flush(ANSWER_WITHIN_S)
                after_ms = time.time() * 1e3
                if stamped.append_ms is not None:
                    ahead_ms = stamped.append_ms + 0.5 - (before_ms + after_ms) / 2
                    readings.append((after_ms - before_ms, ahead_ms))
            producer.close()
        finally:
            topics.delete(name)
    if not readings:
        raise ClusterError(f"kafka at {bootstrap} does not stamp records")
    within_ms, ahead_ms = min(readings)
    log.info("the broker's time of day is %+.1f ms from this machine's, to %.1f ms", ahead_ms, within_ms / 2)
    return ahead_ms


def _hosts(shape: Running) -> str:
    """Return a hosts file for Java: the addresses of all that the submitter may name."""
    names = {shape.nimbus.rpartition(":")[0], *(node.address for node in shape.found)}
    lines = [f"127.0.0.1 localhost {platform.node()}"]
    for name in sorted(names - {"localhost", platform.node()}):
        with suppress(OSError):
            address = socket.gethostbyname(name)
            if address != name:
                lines.append(f"{address} {name}")
    return "\n".join(lines) + "\n"
