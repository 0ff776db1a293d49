"""Executors cut into parts with little traffic between them: graph partitioning by METIS.

As Fischer and Bernstein (*Workload Scheduling in Distributed Stream Processors using Graph Partitioning*,
IEEE Big Data 2015): vertices are executors weighed by their load, edges are traffic. They cut once, with a
worker on each node; here executors are cut for nodes first, and those of a node for its workers.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.errors import MeasurementsNeeded
from harness.plans import Frozen, QueryPlan, TopologyConfiguration, WorkerNode
from harness.protocols import Observation, Proposal
from harness.schedulers.loads import (
    FloatArray,
    IntArray,
    capacities,
    overload_notes,
    sum_of_tasks,
    task_cores,
)
from harness.schedulers.partitioning import partition_graph
from harness.schedulers.placement import UnplacedExecutor, choose_slots, join_slots, unplaced_executors
from harness.schedulers.ports import choose_ports
from harness.schedulers.traffic import task_traffic


class TrafficCutScheduler(Frozen):
    """Loads as large as nodes are, cut where least is sent.

    Attributes
    ----------
    seed : int
        Of METIS.
    """

    seed: int = 0

    def propose(
        self,
        query_plan: QueryPlan,
        configuration: TopologyConfiguration,
        nodes: tuple[WorkerNode, ...],
        source: Observation | None = None,
    ) -> Proposal:
        """Cut executors by the traffic and loads that the source's metrics say.

        Raises
        ------
        SchedulerDeclined
            Without a source, its traffic or its loads.
        """
        if source is None:
            raise MeasurementsNeeded("needs the measurements of a running step: give a source")
        executors = unplaced_executors(query_plan, configuration, source)
        slots, notes = choose_slots(nodes, min(configuration.workers, len(executors)))
        traffic_tps = task_traffic(source).between_executors(executors)
        cores = sum_of_tasks(task_cores(source), executors)
        names = sorted({slot.node for slot in slots})
        used = [next(n for n in nodes if n.name == name) for name in names]
        workers = [sum(slot.node == name for slot in slots) for name in names]
        part = partition_graph(traffic_tps, cores, len(used), seed=self.seed, shares=capacities(used))
        _fill_parts(part, cores, workers)
        part = _keep_places(part, executors, used, workers, source)
        groups: dict[str, list[list[UnplacedExecutor]]] = {}
        for at, node in enumerate(used):
            mine = np.flatnonzero(part == at)
            inner = partition_graph(traffic_tps[np.ix_(mine, mine)], cores[mine], workers[at], seed=self.seed)
            _fill_parts(inner, cores[mine], [1] * workers[at])
            groups[node.name] = [
                [executors[i] for i in mine[inner == worker]] for worker in range(workers[at])
            ]
        chosen = choose_ports(groups, nodes, source.plan)
        plan = join_slots(query_plan, nodes, executors, [chosen[e] for e in executors])
        return Proposal(plan, notes + overload_notes(plan, source))


def _fill_parts(part: IntArray, cores: FloatArray, least: list[int]) -> None:
    """Move light executors out of the largest parts until each has as many as it has workers."""
    for at, wanted in enumerate(least):
        while (part == at).sum() < wanted:
            spare = np.bincount(part, minlength=len(least)) - np.array(least)
            mine = np.flatnonzero(part == int(np.argmax(spare)))
            part[mine[np.argmin(cores[mine])]] = at


def _keep_places(
    part: IntArray,
    executors: tuple[UnplacedExecutor, ...],
    nodes: list[WorkerNode],
    workers: list[int],
    source: Observation,
) -> IntArray:
    """Exchange parts between nodes alike so that as many executors as possible stay on their node."""
    names = [n.name for n in nodes]
    by_task = source.plan.by_task
    together = np.zeros((len(nodes), len(nodes)))
    for e, at in zip(executors, part, strict=True):
        node = by_task[e.first_task].worker.node
        if node in names:
            together[at, names.index(node)] += 1
    kinds = [(float(c), w) for c, w in zip(capacities(nodes), workers, strict=True)]
    alike = np.array([[a == b for b in kinds] for a in kinds])
    rows, columns = linear_sum_assignment(np.where(alike, -together, 1e6))
    to = np.empty(len(nodes), dtype=np.int64)
    to[rows] = columns
    return np.asarray(to[part])
