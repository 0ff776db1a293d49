"""Topologies and worker nodes for tests of schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from harness.plans import (
    Component,
    Executor,
    PhysicalPlan,
    QueryPlan,
    Stream,
    TopologyConfiguration,
    Worker,
    WorkerNode,
)
from harness.protocols import Observation, Settings
from harness.schedulers.even import deal_evenly
from harness.schedulers.placement import number_executors

SLIDES = (("C1", "C3"), ("C3", "C4"), ("C4", "C6"), ("C2", "C5"), ("C5", "C6"))
"""Edges of the topology of Aniello's slides 15 to 26 and 31 to 39, one task each."""


def topology(edges: Sequence[tuple[str, str]], tasks: int | Mapping[str, int] = 1) -> QueryPlan:
    names = sorted({name for edge in edges for name in edge})
    sizes = dict.fromkeys(names, tasks) if isinstance(tasks, int) else tasks
    return QueryPlan(
        name="t",
        components=tuple(Component(name=n, role="other", tasks=sizes[n]) for n in names),
        streams=tuple(Stream(source=a, target=b, grouping="shuffle") for a, b in edges),
    )


def one_each(query_plan: QueryPlan, workers: int, **own: int) -> TopologyConfiguration:
    """Every task an executor of its own; ``acker=2`` asks for ackers."""
    counts = {c.name: c.tasks for c in query_plan.components} | {f"__{k}": v for k, v in own.items()}
    return TopologyConfiguration(executors=counts, workers=workers)


def nodes_of(slots: Sequence[int], cores: Sequence[float] | None = None) -> tuple[WorkerNode, ...]:
    """One node on a host of its own for each number of slots."""
    return tuple(
        WorkerNode(
            name=f"node-{i + 1}",
            address=f"127.0.0.{i + 2}",
            host=f"host-{i + 1}",
            cores=cores[i] if cores else 2,
            slots=tuple(range(6700, 6700 + number)),
        )
        for i, number in enumerate(slots)
    )


def without_used(nodes: Iterable[WorkerNode], used: Iterable[Worker]) -> tuple[WorkerNode, ...]:
    """The nodes without the slots that other topologies use."""
    taken = {(w.node, w.port) for w in used}
    return tuple(
        n.model_copy(update={"slots": tuple(p for p in n.slots if (n.name, p) not in taken)}) for n in nodes
    )


def evenly_placed(
    query_plan: QueryPlan,
    configuration: TopologyConfiguration,
    own_tasks: Mapping[str, int],
    nodes: tuple[WorkerNode, ...],
) -> PhysicalPlan:
    """Storm's plan of a topology that is submitted with these tasks of its own components."""
    executors = number_executors(query_plan, configuration, own_tasks)
    return deal_evenly(query_plan, nodes, executors, configuration.workers)[0]


def observation(
    plan: PhysicalPlan,
    traffic_tps: Mapping[tuple[int, int], float],
    cores: Mapping[int, float],
    interval_s: float = 10.0,
) -> Observation:
    """An observation of which only traffic between tasks and CPU of tasks are known, both exact."""
    rows: list[dict[str, object]] = []

    def add(measurement: str, task: int, field: str, value: float, peer: str = "", worker: str = "") -> None:
        component = plan.by_task[task].component if task in plan.by_task else ""
        rows.append(
            {
                "bucket_end_ms": 1000,
                "measurement": measurement,
                "component": component,
                "task": task,
                "worker": worker or plan.by_task[task].worker.label,
                "stream": "default",
                "peer": peer,
                "field": field,
                "value": value,
            }
        )

    sent: dict[int, float] = {}
    for (a, b), tps in traffic_tps.items():
        add("transferred", a, "count", tps * interval_s, peer=str(b))
        sent[a] = sent.get(a, 0.0) + tps
    for task, tps in sent.items():
        add("emitted", task, "count", tps * interval_s)
    bolts = {c.name for c in plan.query_plan.components if plan.query_plan.inputs(c.name)}
    processes: dict[str, float] = {}
    for task, used in cores.items():
        executor = plan.by_task[task]
        processes[executor.worker.label] = processes.get(executor.worker.label, 0.0) + used
        if executor.component in bolts:
            sender = plan.query_plan.inputs(executor.component)[0].source
            add("received", task, "count", 100.0, peer=sender)
            add("service", task, "count", 100.0)
            add("service", task, "cpu_count", 50.0)
            add("service", task, "cpu_sum_ns", used * interval_s * 1e9 / 2)
    for label, used in processes.items():
        add("worker", -1, "cpu_ns", used * interval_s * 1e9, worker=label)
    metrics = pd.DataFrame(rows)
    for name in ("measurement", "component", "worker", "stream", "peer", "field"):
        metrics[name] = metrics[name].astype("category")
    return Observation(
        plan=plan,
        settings=Settings(storm={}, version="2.8.3"),
        rate_tps=1.0,
        interval_s=interval_s,
        metrics=metrics,
        latency=pd.DataFrame(),
    )


def placed(
    query_plan: QueryPlan, nodes: tuple[WorkerNode, ...], placement: Mapping[str, str]
) -> PhysicalPlan:
    """A plan by executor and worker labels, as ``{"b[1-2]": "node-1:6700"}``."""
    executors = []
    for label, worker in placement.items():
        component, _, tasks = label.rstrip("]").rpartition("[")
        first, last = map(int, tasks.split("-"))
        node, _, port = worker.rpartition(":")
        executors.append(
            Executor(
                component=component,
                first_task=first,
                last_task=last,
                worker=Worker(node=node, port=int(port)),
            )
        )
    return PhysicalPlan(query_plan=query_plan, nodes=nodes, executors=tuple(executors))


def by_worker(plan: PhysicalPlan) -> dict[str, set[str]]:
    """Components in each worker."""
    workers: dict[str, set[str]] = {}
    for e in plan.executors:
        workers.setdefault(e.worker.label, set()).add(e.component)
    return workers
