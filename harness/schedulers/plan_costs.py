"""A plan beside the plan in force: traffic across workers and nodes, evenness of load, executors moved.

Restarts are of whole worker processes: the supervisor compares the new assignment's set of executors with the
old set. Where the two are equal, the supervisor keeps the process (Storm 2.8.3, ``EquivalenceUtils``,
``Slot``).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import SchedulerDeclined
from harness.models.composite.model import Prepared
from harness.plans import ACKER, PhysicalPlan, QueryPlan, Worker, WorkerNode
from harness.protocols import Observation
from harness.schedulers.loads import capacities, node_cores, sum_of_tasks, task_cores
from harness.schedulers.traffic import task_traffic

LIKE_GROUPINGS = frozenset({"shuffle", "local-or-shuffle", "none", "all"})
"""Groupings that do not ask which of the tasks of a component it is."""


@dataclass(frozen=True)
class PlanCosts:
    """One plan set beside the plan in force.

    Attributes
    ----------
    between_workers_tps, between_nodes_tps : float, optional
        Tuples a second that leave a worker process, and a worker node. Acks are not counted. None where the
        source has no traffic.
    load_distance_pct : float, optional
        Largest difference of any worker node's load from the mean, in percentage points of a node (Madsen,
        Zhou and Cao, III.B). None where the source has no loads.
    executors_moved : int
        Executors in another slot than now, or with other tasks.
    workers_restarted : int
        Worker processes of the plan whose slot has another set of executors now, or none.
    between_workers_bytes_s, between_nodes_bytes_s : float, optional
        Bytes a second of these tuples, without Storm's headers. None where a stream crosses whose tuples were
        never written in a batch.
    """

    between_workers_tps: float | None
    between_nodes_tps: float | None
    load_distance_pct: float | None
    executors_moved: int
    workers_restarted: int
    between_workers_bytes_s: float | None = None
    between_nodes_bytes_s: float | None = None

    @property
    def moves(self) -> dict[str, float]:
        """The cost of applying the plan: columns of ``adaptation.parquet``."""
        return {"executors_moved": self.executors_moved, "workers_restarted": self.workers_restarted}


class _Crossing(NamedTuple):
    """Amounts that leave worker processes, and worker nodes."""

    workers: float
    nodes: float


def cost_plan(plan: PhysicalPlan, source: Observation, running: PhysicalPlan | None = None) -> PlanCosts:
    """Compare a plan with the one in force by what the source's metrics say, at the rate that is planned for.

    Parameters
    ----------
    running : PhysicalPlan, optional
        The plan in force; by default the source's.
    """
    running = source.plan if running is None else running
    tuples = size = _Crossing(np.nan, np.nan)
    try:
        traffic = task_traffic(source)
        tuples = _crossing(traffic.between_executors(plan.executors), plan)
        size = _crossing(traffic.bytes_between_executors(plan.executors), plan)
    except SchedulerDeclined:
        pass
    try:
        distance = load_distance_pct(plan, source)
    except SchedulerDeclined:
        distance = None
    return PlanCosts(
        between_workers_tps=_number(tuples.workers),
        between_nodes_tps=_number(tuples.nodes),
        load_distance_pct=distance,
        executors_moved=executors_moved(running, plan),
        workers_restarted=workers_restarted(running, plan),
        between_workers_bytes_s=_number(size.workers),
        between_nodes_bytes_s=_number(size.nodes),
    )


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def improvement(now: PlanCosts, then: PlanCosts, least_pct: float) -> str:
    """Return the way in which a plan is better than the one in force; empty where it is not by enough.

    Parameters
    ----------
    least_pct : float
        By which share traffic between nodes falls, or by how many points the load distance.

    Examples
    --------
    >>> now = PlanCosts(100, 80, 12.0, 0, 0)
    >>> improvement(now, PlanCosts(100, 60, 12.0, 3, 2), 20)
    'traffic between nodes 80 -> 60 tuples/s'
    >>> improvement(now, PlanCosts(90, 70, 3.0, 3, 2), 20)
    ''
    """
    before, after = now.between_nodes_tps, then.between_nodes_tps
    if before is not None and after is not None and after < before * (1 - least_pct / 100):
        return f"traffic between nodes {before:.0f} -> {after:.0f} tuples/s"
    was, becomes = now.load_distance_pct, then.load_distance_pct
    if was is not None and becomes is not None and becomes < was - least_pct:
        return f"load distance {was:.1f} -> {becomes:.1f} points"
    return ""


def no_improvement(least_pct: float) -> str:
    """Return the reason for which a plan stays where another is not better by enough (``improvement``)."""
    return f"neither traffic between nodes nor load distance improves by {least_pct:g}"


def crossing_traffic_tps(plan: PhysicalPlan, source: Observation) -> tuple[float, float]:
    """Return the tuples a second that cross worker processes, and worker nodes.

    Raises
    ------
    SchedulerDeclined
        When the source has no traffic.
    """
    return _crossing(task_traffic(source).between_executors(plan.executors), plan)


def _crossing(amounts: NDArray[np.float64], plan: PhysicalPlan) -> _Crossing:
    """Sum what goes from executor (row) to executor (column) of another worker, and of another node."""
    worker = _numbered(e.worker.label for e in plan.executors)
    node = _numbered(e.worker.node for e in plan.executors)
    return _Crossing(
        float(amounts[worker[:, None] != worker[None, :]].sum()),
        float(amounts[node[:, None] != node[None, :]].sum()),
    )


def _numbered(names: Iterable[str]) -> NDArray[np.intp]:
    return np.unique(list(names), return_inverse=True)[1]


def load_distance_pct(plan: PhysicalPlan, source: Observation) -> float:
    """Return the largest difference of a node's load from the mean load, in points of a node's capacity.

    The mean is the whole load over the whole capacity. The paper rounds it up, which keeps a perfect balance
    up to one point away; here it is not rounded.

    Raises
    ------
    SchedulerDeclined
        When the source has no loads.
    """
    used = node_cores(plan, sum_of_tasks(task_cores(source), plan.executors))
    capacity = capacities(plan.nodes)
    cores = np.array([used[n.name] for n in plan.nodes])
    return float(100 * np.abs(cores / capacity - cores.sum() / capacity.sum()).max())


def executors_moved(now: PhysicalPlan, plan: PhysicalPlan) -> int:
    """Count the executors of a plan that run elsewhere now, or not with the same tasks.

    >>> import harness
    >>> running = harness.load_run("reports/runs/noise-floor/20261121T181833Z").plan(0)
    >>> executors_moved(running, running)
    0
    """
    before = {e.label: e.worker for e in now.executors}
    return sum(before.get(e.label) != e.worker for e in plan.executors)


def workers_restarted(now: PhysicalPlan, plan: PhysicalPlan) -> int:
    """Count the workers of a plan that start when it comes into force, not those that only end."""
    before, after = executor_sets(now), executor_sets(plan)
    return sum(before.get(worker) != labels for worker, labels in after.items())


def executor_sets(plan: PhysicalPlan) -> Mapping[Worker, frozenset[str]]:
    """Return the labels of the executors in each worker process."""
    sets: dict[Worker, set[str]] = {}
    for e in plan.executors:
        sets.setdefault(e.worker, set()).add(e.label)
    return {worker: frozenset(labels) for worker, labels in sets.items()}


def distinct_nodes(prepared: Prepared, nodes: Iterable[WorkerNode]) -> frozenset[str]:
    """Return the names of nodes that are like no other: all, where round trips between nodes were measured.

    A plan does not say how slow a link is, so its nodes look alike.
    """
    probed = prepared.estimates.times.network_ms
    return frozenset(n.name for n in nodes) if probed else frozenset()


def like_executors(query_plan: QueryPlan) -> frozenset[str]:
    """Return the components whose executors are alike, where they have as many tasks.

    Groupings of all their inputs deal tuples in turn or by chance, and ask nothing of the task. The harness
    deals messages to the tasks of its spouts in turn; of a jar's spouts nothing is known. Ackers get trees
    by chance.

    Examples
    --------
    >>> from harness.topologies.thesis import FIELDS_TO_FIELDS
    >>> tasks = dict.fromkeys(FIELDS_TO_FIELDS.components, 2)
    >>> sorted(like_executors(FIELDS_TO_FIELDS.query_plan(tasks, None, {})))
    ['__acker', 'bolt-a', 'spout']
    """
    inputs: dict[str, set[str]] = {c.name: set() for c in query_plan.components}
    for s in query_plan.streams:
        inputs[s.target].add(s.grouping)
    roles = {c.name: c.role for c in query_plan.components}
    found = {name for name, of in inputs.items() if (of or roles[name] == "spout") and of <= LIKE_GROUPINGS}
    return frozenset({ACKER, *found})


def plan_shape(plan: PhysicalPlan, distinct: Collection[str] = (), alike: Collection[str] = ()) -> Hashable:
    """Return a value that two plans share if and only if they differ by no more than like slots.

    Slots of a node are alike. So are nodes of one host with the same cores and quota, and hosts whose used
    nodes are alike.

    Parameters
    ----------
    distinct : collection of str
        Names of nodes that are like no other for a reason that a plan does not know: a slowed link
        (``distinct_nodes``).
    alike : collection of str
        Components whose executors are alike, too, where they have as many tasks (``like_executors``).
    """
    sets: dict[Worker, list[str]] = {}
    for e in plan.executors:
        name = f"{e.component} of {e.last_task - e.first_task + 1}" if e.component in alike else e.label
        sets.setdefault(e.worker, []).append(name)
    hosts: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    for worker, names in sets.items():
        host = plan.node_names[worker.node].host
        hosts.setdefault(host, {}).setdefault(worker.node, []).append(tuple(sorted(names)))
    shape = []
    for nodes in hosts.values():
        kinds = []
        for name, workers in nodes.items():
            node = plan.node_names[name]
            own = name if name in distinct else ""
            kinds.append((own, node.cores, node.cpu_quota_cores or 0.0, tuple(sorted(workers))))
        shape.append(tuple(sorted(kinds)))
    return tuple(sorted(shape))


def same_as(plans: Mapping[str, PhysicalPlan], distinct: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return, for each named plan, the names of the others that differ from it by no more than like slots."""
    shapes = {name: plan_shape(plan, distinct) for name, plan in plans.items()}
    return {
        name: tuple(other for other, theirs in shapes.items() if other != name and theirs == shape)
        for name, shape in shapes.items()
    }
