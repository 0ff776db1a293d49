"""The kinds of cluster that an experiment may name, each with all in which it differs from the others.

Nobody asks a cluster for its kind: what a kind forbids, where its servers run and whether its runs are
measurements are attributes and methods of it. How one is opened is joined to it in ``harness.app.clusters``.
Another kind is another class in ``ClusterSpec``, and a way to open it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from harness.experiments.cluster_file import LocalHosts, load
from harness.experiments.step_faults import Fault
from harness.experiments.stores import MetricStore, PlanStore
from harness.machine.named_paths import file_at
from harness.machine.server_config import MOST_NODES, MOST_SLOTS, Ports
from harness.plans import Frozen, PositiveFloat, WorkerNode
from harness.topologies.bounds import Cores, DelayMs, HeapMb
from harness.topologies.jar import JarTopology
from harness.topologies.test_topology import Topology

UNKNOWN_SLOTS = 1_000


class LinkDelay(Frozen):
    """A slowed link between two nodes.

    Attributes
    ----------
    delay_ms : float
        What each packet takes longer, in either direction.
    """

    delay_ms: DelayMs


class ClusterShape(Frozen):
    """Worker nodes and their slots, and what the workers in these are: the keys of every kind of cluster.

    Attributes
    ----------
    kind : {'local', 'simulator'}
        ``simulator`` starts no server and measures nothing: the simulator plays the same plans in
        seconds (docs/model.md). Such runs say "simulated, not measured" and are never valid.
    nodes : int
        Worker nodes, each a supervisor.
    slots_per_node : int
        Workers that a node may run.
    worker_heap_mb : int
        Heap of a worker in MB.
    worker_jit : {'c1', 'full'}
        Compilers of the workers' JVMs. With ``full`` the optimising compiler's threads disturb the
        first minutes of each step on few cores.
    cpu_quota_cores : mapping
        Cores that a node may use at most, by its name: ``{node-1: 0.5}``.
    links : mapping
        What takes longer between two nodes, by ``NODE~NODE``, while a run goes on.
    """

    measured: ClassVar[bool] = True
    """True if real servers are measured: else no run on it is ever valid."""
    starts_servers: ClassVar[bool] = False
    """True if its servers are started for each run, on this machine."""
    ending: ClassVar[str] = "leaving the cluster"
    """Action, in words, when a run on it is asked to stop."""
    without_adapting: ClassVar[str] = ""
    """Why no plan can change while a step is measured; empty where it can."""
    without_scaling: ClassVar[str] = "its nodes are provisioned, and stay"
    """Why no node can come or go while a step is measured; empty where they can."""
    without_quotas: ClassVar[str] = ""
    """Why its nodes can have no quotas; empty where they can."""
    pins: ClassVar[bool] = True
    """True if its Nimbus puts executors where a plan says."""
    without_links: ClassVar[str] = ""
    """Why its links cannot be slowed; empty where they can."""

    kind: str
    # beyond these a slot's port would be that of another server (machine/server_config.py)
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] = 2
    slots_per_node: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 2
    worker_heap_mb: HeapMb = 256
    worker_jit: Literal["c1", "full"] = "c1"
    cpu_quota_cores: Mapping[str, Cores] = {}

    links: Mapping[str, LinkDelay] = {}

    @field_validator("cpu_quota_cores", "links")
    @classmethod
    def _of_a_kind_that_can_have_them(
        cls, given: Mapping[str, float | LinkDelay], info: ValidationInfo[object]
    ) -> Mapping[str, float | LinkDelay]:
        without = {"cpu_quota_cores": cls.without_quotas, "links": cls.without_links}[str(info.field_name)]
        if given and without:
            raise ValueError(without)
        return given

    @model_validator(mode="after")
    def _of_its_nodes(self) -> Self:
        if not (self.cpu_quota_cores or self.links) or not (names := self.node_names):
            return self
        ends = {link: link.split("~") for link in self.links}
        for link, pair in ends.items():
            if len(pair) != 2 or pair[0] == pair[1]:
                raise ValueError(f"links: {link!r} is not two nodes, as in {names[0]}~{names[-1]}")
            if any(set(pair) == set(other) for name, other in ends.items() if name != link):
                raise ValueError(f"links: {link!r} is there twice")
        for key, nodes in (
            ("cpu_quota_cores", self.cpu_quota_cores),
            ("links", [end for pair in ends.values() for end in pair]),
        ):
            for node in nodes:
                if node not in names:
                    raise ValueError(f"{key}: there is no node {node!r} in {list(names)}")
        return self

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of its worker nodes; empty where nobody can say."""
        return tuple(f"node-{n + 1}" for n in range(self.nodes))

    @property
    def slots(self) -> int:
        """Slots of the whole cluster."""
        return self.nodes * self.slots_per_node

    @property
    def slots_to_fill(self) -> int:
        """Slots whose workers need memory of this machine, as far as is known."""
        return self.slots

    def worker_nodes(self) -> tuple[WorkerNode, ...]:
        """Return its worker nodes as far as they are known before it is there: names and slots."""
        ports = Ports()
        return tuple(
            _unseen(f"node-{n + 1}", ports.slots(n, self.slots_per_node), self.cpu_quota_cores)
            for n in range(self.nodes)
        )

    def host_of(self, node: str) -> str:
        """Return a worker node's host as plans name it; empty where it is this machine."""
        del node
        return ""

    def check_topology(self, topology: Topology | JarTopology) -> None:
        """Raise ValueError where it cannot run a topology, with the key that is at fault."""

    def refuses(self, fault: Fault) -> str:
        """Return why a fault cannot be made on it; nothing where it can."""
        del fault
        return ""

    def check_stores(self, metrics: MetricStore, plans: PlanStore) -> None:
        """Raise ValueError where it cannot have such stores, with the key that is at fault."""


def _unseen(name: str, slots: tuple[int, ...], quotas: Mapping[str, float]) -> WorkerNode:
    return WorkerNode(
        name=name, address="", host=name, cores=1.0, slots=slots, cpu_quota_cores=quotas.get(name)
    )


class Local(ClusterShape):
    """A real cluster on this machine: one supervisor a worker node, each on its own loopback address."""

    starts_servers = True
    ending = "ending the servers"
    without_scaling = ""
    without_links = "a local cluster has no links; name a provisioned cluster's file"

    kind: Literal["local"] = "local"

    def refuses(self, fault: Fault) -> str:
        """Refuse what needs hosts: its nodes have one loopback network, and one disk."""
        if fault.slow_link:
            return f"slow-link: {self.without_links}"
        if fault.fill_disk:
            return "fill-disk: a local cluster has this machine's disk; name a provisioned cluster's file"
        return ""


class Provisioned(ClusterShape):
    """The cluster called ``name``, which ``harness provision`` made of ``file``.

    An experiment gives that file instead of these keys, by itself or as ``file`` beside ``cpu_quota_cores``
    and ``links``, which are in force while a run goes on.
    """

    kind: Literal["remote"] = "remote"
    name: str
    file: str

    @model_validator(mode="before")
    @classmethod
    def _made_of_a_file(cls, given: object) -> object:
        if isinstance(given, Mapping) and not (given.get("name") and given.get("file")):
            raise ValueError("give the file of a provisioned cluster, or a local one's nodes and slots")
        return given

    def worker_nodes(self) -> tuple[WorkerNode, ...]:
        """Return the worker nodes that its file names; each has the same ports, on a host of its own."""
        slots = Ports().slots(0, self.slots_per_node)
        return tuple(_unseen(name, slots, self.cpu_quota_cores) for name in self.node_names)

    def host_of(self, node: str) -> str:
        """Return a host of its own, but for hosts that are made on this machine."""
        return "" if isinstance(load(Path(self.file)).hosts, LocalHosts) else f"{self.name}/{node}"

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the worker nodes in its file; none where the file of an older run is gone."""
        if file_at(Path(self.file)) is None:
            return ()
        return tuple(m.name for m in load(Path(self.file)).having("supervisor"))

    def refuses(self, fault: Fault) -> str:
        """Refuse faults on hosts that the harness did not make, and a second delay of a link."""
        slowed = next((link for link in self.links if set(link.split("~")) == set(fault.nodes)), "")
        if slowed:
            return f"slow-link: cluster.links slows {slowed} for the whole run, and a link has one delay"
        if file_at(Path(self.file)) is None or isinstance(hosts := load(Path(self.file)).hosts, LocalHosts):
            return ""
        return (
            f"the cluster {self.name} has hosts of kind {hosts.kind}; faults are made on those of kind local"
        )

    def check_stores(self, metrics: MetricStore, plans: PlanStore) -> None:
        """Refuse folders and lifetimes of data: the cluster's own servers keep them."""
        for key, given in (
            ("metrics.data", metrics.data),
            ("metrics.retention_days", metrics.retention_days),
            ("plans.data", plans.data),
        ):
            if given is not None:
                raise ValueError(f"{key}: leave it out; a provisioned cluster has its own, see its file")


class FoundNode(Frozen):
    """A worker node as Nimbus has it.

    Attributes
    ----------
    name, address : str
        Its name in plans, and its address.
    slots : tuple of int
        Ports of its slots.
    cores : float
        Cores that it says it has.
    here : bool
        Whether it is this machine, whose clock it then shares.
    """

    name: str
    address: str
    slots: tuple[Annotated[int, Field(ge=0, le=65_535)], ...]
    cores: PositiveFloat
    here: bool


Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}$", max_length=260)]


class Running(ClusterShape):
    """A cluster that somebody else runs, on which other topologies may be.

    Attributes
    ----------
    nimbus, kafka : str
        ``HOST:PORT`` of both.
    found : tuple of FoundNode
        Its nodes when the run began, which Nimbus is asked for; no key of an experiment's file.
    """

    ending = "taking the topology and its topics off the cluster"
    without_quotas = "a cluster that others run keeps its nodes as they are"
    without_links = without_quotas
    pins = False
    without_adapting = "a cluster that others run places executors itself"

    kind: Literal["running"] = "running"
    nimbus: Address
    kafka: Address
    found: tuple[FoundNode, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _as_nimbus_has_it(cls, given: object) -> object:
        if isinstance(given, Mapping) and not given.get("found"):
            for key in ("nodes", "slots_per_node", "worker_jit"):
                if key in given:
                    raise ValueError(f"{key}: leave it out; they are as the cluster has them")
        return given

    @property
    def slots(self) -> int:
        """Slots of the whole cluster; before Nimbus was asked, more than any has."""
        return sum(len(node.slots) for node in self.found) if self.found else UNKNOWN_SLOTS

    @property
    def slots_to_fill(self) -> int:
        """Slots on nodes that are this machine."""
        return sum(len(node.slots) for node in self.found if node.here)

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the worker nodes that were found."""
        return tuple(node.name for node in self.found)

    def worker_nodes(self) -> tuple[WorkerNode, ...]:
        """Return the worker nodes that were found."""
        return tuple(_unseen(node.name, node.slots, {}) for node in self.found)

    def refuses(self, fault: Fault) -> str:
        """Refuse any: it is not ours."""
        del fault
        return "nothing of a cluster that others run is killed, stopped, slowed or filled"


class Simulated(ClusterShape):
    """Nothing is started or measured: the same plans are played by the simulator."""

    measured = False
    without_adapting = "plans stay while the simulator plays a step"
    without_links = "the simulator's nodes share one host"

    kind: Literal["simulator"] = "simulator"

    def check_topology(self, topology: Topology | JarTopology) -> None:
        """Refuse topologies whose bolts the simulator does not know, or does not play."""
        if not topology.traffic().hop_records:
            raise ValueError("cluster.kind: the simulator plays no jar's topology, only the harness's own")

    def refuses(self, fault: Fault) -> str:
        """Refuse any: nothing runs."""
        del fault
        return "the simulator has no processes, links or disks of its own"

    def check_stores(self, metrics: MetricStore, plans: PlanStore) -> None:
        """Refuse servers that are beside the cluster: nothing waits for them."""
        if metrics.given:
            raise ValueError("metrics.url: a simulated run keeps its metrics in its run directory only")
        if plans.store != "none":
            raise ValueError("plans.store: a simulated run keeps its plans in its run directory only")


KINDS = (Local, Provisioned, Running, Simulated)
MEASURED_KINDS = frozenset(str(kind.model_fields["kind"].default) for kind in KINDS if kind.measured)
"""Kinds of cluster whose servers are real, as ``environment.json`` names them."""
CLUSTER_TAGS = ("cluster-local", "cluster-remote", "cluster-running", "cluster-simulator")
"""Stand in the places of errors."""
OF_A_FILE = ("name", "file")


def _known_kind(given: object) -> object:
    """Refuse an unknown kind, and drop the empty values that runs wrote for the keys of other kinds."""
    if not isinstance(given, Mapping):
        return given
    kind = given.get("kind", "local")
    if f"cluster-{kind}" not in CLUSTER_TAGS:
        raise ValueError(
            f"kind: local, running or simulator, or give a provisioned cluster's file (it is {kind!r})"
        )
    return {key: value for key, value in given.items() if value != "" or key not in OF_A_FILE}


def _tag(given: object) -> str:
    kind = given.get("kind", "local") if isinstance(given, Mapping) else getattr(given, "kind", "local")
    return f"cluster-{kind}"


ClusterSpec = Annotated[
    Annotated[Local, Tag(CLUSTER_TAGS[0])]
    | Annotated[Provisioned, Tag(CLUSTER_TAGS[1])]
    | Annotated[Running, Tag(CLUSTER_TAGS[2])]
    | Annotated[Simulated, Tag(CLUSTER_TAGS[3])],
    Discriminator(_tag),
    BeforeValidator(_known_kind),
]
"""One of them, told by the key ``kind``; a local one where there is no such key."""
