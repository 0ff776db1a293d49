"""A cluster that is up, on this machine or on hosts of its own: all that a campaign needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from harness.errors import ClusterError
from harness.experiments.step_faults import FaultMaker
from harness.machine.broker import Broker
from harness.machine.servers import ServerHomes
from harness.plans import Frozen, WorkerNode
from harness.storm.nimbus import Nimbus
from harness.storm.pinning import PlanFolder

Kind = Literal["topology", "topic"]


class Starts(Protocol):
    """Starts of workers, watched since a plan was asked for."""

    def mark(self) -> None:
        """Forget the starts until now: another plan is asked for."""

    def check(self, ports: Iterable[int], now_s: float) -> None:
        """Raise ClusterError when a worker died at its start, since the mark."""


class RunningCluster(PlanFolder, Protocol):
    """A cluster that is up, on this machine or on hosts of its own, with all that a campaign needs."""

    homes: ServerHomes
    nimbus: Nimbus

    @property
    def nodes(self) -> tuple[WorkerNode, ...]:
        """Its worker nodes by now."""

    @property
    def first_nodes(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that it began with."""

    @property
    def possible_nodes(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that it has or may have, in the order in which they come."""

    def add_nodes(self, names: Sequence[str]) -> None:
        """Start possible nodes; returns when Nimbus knows them."""

    def end_nodes(self, names: Sequence[str]) -> None:
        """End nodes that have no workers; returns when Nimbus has forgotten them."""

    def restore_nodes(self) -> None:
        """Have the nodes again that it began with; those that it loses have no workers."""

    @property
    def worker_output(self) -> Starts:
        """Why a worker cannot start."""

    @property
    def broker(self) -> Broker:
        """The Kafka broker."""

    @property
    def hosts(self) -> Path:
        """Hosts file for Java programs that run beside the servers."""

    @property
    def logs(self) -> Path:
        """Folder of logs on this machine."""

    @property
    def here(self) -> str:
        """The address by which the cluster's workers reach this machine."""

    @property
    def one_clock(self) -> bool:
        """True if its workers' monotonic clocks are this machine's."""

    @property
    def broker_ahead_ms(self) -> float:
        """Lead of the broker's time of day over this machine's, in ms."""

    @property
    def lost(self) -> tuple[WorkerNode, ...]:
        """Worker nodes that are gone, while the cluster goes on without them."""

    def check(self) -> None:
        """Raise ClusterError when a server that the whole cluster needs has died."""

    def jar(self, topology: Path, instrumentation: Path, /) -> Path:
        """Return the jar to submit: a topology's, with what the cluster's class paths lack."""

    def hand_out(self, secret: str) -> str:
        """Put a secret where workers can read it and nobody else can; return the file's path there."""

    def remember(self, kind: Kind, name: str) -> None:
        """Take note of what was put on the cluster, and must not outlive the run there."""

    def round_trips(self, since_ms: int, until_ms: int, /) -> pa.Table:
        """Return what probes between worker nodes saw in a span of epoch ms, as rows of metrics."""

    def faults(self, own: Mapping[str, int], /) -> FaultMaker:
        """Return what makes faults on it; given are the harness's own processes, by what they are."""

    def movable_clocks(self, nodes: Sequence[str], /) -> AbstractContextManager[None]:
        """Let workers of nodes that start in the block have a clock that faults can move."""


class FixedNodes:
    """Worker nodes of a cluster to which none comes, and from which none goes."""

    nodes: tuple[WorkerNode, ...]

    @property
    def first_nodes(self) -> tuple[WorkerNode, ...]:
        """Those that it has."""
        return self.nodes

    @property
    def possible_nodes(self) -> tuple[WorkerNode, ...]:
        """Those that it has."""
        return self.nodes

    def add_nodes(self, names: Sequence[str]) -> None:
        """Refuse: experiments that ask for it are refused before."""
        raise ClusterError(f"{', '.join(names)} cannot be added: the cluster's nodes stay")

    def end_nodes(self, names: Sequence[str]) -> None:
        """Refuse: experiments that ask for it are refused before."""
        raise ClusterError(f"{', '.join(names)} cannot be ended: the cluster's nodes stay")

    def restore_nodes(self) -> None:
        """Do nothing."""


class Left(Frozen):
    """Topologies and topics that runs have put on a cluster and not removed yet.

    Attributes
    ----------
    topology : tuple of str
        Storm's names.
    topic : tuple of str
        Kafka's names.
    """

    topology: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()


class UnwatchedStarts:
    """Starts of workers on hosts elsewhere, which nobody watches: only that a plan is not whole is seen."""

    def mark(self) -> None:
        """Do nothing."""

    def check(self, ports: Iterable[int], now_s: float) -> None:
        """Do nothing."""
