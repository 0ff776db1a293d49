"""A topology's state as Nimbus reports it, and the conclusions from such states: pure, no client."""

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
KNOWN_BY_S = 12.0
"""By this time every worker knows of a new plan: supervisors ask Nimbus every 10 s, workers their supervisor
every second."""

Slot = tuple[str, int]
"""Address of a worker node and port of the worker."""
Ranges = frozenset[tuple[int, int]]
"""First and last task of each executor of a worker."""


@dataclass(frozen=True)
class ExecutorState:
    """An executor of the assignment in force, with its worker's last report.

    Attributes
    ----------
    worker_uptime_s : int
        Of the process that reported.
    up : bool
        Whether any report of it was read; right after a rebalance it may be of the worker that had it.
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
    def tasks(self) -> tuple[int, int]:
        """First and last task, which name it among the topology's executors."""
        return self.first_task, self.last_task

    @property
    def slot(self) -> Slot:
        """Where its worker is."""
        return self.address, self.port

    @property
    def label(self) -> str:
        """Its name as a subject of measures, like ``harness.plans.Executor.label``."""
        return f"{self.component}[{self.first_task}-{self.last_task}]"


class ReportedError(NamedTuple):
    """An error that a task reported: time in seconds since 1970, and worker and cause in one line."""

    epoch_s: int
    text: str


@dataclass(frozen=True)
class TopologyState:
    """A topology's status, its executors (ackers and metrics consumers included) and reported errors.

    ``scheduling`` is the status that Nimbus' scheduler gives the topology; empty without one.
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
            found.setdefault(e.slot, set()).add(e.tasks)
        return {slot: frozenset(ranges) for slot, ranges in found.items()}

    def assigned(self, query_plan: QueryPlan) -> bool:
        """Return True if every component of the query plan has an executor in the assignment."""
        return {c.name for c in query_plan.components} <= {e.component for e in self.executors}

    def uptimes_s(self) -> dict[Slot, int]:
        """Return the uptime of each worker that has reported, in whole seconds."""
        return {e.slot: e.worker_uptime_s for e in self.executors if e.up}

    @property
    def all_up(self) -> bool:
        """True if there are executors and each has been reported."""
        return bool(self.executors) and all(e.up for e in self.executors)

    def not_up(self) -> set[Slot]:
        """Return the workers with an executor that has not been reported."""
        return {e.slot for e in self.executors if not e.up}


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

    A worker whose executors stay the same keeps running. Of each other executor Nimbus may still show the
    last report of the worker that had it before, wherever that was. A report is of the new worker where the
    executor is one that nobody had before, or where it tells less uptime than was known before. So are all
    reports of the same uptime from the same slot, as a worker reports all of its executors at once.

    Nimbus tells the new plan only to nodes whose executors change. The supervisors of others ask for it from
    time to time, and until then their workers send to where executors were.

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
        self._uptimes_s = {e.tasks: e.worker_uptime_s if e.up else 0 for e in before.executors}
        self._asked = asked
        self._started = started
        self._assigned_s = math.inf
        self._fresh: set[Slot] = set()
        self._late_uptimes_s: dict[Slot, int] = {}

    def whole(self, state: TopologyState) -> bool:
        """Return True if the configuration is in force, every executor up in a worker of the new plan.

        To be asked repeatedly, each time with a new state.
        """
        if state.status == "REBALANCING" or not self._as_asked(state):
            return False
        now_s, slots = time.monotonic(), state.slots()
        self._assigned_s = min(self._assigned_s, now_s)
        for slot in slots:
            executors = [e for e in state.executors if e.slot == slot]
            if slots[slot] == self._slots.get(slot) or self._is_fresh(slot, executors, now_s):
                self._fresh.add(slot)
        return state.all_up and self._fresh >= slots.keys() and self._all_know(slots, now_s)

    def unheard(self, state: TopologyState) -> set[Slot]:
        """Return the workers of which nothing new was heard; none where the plan is not the asked one."""
        return state.slots().keys() - self._fresh if self._as_asked(state) else set()

    def _as_asked(self, state: TopologyState) -> bool:
        counts: dict[str, int] = {}
        for e in state.executors:
            counts[e.component] = counts.get(e.component, 0) + 1
        return len(state.slots()) == self._asked.workers and all(
            counts.get(name) == number for name, number in self._asked.executors.items()
        )

    def _is_fresh(self, slot: Slot, executors: Sequence[ExecutorState], now_s: float) -> bool:
        uptimes_s = {e.worker_uptime_s for e in executors}
        if not all(e.up for e in executors) or len(uptimes_s) > 1:
            return False
        (uptime_s,) = uptimes_s
        if any(uptime_s < self._uptimes_s.get(e.tasks, math.inf) for e in executors):
            return True
        # The predecessor was so young that its uptime says nothing. Once it is gone, only a live
        # worker's uptime still grows.
        if now_s - self._started < OLD_WORKER_GONE_S:
            return False
        return uptime_s != self._late_uptimes_s.setdefault(slot, uptime_s)

    def _all_know(self, slots: Mapping[Slot, Ranges], now_s: float) -> bool:
        """Return True if the nodes that keep all of their executors have asked for the plan by now."""
        told = {slot[0] for slot, _ in set(slots.items()) ^ set(self._slots.items())}
        kept = {address for address, _ in slots} - told
        return not told or not kept or now_s - self._assigned_s >= KNOWN_BY_S


class _WorkerStart(NamedTuple):
    """A worker's start, the uptime reported last, the last that was surely its own, and a start in doubt."""

    start_s: float
    uptime_s: int
    sure_s: int
    doubt_s: float | None = None
    """A later start, which one report shows."""


class WorkerStarts:
    """Time at which each worker was started, from uptimes in whole seconds that arrive late.

    A worker that came back shows in one of three ways. It reports less uptime than before, or so little that
    the worker began since the last look, or twice in a row a start later than the known one. A single report
    that was long under way looks like a later start, too, but the next report does not. A worker that dies
    within ``TOLERANCE_S`` of its start may not be told from its successor.
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

    @property
    def reported_s(self) -> dict[Slot, int]:
        """The uptime of each worker at its last report that is surely of the start known of it."""
        return {slot: worker.sure_s for slot, worker in self._workers.items()}

    def _seen(self, slot: Slot, uptime_s: int, now_s: float) -> _WorkerStart:
        start_s, known = now_s - uptime_s, self._workers.get(slot)
        if known is None or uptime_s < known.uptime_s or start_s > self._looked_s + self.ROUNDING_S:
            return _WorkerStart(start_s, uptime_s, uptime_s)
        if uptime_s == known.uptime_s:  # the same report again
            return known
        if start_s - known.start_s < self.TOLERANCE_S:
            return _WorkerStart(known.start_s, uptime_s, uptime_s)
        if known.doubt_s is not None and abs(start_s - known.doubt_s) < self.TOLERANCE_S:
            return _WorkerStart(known.doubt_s, uptime_s, uptime_s)
        return _WorkerStart(known.start_s, uptime_s, known.sure_s, start_s)
