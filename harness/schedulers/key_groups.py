"""Key groups of a running topology as groups of a balancing problem, and an allocation as routing tables.

The groups are those of Madsen, Zhou and Cao: the parts of a keyed component's state, which move between its
tasks while messages flow. All else that a worker node does stays there, and counts in the node's load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from harness.errors import SchedulerDeclined
from harness.plans import RoutingTables
from harness.protocols import Observation
from harness.schedulers.executor_groups import BalanceTerms
from harness.schedulers.groups import GroupMoves, GroupProblem, SendingGroups, count_downstream, mark_leaving
from harness.schedulers.loads import FloatArray, IntArray, capacities, read_counts, task_cores
from harness.schedulers.migration_costs import MadeMove, group_costs
from harness.schemas import Metric, MetricField

GroupName = tuple[str, int]
"""Component and number of a key group."""


@runtime_checkable
class GroupMover(Protocol):
    """A scheduler that can say where groups go, whatever the groups are."""

    def terms(self) -> BalanceTerms:
        """Return its terms of balancing."""
        ...

    def move_groups(self, groups: SendingGroups) -> GroupMoves:
        """Move groups within the problem's budget.

        Raises
        ------
        SchedulerDeclined
            Where no allocation satisfies the constraints.
        """
        ...


@dataclass(frozen=True)
class KeyGroups:
    """Every key group of a topology, with its load and place, and the traffic between groups.

    Attributes
    ----------
    names : tuple of (str, int)
        The first groups of ``sending`` are these. One for each node follows, which stands for all else on the
        node and cannot be moved.
    sending : SendingGroups
        Loads in hundredths of a core, capacities in cores. Moving a group costs 1, or 1 on average. Its nodes
        are those with executors, by name.
    tables : mapping of str to tuple of int
        Routing tables in force.
    task_nodes : mapping of str to array of int
        Node of each task of a component, by position.
    notes : tuple of str
        How costs of migrations came about, where they are not 1 each.
    """

    names: tuple[GroupName, ...]
    sending: SendingGroups
    tables: RoutingTables
    task_nodes: Mapping[str, IntArray]
    notes: tuple[str, ...] = ()

    def tables_of(self, allocation: IntArray) -> dict[str, tuple[int, ...]]:
        """Return the routing tables of an allocation to nodes.

        A group that stays on its node stays on its task. One that comes gets the component's task there that
        has the least load.
        """
        problem = self.sending.problem
        tables = {name: list(table) for name, table in self.tables.items()}
        loads = {name: np.zeros(nodes.size) for name, nodes in self.task_nodes.items()}
        coming = []
        for at, (name, group) in enumerate(self.names):
            if allocation[at] == problem.allocation[at]:
                loads[name][tables[name][group]] += problem.loads[at]
            else:
                coming.append(at)
        for at in sorted(coming, key=lambda at: -problem.loads[at]):
            name, group = self.names[at]
            there = np.flatnonzero(self.task_nodes[name] == allocation[at])
            task = int(there[np.argmin(loads[name][there])])
            tables[name][group] = task
            loads[name][task] += problem.loads[at]
        return {name: tuple(table) for name, table in tables.items()}


def read_key_groups(
    source: Observation, tables: RoutingTables, terms: BalanceTerms, moves: Sequence[MadeMove] = ()
) -> KeyGroups:
    """Read loads, places and traffic of key groups from a period.

    Parameters
    ----------
    tables : mapping of str to tuple of int
        Routing tables in force.
    terms : BalanceTerms
        Loads are of the CPU, whatever their resource is.
    moves : sequence of MadeMove
        Moves that the step has made, by whose pauses a state's migration is priced.

    Raises
    ------
    SchedulerDeclined
        Without loads, with an unknown node in ``leaving``, or where a worker node has no task of a keyed
        component.
    """
    plan = source.plan
    used = sorted({e.worker.node for e in plan.executors})
    node_of = {task: used.index(e.worker.node) for task, e in plan.by_task.items()}
    tasks = {name: sorted(t for e in plan.of(name) for t in e.tasks) for name in tables}
    task_nodes = {name: np.array([node_of[t] for t in own], dtype=np.int64) for name, own in tasks.items()}
    for name, nodes in task_nodes.items():
        if lacking := [used[at] for at in range(len(used)) if at not in nodes]:
            raise SchedulerDeclined(f"{lacking[0]} has no task of {name}: its key groups could not go there")
    names = tuple((name, group) for name, table in tables.items() for group in range(len(table)))
    cores = task_cores(source)
    loads = _loads(source, names, cores)
    home = np.array([task_nodes[name][tables[name][group]] for name, group in names], dtype=np.int64)
    all_loads = np.zeros(len(used))
    for task, own_cores in cores.items():
        all_loads[node_of[task]] += 100 * own_cores
    rest = np.maximum(all_loads - np.bincount(home, weights=loads, minlength=len(used)), 0.0)
    costs, note = group_costs(terms.migration_cost, _state_bytes(source, names), moves)
    problem = GroupProblem(
        loads=np.concatenate((loads, rest)),
        costs=np.concatenate((costs, np.full(rest.size, np.inf))),
        allocation=np.concatenate((home, np.arange(rest.size))),
        capacity=capacities([plan.node_names[name] for name in used]),
        leaving=mark_leaving(used, terms.leaving),
        max_migration_cost=terms.max_migration_cost,
        round_mean=terms.round_mean,
    )
    sending = SendingGroups(
        problem=problem,
        traffic_tps=_traffic_tps(source, names, problem.loads.size),
        downstream=count_downstream(plan.query_plan, [*(name for name, _ in names), *[""] * rest.size]),
        labels=(*(f"{name} {group}" for name, group in names), *(f"the rest of {node}" for node in used)),
    )
    return KeyGroups(names, sending, tables, task_nodes, (note,) if note else ())


def _loads(source: Observation, names: tuple[GroupName, ...], cores: Mapping[int, float]) -> FloatArray:
    """Return each group's load: on every task, the part of the task's CPU that the group's tuples took.

    The part is by the wall clock. A group that moved in the period has been on two tasks.
    """
    rows = read_counts(source, Metric.KEY_GROUP, MetricField.WALL_SUM_NS)
    if not rows["value"].sum() > 0:
        field = f"{Metric.KEY_GROUP}.{MetricField.WALL_SUM_NS}"
        raise SchedulerDeclined(f"metric {field} is missing from the period")
    of_task_ns = rows.groupby("task")["value"].sum().to_dict()
    loads = dict.fromkeys(names, 0.0)
    columns = (rows["task"], rows["component"], rows["peer"], rows["value"])
    for task, component, group, wall_ns in zip(*columns, strict=True):
        if wall_ns > 0:
            loads[str(component), int(group)] += 100 * cores[task] * wall_ns / of_task_ns[task]
    return np.array(list(loads.values()))


def _state_bytes(source: Observation, names: tuple[GroupName, ...]) -> FloatArray:
    """Return the size of each group's state when it was last reported; 0 where it never was."""
    rows = read_counts(source, Metric.KEY_GROUP, MetricField.STATE_BYTES)
    last = dict.fromkeys(names, (0.0, 0.0))
    columns = (rows["bucket_end_ms"], rows["component"], rows["peer"], rows["value"])
    for end_ms, component, group, size in zip(*columns, strict=True):
        name = str(component), int(group)
        last[name] = max(last[name], (float(end_ms), float(size)))
    return np.array([size for _, size in last.values()])


def _traffic_tps(source: Observation, names: tuple[GroupName, ...], groups: int) -> FloatArray:
    """Return tuples a second from group (row) to group of the next component (column)."""
    rows = read_counts(source, Metric.KEY_GROUP_SENT, MetricField.COUNT)
    index = {name: at for at, name in enumerate(names)}
    traffic_tps = np.zeros((groups, groups))
    columns = (rows["component"], rows["stream"], rows["peer"], rows["value"])
    for component, target, ends, count in zip(*columns, strict=True):
        sender, receiver = (int(group) for group in str(ends).split(">"))
        traffic_tps[index[component, sender], index[target, receiver]] += count / source.interval_s
    return traffic_tps
