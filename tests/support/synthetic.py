"""Observations made from known truths: every count follows exactly from routing, coefficients and rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from harness.plans import (
    ACKER,
    Component,
    Executor,
    Grouping,
    PhysicalPlan,
    QueryPlan,
    Role,
    Stream,
    Window,
    Worker,
    WorkerNode,
)
from harness.protocols import Observation, Settings
from harness.schemas import METRICS

SETTINGS = Settings(storm={"topology.disable.loadaware.messaging": True}, version="2.8.3")


def component(name: str, tasks: int = 4, role: Role = "other", window: Window | None = None) -> Component:
    return Component(name=name, role=role, tasks=tasks, window=window)


def stream(source: str, target: str, grouping: Grouping = "shuffle", name: str = "default") -> Stream:
    return Stream(source=source, target=target, grouping=grouping, stream=name)


def fields_to_fields(tasks: int = 4) -> QueryPlan:
    return QueryPlan(
        name="fields-to-fields",
        components=tuple(component(n, tasks) for n in ("spout", "bolt-a", "bolt-b", "sender")),
        streams=(
            stream("spout", "bolt-a"),
            stream("bolt-a", "bolt-b", "fields"),
            stream("bolt-b", "sender", "fields"),
        ),
    )


def all_in_one(tasks: int = 4, window: Window | None = None) -> QueryPlan:
    window = window or Window(kind="count", length=10, slide=10)
    return QueryPlan(
        name="all-in-one",
        components=(
            component("spout", tasks),
            component("multiplier", tasks),
            component("window", tasks, window=window),
            component("sender", tasks),
        ),
        streams=(
            stream("spout", "multiplier"),
            stream("multiplier", "window", "fields"),
            stream("window", "sender", "fields"),
        ),
    )


def join_split(tasks: int = 4) -> QueryPlan:
    window = Window(kind="count", length=20, slide=20)
    return QueryPlan(
        name="join-split",
        components=(
            *(component(n, tasks) for n in ("spout", "json", "multiplier")),
            component("join", tasks, window=window),
            *(component(n, tasks) for n in ("sender-1", "sender-2")),
        ),
        streams=(
            stream("spout", "json"),
            stream("spout", "multiplier"),
            stream("json", "join", "fields"),
            stream("multiplier", "join", "fields"),
            stream("join", "sender-1", "fields", "stream-5"),
            stream("join", "sender-2", "fields", "stream-6"),
        ),
    )


def deploy(
    query_plan: QueryPlan,
    executors: Mapping[str, int] | int,
    nodes: int = 2,
    workers_per_node: int = 2,
    hosts: Sequence[str] = ("host-1",),
    ackers: int = 4,
) -> PhysicalPlan:
    """Place executors on workers round-robin, the ackers first, tasks shared as evenly as Storm does."""
    worker_nodes = tuple(
        WorkerNode(
            name=f"node-{i + 1}",
            address=f"127.0.0.{i + 2}",
            host=hosts[i % len(hosts)],
            cores=2,
            slots=tuple(6700 + 10 * i + k for k in range(workers_per_node)),
        )
        for i in range(nodes)
    )
    slots = [Worker(node=n.name, port=p) for p in range(workers_per_node) for n in worker_nodes]
    slots = [Worker(node=w.node, port=6700 + 10 * (int(w.node[5:]) - 1) + w.port) for w in slots]
    found: list[Executor] = []
    first = 1
    everything = [(ACKER, ackers, ackers)]
    for c in query_plan.components:
        count = executors if isinstance(executors, int) else executors[c.name]
        everything.append((c.name, c.tasks, min(count, c.tasks)))
    for name, tasks, count in everything:
        sizes = [tasks // count + (k < tasks % count) for k in range(count)]
        for size in sizes:
            worker = slots[len(found) % len(slots)]
            found.append(
                Executor(component=name, first_task=first, last_task=first + size - 1, worker=worker)
            )
            first += size
    return PhysicalPlan(query_plan=query_plan, nodes=worker_nodes, executors=tuple(found))


@dataclass
class Truth:
    """What a made-up topology does; arrays by task, ascending.

    ``keys[stream]`` are task to task routing probabilities of keyed streams, ``coefficients[component,
    stream]`` the emits on that output for one tuple of each input, ``service_ms`` by component and task.
    Streams that are not keyed go to every task alike.
    """

    emission_tps: Mapping[str, np.ndarray]
    keys: Mapping[Stream, np.ndarray] = field(default_factory=dict)
    coefficients: Mapping[tuple[str, str], Mapping[Stream, np.ndarray]] = field(default_factory=dict)
    service_ms: Mapping[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def random(query_plan: QueryPlan, rate_tps: float, seed: int, service_ms: float = 0.5) -> Truth:
        rng = np.random.default_rng(seed)
        tasks = {c.name: c.tasks for c in query_plan.components}
        spouts = query_plan.spouts
        emission = {s: np.full(tasks[s], rate_tps / len(spouts) / tasks[s]) for s in spouts}
        keys = {
            s: rng.dirichlet(np.full(tasks[s.target], 2.0), size=tasks[s.source])
            if any(i.grouping == "fields" for i in query_plan.inputs(s.source))
            else np.tile(rng.dirichlet(np.full(tasks[s.target], 2.0)), (tasks[s.source], 1))
            for s in query_plan.streams
            if s.grouping == "fields"
        }
        coefficients: dict[tuple[str, str], dict[Stream, np.ndarray]] = {}
        for c in query_plan.components:
            for out in query_plan.outputs(c.name):
                for inp in query_plan.inputs(c.name):
                    uneven = any(i.grouping == "fields" for i in query_plan.inputs(c.name))
                    value = rng.uniform(0.5, 2.0, size=c.tasks if uneven else 1)
                    coefficients.setdefault((c.name, out.stream), {})[inp] = value * np.ones(c.tasks)
        service = {c.name: rng.uniform(0.5, 1.5, c.tasks) * service_ms for c in query_plan.components}
        return Truth(emission, keys, coefficients, service)


@dataclass
class Totals:
    """Rates in tuples/s that follow from a truth, by task."""

    received: dict[Stream, np.ndarray]
    emitted: dict[tuple[str, str], np.ndarray]
    transferred: dict[Stream, np.ndarray]


def totals(query_plan: QueryPlan, truth: Truth) -> Totals:
    found = Totals({}, {}, {})
    waiting = list(query_plan.components)
    while waiting:
        c = next(c for c in waiting if all(s in found.received for s in query_plan.inputs(c.name)))
        waiting.remove(c)
        inputs = query_plan.inputs(c.name)
        for s in query_plan.outputs(c.name):
            out = (c.name, s.stream)
            found.emitted[out] = (
                np.sum([truth.coefficients[out][i] * found.received[i] for i in inputs], axis=0)
                if inputs
                else truth.emission_tps[c.name]
            )
            n = query_plan.component(s.target).tasks
            if s.grouping == "all":
                routing = np.ones((c.tasks, n))
            elif s.grouping == "global":
                routing = np.eye(1, n).repeat(c.tasks, axis=0)
            else:
                routing = truth.keys.get(s, np.full((c.tasks, n), 1 / n))
            found.transferred[s] = found.emitted[out][:, None] * routing
            found.received[s] = found.transferred[s].sum(axis=0)
    return found


def observation(
    plan: PhysicalPlan,
    truth: Truth,
    interval_s: float = 24.0,
    buckets: int = 12,
    seed: int = 0,
    settings: Settings = SETTINGS,
    latency: pd.DataFrame | None = None,
) -> Observation:
    """Spread the truth's totals unevenly over buckets, as rows of metrics.parquet."""
    rng = np.random.default_rng(seed)
    query_plan = plan.query_plan
    rates = totals(query_plan, truth)
    tasks = {c.name: sorted(t for e in plan.of(c.name) for t in e.tasks) for c in query_plan.components}
    ends = 1_700_000_000_000 + 2000 * np.arange(1, buckets + 1)
    rows: list[tuple[object, ...]] = []

    def add(
        measurement: str, comp: str, task: int, stream: str, peer: str, fld: str, values: np.ndarray
    ) -> None:
        e = plan.by_task[task]
        rows.extend(
            (int(end), measurement, comp, task, e.worker.label, stream, peer, fld, float(v))
            for end, v in zip(ends, values, strict=True)
        )

    for c in query_plan.components:
        inputs = query_plan.inputs(c.name)
        received = {
            s: interval_s * rates.received[s][:, None] * rng.dirichlet(np.full(buckets, 5.0), size=c.tasks)
            for s in inputs
        }
        for i, task in enumerate(tasks[c.name]):
            for s in inputs:
                add("received", c.name, task, s.stream, s.source, "count", received[s][i])
            for out in dict.fromkeys(s.stream for s in query_plan.outputs(c.name)):
                if inputs:
                    beta = truth.coefficients[c.name, out]
                    emitted = np.sum([beta[s][i] * received[s][i] for s in inputs], axis=0)
                else:
                    emitted = np.full(buckets, truth.emission_tps[c.name][i] * interval_s / buckets)
                add("emitted", c.name, task, out, "", "count", emitted)
            for s in query_plan.outputs(c.name):
                for j, to in enumerate(tasks[s.target]):
                    count = rates.transferred[s][i, j] * interval_s
                    if count > 0:
                        add(
                            "transferred",
                            c.name,
                            task,
                            s.stream,
                            str(to),
                            "count",
                            np.full(buckets, count / buckets),
                        )
            if inputs:
                count = np.sum([received[s][i] for s in inputs], axis=0)
                add("service", c.name, task, "", "", "count", count)
                add("service", c.name, task, "", "", "wall_sum_ns", count * truth.service_ms[c.name][i] * 1e6)
                add("service", c.name, task, "", "", "cpu_sum_ns", count * truth.service_ms[c.name][i] * 1e6)
                add("service", c.name, task, "", "", "cpu_count", count)
                squares = count * 2 * (truth.service_ms[c.name][i] * 1e6) ** 2  # as of exponential times
                add("service", c.name, task, "", "", "wall_sumsq_ns2", squares)
                add("service_hist", c.name, task, "", "wall", "1048576", count)
            else:
                add("ack", c.name, task, "", "", "count", np.full(buckets, 10.0))
                add("ack", c.name, task, "", "", "sum_ns", np.full(buckets, 10 * 5e6))
                add("ack_hist", c.name, task, "", "", "5242880", np.full(buckets, 10.0))
    metrics = pd.DataFrame(rows, columns=METRICS.names)
    for name in ("measurement", "component", "worker", "stream", "peer", "field"):
        metrics[name] = metrics[name].astype("category")
    return Observation(
        plan=plan,
        settings=settings,
        rate_tps=float(sum(e.sum() for e in truth.emission_tps.values())),
        interval_s=interval_s,
        metrics=metrics,
        latency=latency if latency is not None else latencies(plan, np.linspace(1.0, 100.0, 100)),
        complete_latency_ms={e.label: 20.0 for s in query_plan.spouts for e in plan.of(s)},
    )


def latencies(plan: PhysicalPlan, values_ms: np.ndarray, members: int = 1) -> pd.DataFrame:
    """Rows of latency.parquet: first tasks of the first spout and sink, ``members`` rows an output."""
    spout, sink = plan.query_plan.spouts[0], plan.query_plan.sinks[0]
    first, last = (plan.of(name)[0].first_task for name in (spout, sink))
    n = len(values_ms)
    entered = np.arange(n, dtype=np.int64) * 1_000_000
    return pd.DataFrame(
        {
            "in_interval": True,
            "entered_ns": entered,
            "left_ns": entered + np.round(np.asarray(values_ms) * 1e6).astype(np.int64),
            "ground_truth_ms": values_ms,
            "thesis_ground_truth_ms": values_ms,
            "path": pd.Categorical([f"{spout}:{first}/{sink}:{last}"] * n),
            "sink": pd.Categorical([sink] * n),
            "output_partition": 0,
            "output_offset": np.arange(n) // members,
        }
    )
