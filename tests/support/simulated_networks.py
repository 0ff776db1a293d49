"""Networks made by hand for tests, and intervals for what their simulation gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from harness.models.contract.layout import Output, lay_out, outputs
from harness.models.network import Atoms, Hops, Input, Network, Service, constant
from harness.models.simulator import SimulatedRun
from harness.plans import (
    ACKER,
    Component,
    Executor,
    PhysicalPlan,
    QueryPlan,
    Stream,
    Window,
    Worker,
    WorkerNode,
)

NOTHING = Service(constant(0.0), constant(0.0))
ONE = np.array([0.0, 1.0])
PLENTY = 1000.0
"""Cores with which nobody waits for one."""


def waiting(atoms: Atoms) -> Service:
    return Service(constant(0.0), atoms)


def computing(atoms: Atoms) -> Service:
    return Service(atoms, constant(0.0))


def plan(
    edges: Sequence[tuple[str, str]],
    executors: Mapping[str, int] | int = 1,
    tasks: Mapping[str, int] | int | None = None,
    windows: Mapping[str, Window] | None = None,
    ackers: int = 1,
    workers: int = 1,
) -> PhysicalPlan:
    """Components as the edges name them one after another, executors round-robin over workers of one node."""
    names = list(dict.fromkeys(end for edge in edges for end in edge))
    count = dict.fromkeys(names, executors) if isinstance(executors, int) else dict(executors)
    held = count if tasks is None else dict.fromkeys(names, tasks) if isinstance(tasks, int) else dict(tasks)
    slots = [Worker(node="node-1", port=6700 + w) for w in range(workers)]
    found: list[Executor] = []
    first = 1
    for name in [*names, ACKER]:
        here, mine = (ackers, ackers) if name == ACKER else (count[name], held[name])
        for k in range(here):
            size = mine // here + (k < mine % here)
            found.append(
                Executor(
                    component=name,
                    first_task=first,
                    last_task=first + size - 1,
                    worker=slots[len(found) % workers],
                )
            )
            first += size
    return PhysicalPlan(
        query_plan=QueryPlan(
            name="made",
            components=tuple(
                Component(name=n, role="other", tasks=held[n], window=(windows or {}).get(n)) for n in names
            ),
            streams=tuple(Stream(source=a, target=b, grouping="shuffle") for a, b in edges),
        ),
        nodes=(
            WorkerNode(
                name="node-1", address="127.0.0.2", host="host", cores=1, slots=tuple(w.port for w in slots)
            ),
        ),
        executors=tuple(found),
    )


def network(
    physical: PhysicalPlan,
    rate_tps: float,
    service: Mapping[str, Service] | None = None,
    *,
    scv: float = 1.0,
    fanout: Mapping[str, np.ndarray] | None = None,
    routing: Mapping[tuple[str, str], np.ndarray] | None = None,
    idle_ms: float = 0.0,
    spout_idle_ms: float = 0.0,
    poll_ms: float = 0.0,
    hop_ms: float = 0.0,
    batch: int = 1,
    flush_ms: float = 0.0,
    transfer_batch: int = 1,
    round_robin: bool = False,
    in_turn: bool = False,
    send_ms: float = 0.0,
    acks: bool = False,
    acker_ms: float = 0.0,
    cores: float = PLENTY,
    background_cores: float = 0.0,
) -> Network:
    """Each spout gets ``rate_tps``, shared alike by its tasks; a bolt without service takes no time."""
    layout, query = lay_out(physical), physical.query_plan
    idle = np.full(len(layout), idle_ms)
    for spout in query.spouts:
        idle[layout.of[spout]] = spout_idle_ms
    windows = {c.name: c.window for c in query.components if c.window is not None}
    made: dict[Input, dict[Output, np.ndarray]] = {}
    spent: dict[Input, Service] = {}
    for name in layout.order:
        numbers = {o: (fanout or {}).get(name, ONE) for o in outputs(query, name)}
        for s in query.inputs(name):
            key = Input(name, s.source, s.stream)
            spent[key] = (service or {}).get(name, NOTHING)
            made[key] = {} if name in windows else numbers
        if name in windows:
            made[Input(name, "", "")] = numbers
    shares = {}
    for s in query.streams:
        rows, columns = len(physical.of(s.source)), len(layout.tasks[s.target])
        row = (routing or {}).get((s.source, s.target), np.full(columns, 1 / columns))
        shares[s] = np.broadcast_to(row, (rows, columns)).copy()
    hop = constant(hop_ms)
    return Network(
        layout=layout,
        input_tps={s: np.full(len(layout.tasks[s]), rate_tps / len(layout.tasks[s])) for s in query.spouts},
        input_scv=scv,
        poll_ms=dict.fromkeys(query.spouts, poll_ms),
        idle_ms=idle,
        routing=shares,
        fanout=made,
        service=spent,
        windows=windows,
        hops=Hops(hop, hop, hop),
        batch=batch,
        flush_ms=flush_ms,
        transfer_batch=transfer_batch,
        in_turn=in_turn,
        round_robin=frozenset(query.streams if round_robin else ()),
        send_ms=dict.fromkeys(query.sinks, constant(send_ms)) if send_ms else {},
        acks=acks,
        acker_service_ms=constant(acker_ms),
        host=np.zeros(len(physical.workers), dtype=np.int64),
        cores=np.array([cores]),
        background_cores=np.array([background_cores]),
    )


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that is to hold the true one in 999 of 1000 simulations."""

    mean: float
    half_width: float

    def holds(self, exact: float) -> bool:
        return abs(self.mean - exact) <= self.half_width

    @property
    def precision(self) -> float:
        return self.half_width / self.mean


def in_order(run: SimulatedRun) -> np.ndarray:
    """Ground truths by the time of entry: batches of them are then parts of the time, almost independent."""
    found = run.latencies
    return np.asarray(found.ground_truth_ms[np.argsort(found.entered_ms, kind="stable")])


def batch_means(values: np.ndarray, batches: int = 40) -> Interval:
    """The interval by batch means of values in the order of their times."""
    means = np.array([b.mean() for b in np.array_split(values, batches)])
    half = student.ppf(0.9995, batches - 1) * means.std(ddof=1) / np.sqrt(batches)
    return Interval(float(values.mean()), float(half))


def batch_quantile(values: np.ndarray, q: float, batches: int = 40) -> Interval:
    """The same for a quantile."""
    found = np.array([np.quantile(b, q) for b in np.array_split(values, batches)])
    half = student.ppf(0.9995, batches - 1) * found.std(ddof=1) / np.sqrt(batches)
    return Interval(float(np.quantile(values, q)), float(half))
