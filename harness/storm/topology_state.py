"""What Nimbus says of a topology, and what can be concluded from it: pure, no client."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import ClusterError
from harness.plans import Executor, PhysicalPlan, QueryPlan, TopologyConfiguration, Worker, WorkerNode

SYSTEM = "__system"
"""The component that Storm puts into every worker; it is in no assignment and has no thread to plan."""
OLD_WORKER_GONE_S = 15.0
"""By this time after a rebalance its old workers have ended (they are killed within two seconds)."""

Slot = tuple[str, int]
"""Address of a worker node and port of the worker."""
Ranges = frozenset[tuple[int, int]]
"""First and last task of each executor of a worker."""


@dataclass(frozen=True)
class ExecutorState:
    """An executor of the assignment in force, and what its worker last reported of it.

    Attributes
    ----------
    worker_uptime_s : int
        Of the process that reported.
    up : bool
        Whether any report of it was read; right after a rebalance it may be a predecessor's.
    acked, failed : int
        Tuple trees of a spout's executor since its start (0 for bolts).
    complete_latency_ms : float or None
        Mean over ``acked``, since the executor's start; None where nothing was acked.
    """

    component: str
    first_task: int
    last_task: int
    address: str
    port: int
    worker_uptime_s: int
    up: bool
    is_spout: bool = False
    acked: int = 0
    failed: int = 0
    complete_latency_ms: float | None = None

    @property
    def slot(self) -> Slot:
        """Where its worker is."""
        return self.address, self.port

    @property
    def label(self) -> str:
        """Its name as a subject of measures, like ``harness.plans.Executor.label``."""
        return f"{self.component}[{self.first_task}-{self.last_task}]"


class ReportedError(NamedTuple):
    """What a task reported: when, in seconds since 1970, and worker and cause in one line."""

    epoch_s: int
    text: str


@dataclass(frozen=True)
class TopologyState:
    """A topology's status, its executors (ackers and metrics consumers included) and reported errors.

    ``scheduling`` is what Nimbus' scheduler says of it; empty where it says nothing.
    """

    id: str
    status: str
    executors: tuple[ExecutorState, ...]
    errors: tuple[ReportedError, ...] = ()
    scheduling: str = ""

    def slots(self) -> dict[Slot, Ranges]:
        """Return the executors of each worker in use."""
        found: dict[Slot, set[tuple[int, int]]] = {}
        for e in self.executors:
            found.setdefault(e.slot, set()).add((e.first_task, e.last_task))
        return {slot: frozenset(ranges) for slot, ranges in found.items()}

    def assigned(self, query_plan: QueryPlan) -> bool:
        """Whether every component of the query plan has an executor in the assignment."""
        return {c.name for c in query_plan.components} <= {e.component for e in self.executors}

    def uptimes_s(self) -> dict[Slot, int]:
        """Return the uptime of each worker that has reported, in whole seconds."""
        return {e.slot: e.worker_uptime_s for e in self.executors if e.up}

    @property
    def all_up(self) -> bool:
        """Whether there are executors and each has been reported."""
        return bool(self.executors) and all(e.up for e in self.executors)


def physical_plan(state: TopologyState, query_plan: QueryPlan, nodes: Sequence[WorkerNode]) -> PhysicalPlan:
    """Return the plan that a topology's state shows.

    Raises
    ------
    ClusterError
        When an executor runs on an address that no node has, or a component of the query plan has no
        executor.
    """
    by_address = {n.address: n.name for n in nodes}
    executors = []
    for e in sorted(state.executors, key=lambda e: e.first_task):
        if e.component == SYSTEM:
            continue
        if e.address not in by_address:
            raise ClusterError(f"topology {state.id}: {e.label} runs on {e.address}, which is no worker node")
        worker = Worker(node=by_address[e.address], port=e.port)
        executors.append(
            Executor(component=e.component, first_task=e.first_task, last_task=e.last_task, worker=worker)
        )
    missing = {c.name for c in query_plan.components} - {e.component for e in executors}
    if missing:
        raise ClusterError(f"topology {state.id}: no executor of {', '.join(sorted(missing))} is assigned")
    return PhysicalPlan(query_plan=query_plan, nodes=tuple(nodes), executors=tuple(executors))


class Rebalance:
    """A rebalance that was asked for: tells a new plan that is whole from one that only looks so.

    A worker whose executors stay the same keeps running. Of any other, Nimbus may still show the last
    report of its predecessor on the same slot, as far as that held executors of the new one. Where it
    held all of them, the predecessor is told by its uptime.

    Parameters
    ----------
    before : TopologyState
        Read just before.
    asked : TopologyConfiguration
        What was asked for; components it does not name may have any number of executors.
    started : float
        ``time.monotonic()`` just before.
    """

    def __init__(self, before: TopologyState, asked: TopologyConfiguration, started: float) -> None:
        self._slots = before.slots()
        self._uptimes_s = before.uptimes_s()
        self._asked = asked
        self._started = started
        self._fresh: set[Slot] = set()
        self._late_uptimes_s: dict[Slot, int] = {}

    def whole(self, state: TopologyState) -> bool:
        """Whether the configuration is in force with every executor up in a worker of the new plan.

        To be asked repeatedly, each time with a new state.
        """
        if state.status == "REBALANCING" or not self._as_asked(state):
            return False
        elapsed_s = time.monotonic() - self._started
        uptimes_s = state.uptimes_s()
        for slot, ranges in state.slots().items():
            if slot in uptimes_s and self._is_fresh(slot, ranges, uptimes_s[slot], elapsed_s):
                self._fresh.add(slot)
        return state.all_up and self._fresh >= state.slots().keys()

    def _as_asked(self, state: TopologyState) -> bool:
        counts: dict[str, int] = {}
        for e in state.executors:
            counts[e.component] = counts.get(e.component, 0) + 1
        return len(state.slots()) == self._asked.workers and all(
            counts.get(name) == number for name, number in self._asked.executors.items()
        )

    def _is_fresh(self, slot: Slot, ranges: Ranges, uptime_s: int, elapsed_s: float) -> bool:
        before = self._slots.get(slot, frozenset())
        if ranges == before or not ranges <= before:
            return True
        if uptime_s < self._uptimes_s.get(slot, 0):
            return True
        # The predecessor was so young that its uptime says nothing. Once it is gone, only a live
        # worker's uptime still grows.
        if elapsed_s < OLD_WORKER_GONE_S:
            return False
        return uptime_s != self._late_uptimes_s.setdefault(slot, uptime_s)


class _WorkerStart(NamedTuple):
    """A worker's start, the uptime reported last, and a later start that one report shows."""

    start_s: float
    uptime_s: int
    doubt_s: float | None = None


class WorkerStarts:
    """When each worker was started, from uptimes in whole seconds that arrive late.

    A worker that came back reports less uptime than before, or so little that it began since the last look,
    or twice in a row a start later than the known one: a single report that was long under way looks like a
    later start, too, and the next one does not. One that dies within ``TOLERANCE_S`` of its start may not be
    told from its successor.
    """

    TOLERANCE_S = 3.0
    """Starts that differ by less are the same: so late may any report be."""
    ROUNDING_S = 1.0

    def __init__(self) -> None:
        self._workers: dict[Slot, _WorkerStart] = {}
        self._looked_s = math.inf

    def update(self, uptimes_s: Mapping[Slot, int], now_s: float) -> dict[Slot, float]:
        """Return the start of every worker in use, on the clock of ``now_s``."""
        self._workers = {slot: self._seen(slot, uptime_s, now_s) for slot, uptime_s in uptimes_s.items()}
        self._looked_s = now_s
        return {slot: worker.start_s for slot, worker in self._workers.items()}

    def _seen(self, slot: Slot, uptime_s: int, now_s: float) -> _WorkerStart:
        start_s, known = now_s - uptime_s, self._workers.get(slot)
        if known is None or uptime_s < known.uptime_s or start_s > self._looked_s + self.ROUNDING_S:
            return _WorkerStart(start_s, uptime_s)
        if uptime_s == known.uptime_s:  # the same report again
            return known
        if start_s - known.start_s < self.TOLERANCE_S:
            return _WorkerStart(known.start_s, uptime_s)
        if known.doubt_s is not None and abs(start_s - known.doubt_s) < self.TOLERANCE_S:
            return _WorkerStart(known.doubt_s, uptime_s)
        return _WorkerStart(known.start_s, uptime_s, start_s)
