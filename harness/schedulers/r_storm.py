"""Storm's resource-aware scheduler: executors by connections, onto the node with most resources left.

``DefaultResourceAwareStrategy`` of Storm 2.8.3 with its ``ExecSorterByConnectionCount`` and
``NodeSorterHostProximity``, for one rack; the successor of R-Storm (Peng and others, Middleware 2015).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import (
    ACKER,
    Frozen,
    NotNegative,
    PositiveFloat,
    QueryPlan,
    TopologyConfiguration,
    Worker,
    WorkerNode,
)
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import node_capacity_cores, overload_notes, sum_of_tasks, task_cores
from harness.schedulers.placement import UnplacedExecutor, join_slots, unplaced_executors

SLACK = 1e-9
MOST_STATES = 10_000
"""Placements that are tried before Storm gives up (``topology.ras.constraint.max.state.search``)."""


def order_executors(query_plan: QueryPlan, executors: tuple[UnplacedExecutor, ...]) -> list[UnplacedExecutor]:
    """Return executors as ``ExecSorterByConnectionCount`` does, Storm's own last and ackers after them.

    Components come by how many connections their executors have, most first. With each comes an executor of
    every neighbour in turn, neighbours with few connections first.
    """
    waiting = {c.name: deque(e for e in executors if e.component == c.name) for c in query_plan.components}
    size = {name: len(mine) for name, mine in waiting.items()}
    neighbours = {
        name: {s.target for s in query_plan.outputs(name)} | {s.source for s in query_plan.inputs(name)}
        for name in waiting
    }
    connections = {name: size[name] * sum(size[n] for n in neighbours[name]) for name in waiting}
    ordered: list[UnplacedExecutor] = []
    for name in sorted(waiting, key=lambda n: (-connections[n], n)):
        turn = [name, *sorted(neighbours[name], key=lambda n: (size[n] * size[name], n))]
        while any(waiting[n] for n in turn):
            ordered += [waiting[n].popleft() for n in turn if waiting[n]]
    own = [e for e in executors if e.own]
    return ordered + [e for e in own if e.component != ACKER] + [e for e in own if e.component == ACKER]


@dataclass(eq=False)
class _NodeResources:
    """A worker node while it fills; CPU in percent of a core, as Storm counts it."""

    node: WorkerNode
    cpu_pct: float
    memory_mb: float
    heap_mb: dict[int, float] = field(default_factory=dict)
    executors: int = 0

    @property
    def host(self) -> str:
        """The host that Storm knows the node by: its address."""
        return self.node.address or self.node.name


class _Cluster:
    """Nodes, and requests for resources, while executors are placed."""

    def __init__(
        self,
        nodes: tuple[WorkerNode, ...],
        requests_pct: Mapping[str, float],
        heap_mb: float,
        worker_heap_mb: float,
        node_memory_mb: float,
    ) -> None:
        self.requests_pct = requests_pct
        self.heap_mb = heap_mb
        self.worker_heap_mb = worker_heap_mb
        self.nodes = [_NodeResources(n, 100 * node_capacity_cores(n), node_memory_mb) for n in nodes]
        self.placed: dict[UnplacedExecutor, tuple[_NodeResources, int]] = {}

    def sort_nodes(self) -> Iterator[_NodeResources]:
        """Yield nodes host by host: most executors of the topology first, then most resources left.

        The counts are those of the call; resources are looked at when a host's turn comes, as Storm does.
        """
        counts = {n.node.name: n.executors for n in self.nodes}
        hosts: dict[str, list[_NodeResources]] = {}
        for n in self.nodes:
            hosts.setdefault(n.host, []).append(n)
        for host in _ranked(
            {h: (sum(counts[n.node.name] for n in of), _left(of)) for h, of in hosts.items()}
        ):
            of_host = {n.node.name: n for n in hosts[host]}
            ranks = {name: (counts[name], _left([n])) for name, n in of_host.items()}
            yield from (of_host[name] for name in _ranked(ranks))

    def fits(self, executor: UnplacedExecutor, node: _NodeResources, port: int) -> bool:
        """Return whether a slot takes an executor: CPU and memory of the node, heap of the worker."""
        heap_mb = node.heap_mb.get(port, 0.0) + self.heap_mb
        return self.fits_node(executor, node) and heap_mb <= self.worker_heap_mb + SLACK

    def fits_node(self, executor: UnplacedExecutor, node: _NodeResources) -> bool:
        """Return whether a node has the CPU and memory for an executor."""
        enough_cpu = self.requests_pct[executor.component] <= node.cpu_pct + SLACK
        return enough_cpu and self.heap_mb <= node.memory_mb + SLACK

    def put(self, executor: UnplacedExecutor, node: _NodeResources, port: int) -> None:
        """Place an executor."""
        self._use(executor, node, port, 1)
        self.placed[executor] = node, port

    def take(self, executor: UnplacedExecutor) -> None:
        """Take an executor back."""
        node, port = self.placed.pop(executor)
        self._use(executor, node, port, -1)

    def _use(self, executor: UnplacedExecutor, node: _NodeResources, port: int, times: int) -> None:
        node.cpu_pct -= times * self.requests_pct[executor.component]
        node.memory_mb -= times * self.heap_mb
        node.heap_mb[port] = node.heap_mb.get(port, 0.0) + times * self.heap_mb
        node.executors += times


class _NodesInTurn:
    """Nodes as they are needed: later hosts are ranked by what is left when their turn comes first."""

    def __init__(self, nodes: Iterator[_NodeResources]) -> None:
        self.coming = nodes
        self.seen: list[_NodeResources] = []

    def __iter__(self) -> Iterator[_NodeResources]:
        yield from self.seen
        for node in self.coming:
            self.seen.append(node)
            yield node


class _Search:
    """Executors placed one by one, going back where one does not fit (``scheduleExecutorsOnNodes``)."""

    def __init__(self, cluster: _Cluster, ordered: list[UnplacedExecutor], ackers_per_worker: int) -> None:
        self.cluster = cluster
        self.ordered = ordered
        self.ackers_per_worker = ackers_per_worker
        self.free_ackers = deque(e for e in ordered if e.component == ACKER)
        self.bound: dict[UnplacedExecutor, list[UnplacedExecutor]] = {}
        self.furthest = 0

    def place_all(self) -> bool:
        """Place all executors; return whether that was possible."""
        tried = [0] * len(self.ordered)
        ranked: _NodesInTurn | None = None
        index, states = 0, 0
        while index < len(self.ordered) and states <= MOST_STATES:
            executor = self.ordered[index]
            self.furthest = max(self.furthest, index)
            if executor in self.cluster.placed:  # an acker that came with another executor
                index += 1
                continue
            if ranked is None or index == 0 or self.ordered[index - 1].component != executor.component:
                ranked = _NodesInTurn(self.cluster.sort_nodes())
            slot, tried[index] = self._next_slot(ranked, executor, tried[index])
            if slot is not None:
                states += 1
                self._put(executor, *slot)
                index += 1
                continue
            ranked, tried[index] = None, 0
            index -= 1
            while index >= 0 and self._is_bound(self.ordered[index]):
                index -= 1
            if index < 0:
                return False
            self._take(self.ordered[index])
        return index == len(self.ordered)

    def _next_slot(
        self, ranked: _NodesInTurn, executor: UnplacedExecutor, tried: int
    ) -> tuple[tuple[_NodeResources, int] | None, int]:
        """Return the next slot after those tried that takes an executor, and the number tried then."""
        at = 0
        for node in ranked:
            if not self.cluster.fits_node(executor, node):
                continue
            for port in sorted(node.node.slots):
                at += 1
                if at > tried:
                    tried += 1
                    if self.cluster.fits(executor, node, port):
                        return (node, port), tried
        return None, tried

    def _is_bound(self, executor: UnplacedExecutor) -> bool:
        return any(executor in ackers for ackers in self.bound.values())

    def _put(self, executor: UnplacedExecutor, node: _NodeResources, port: int) -> None:
        cluster = self.cluster
        cluster.put(executor, node, port)
        if executor.component == ACKER:
            self.free_ackers.remove(executor)
            return
        if any(cluster.placed[a] == (node, port) for ackers in self.bound.values() for a in ackers):
            return
        room = int((cluster.worker_heap_mb - cluster.heap_mb) // cluster.heap_mb)
        for _ in range(min(room, len(self.free_ackers), self.ackers_per_worker)):
            if not cluster.fits(self.free_ackers[0], node, port):
                break
            acker = self.free_ackers.popleft()
            cluster.put(acker, node, port)
            self.bound.setdefault(executor, []).append(acker)

    def _take(self, executor: UnplacedExecutor) -> None:
        self.cluster.take(executor)
        if executor.component == ACKER:
            self.free_ackers.appendleft(executor)
        for acker in reversed(self.bound.pop(executor, [])):
            self.cluster.take(acker)
            self.free_ackers.appendleft(acker)


def _left(nodes: list[_NodeResources]) -> tuple[float, float]:
    return sum(n.cpu_pct for n in nodes), sum(n.memory_mb for n in nodes)


def _ranked(items: Mapping[str, tuple[int, tuple[float, float]]]) -> list[str]:
    """Sort by executors placed, mean share of resources left, least share, name."""
    totals = [sum(left[k] for _, left in items.values()) for k in (0, 1)]

    def key(name: str) -> tuple[float, float, float, str]:
        placed, left = items[name]
        shares = [left[k] / totals[k] for k in (0, 1) if totals[k] > 0]
        average = sum(shares) / len(shares) if shares else 0.0
        return -placed, -round(average, 12), -round(min([1.0, *shares]), 12), name

    return sorted(items, key=key)


class RStormScheduler(Frozen):
    """Executors that are connected go to one node while it has CPU and memory for them.

    Attributes
    ----------
    heap_mb : float
        On-heap memory that each executor asks for (``topology.component.resources.onheap.memory.mb``).
    worker_heap_mb : float
        Most memory of a worker process (``topology.worker.max.heap.size.mb``).
    node_memory_mb : float
        Memory of a worker node (``supervisor.memory.capacity.mb``).
    cpu_pct : float
        CPU in percent of a core that an executor asks for where nothing is measured
        (``topology.component.cpu.pcore.percent``).
    requests_pct : mapping of component to float
        CPU that a component's executors ask for, in percent of a core, whatever was measured.
    ackers_per_worker : int
        Ackers bound to each worker as it is opened (``topology.ras.acker.executors.per.worker``).

    Notes
    -----
    With a source an executor asks for the mean CPU that its component's executors used. The
    number of workers that is asked for is ignored, as by Storm: as many are opened as their memory makes
    necessary.

    Storm takes executors of one component, ports of one node, and further own executors in the order of a
    hash table, here in that of their numbers. Storm makes room by driving out topologies of lower
    priority; here the proposal is declined.
    """

    heap_mb: PositiveFloat = 128.0
    worker_heap_mb: PositiveFloat = 768.0
    node_memory_mb: PositiveFloat = 4096.0
    cpu_pct: PositiveFloat = 10.0
    requests_pct: Mapping[str, NotNegative] = {}
    ackers_per_worker: int = 1

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Place executors by what they ask for.

        Raises
        ------
        SchedulerDeclined
            When an executor fits no node, or the source has no loads.
        """
        executors = unplaced_executors(query_plan, configuration, source)
        cluster = _Cluster(
            tuple(sorted(nodes, key=lambda n: n.name)),
            self._requests_pct(executors, source),
            self.heap_mb,
            self.worker_heap_mb,
            self.node_memory_mb,
        )
        search = _Search(cluster, order_executors(query_plan, executors), self.ackers_per_worker)
        if not search.place_all():
            stuck = search.ordered[search.furthest]
            raise SchedulerDeclined(
                f"{stuck.label} asks for {cluster.requests_pct[stuck.component]:.1f} % of a core and"
                f" {self.heap_mb:g} MB: no slot has that left, and Storm would not place it"
            )
        slots = [Worker(node=n.node.name, port=port) for n, port in (cluster.placed[e] for e in executors)]
        plan = join_slots(query_plan, nodes, executors, slots)
        used, asked = len(plan.workers), configuration.workers
        note = () if used == asked else (f"opens {used} workers: the {asked} asked for are ignored",)
        return Proposal(plan, note + overload_notes(plan, source))

    def _requests_pct(
        self, executors: tuple[UnplacedExecutor, ...], source: Observation | None
    ) -> dict[str, float]:
        names = sorted({e.component for e in executors})
        if unknown := sorted(self.requests_pct.keys() - set(names)):
            raise SchedulerDeclined(f"requests_pct names {unknown[0]}, which is no component")
        asked = dict(self.requests_pct)
        if source is None or asked.keys() == set(names):
            return {name: asked.get(name, self.cpu_pct) for name in names}
        cores = sum_of_tasks(task_cores(source), executors)
        of = np.array([e.component for e in executors])
        return {name: asked.get(name, float(100 * cores[of == name].mean())) for name in names}
