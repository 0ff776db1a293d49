"""Places of executors as Nimbus would choose them: tasks numbered, shared and placed as Storm 2.8.3 does.

Tasks are numbered by component in the order of the names, Storm's own first. An executor's tasks follow one
another, and the first executors have one more where the tasks do not come out even. Storm's ``EvenScheduler``
deals the executors, by task, to slots that take turns between the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.machine.server_config import Ports
from harness.plans import Executor, PhysicalPlan, QueryPlan, TopologyConfiguration, Worker, WorkerNode

HOST = "simulated"


def worker_nodes(
    nodes: int, slots_per_node: int, cores: float, quota_cores: Mapping[str, float] | None = None
) -> tuple[WorkerNode, ...]:
    """Return the worker nodes of the simulated cluster: all on one host, with the slots of a local one's.

    Parameters
    ----------
    nodes, slots_per_node : int
    cores : float
        Of the host.
    quota_cores : mapping, optional
        CPU quotas, by the names of nodes.
    """
    quotas = quota_cores or {}
    ports = Ports()
    return tuple(
        WorkerNode(
            name=f"node-{n + 1}",
            address=f"127.0.0.{n + 2}",
            host=HOST,
            cores=cores,
            slots=ports.slots(n, slots_per_node),
            cpu_quota_cores=quotas.get(f"node-{n + 1}"),
        )
        for n in range(nodes)
    )


def place(
    query_plan: QueryPlan,
    configuration: TopologyConfiguration,
    own_tasks: Mapping[str, int],
    nodes: tuple[WorkerNode, ...],
) -> PhysicalPlan:
    """Return the physical plan of a configuration.

    Parameters
    ----------
    configuration : TopologyConfiguration
        Storm's own executors included.
    own_tasks : mapping
        Tasks of Storm's own components.
    """
    tasks = {c.name: c.tasks for c in query_plan.components} | dict(own_tasks)
    slots = [
        Worker(node=n.name, port=n.slots[i])
        for i in range(max(len(n.slots) for n in nodes))
        for n in nodes
        if i < len(n.slots)
    ][: configuration.workers]
    executors: list[Executor] = []
    first = 1
    for name in sorted(configuration.executors):
        count = configuration.executors[name]
        for k in range(count):
            held = tasks[name] // count + (k < tasks[name] % count)
            place_ = slots[len(executors) % len(slots)]
            executors.append(
                Executor(component=name, first_task=first, last_task=first + held - 1, worker=place_)
            )
            first += held
    return PhysicalPlan(query_plan=query_plan, nodes=nodes, executors=tuple(executors))
