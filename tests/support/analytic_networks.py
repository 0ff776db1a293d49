"""Networks made by hand: one plan, rates and times, everything else plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.stats import gamma
from synthetic import deploy

from harness.models.composite.atoms import scaled
from harness.models.contract.layout import Output, lay_out, outputs
from harness.models.network import Atoms, Hops, Input, Network, Service, constant
from harness.models.solver.solve import solve
from harness.plans import Component, Grouping, PhysicalPlan, QueryPlan, Stream, Window


def exponential(mean_ms: float, atoms: int = 64) -> Atoms:
    """An exponential distribution as means of equally likely slices; its second moment is 1-2 % short."""
    edges = -np.log1p(-np.arange(atoms) / atoms)
    upper = np.append(edges[1:], np.inf)
    # mean of the distribution between two quantiles
    tail = np.where(np.isinf(upper), 0.0, (np.where(np.isinf(upper), 0.0, upper) + 1) * np.exp(-upper))
    means = ((edges + 1) * np.exp(-edges) - tail) * atoms
    return Atoms(means * mean_ms, np.full(atoms, 1 / atoms))


def query_plan(
    edges: Mapping[tuple[str, str], Grouping] | list[tuple[str, str]],
    tasks: int | Mapping[str, int] = 1,
    windows: Mapping[str, Window] | None = None,
) -> QueryPlan:
    """A query plan from its edges (source, target)."""
    pairs = edges if isinstance(edges, dict) else dict.fromkeys(edges, "shuffle")
    names = list(dict.fromkeys(n for pair in pairs for n in pair))
    windows = windows or {}
    return QueryPlan(
        name="made",
        components=tuple(
            Component(
                name=n,
                role="other",
                tasks=tasks if isinstance(tasks, int) else tasks[n],
                window=windows.get(n),
            )
            for n in names
        ),
        streams=tuple(Stream(source=a, target=b, grouping=g) for (a, b), g in pairs.items()),
    )


def network(
    plan: PhysicalPlan,
    rate_tps: float,
    cpu: Mapping[str, Atoms] | None = None,
    wait: Mapping[str, Atoms] | None = None,
    fanout: Mapping[str, list[float]] | None = None,
    routing: Mapping[tuple[str, str], np.ndarray] | None = None,
    idle_ms: float = 0.0,
    poll_ms: float = 0.0,
    scv: float = 1.0,
    hops_ms: tuple[float, float, float] = (0.0, 0.0, 0.0),
    acker_ms: float = 0.0,
    cores: float = 1e6,
    background: float = 0.0,
) -> Network:
    """A network in which every stream goes to all tasks alike and each tuple makes one, unless said."""
    layout = lay_out(plan)
    query = plan.query_plan
    cpu, wait, fanout, routing = cpu or {}, wait or {}, fanout or {}, routing or {}
    nothing = constant(0.0)
    made: dict[Input, dict[Output, np.ndarray]] = {}
    service = {}
    for c in query.components:
        keys = [Input(c.name, s.source, s.stream) for s in query.inputs(c.name)]
        for key in keys or [Input(c.name, "", "")]:
            service[key] = Service(cpu.get(c.name, nothing), wait.get(c.name, nothing))
        for key in [Input(c.name, "", "")] if c.window else keys:
            pmf = np.array(fanout.get(c.name, [0.0, 1.0]))
            made[key] = dict.fromkeys(outputs(query, c.name), pmf)
    routes = {}
    for s in query.streams:
        shape = (layout.of[s.source].stop - layout.of[s.source].start, query.component(s.target).tasks)
        share = 1.0 if s.grouping == "all" else 1 / shape[1]
        routes[s] = np.array(routing.get((s.source, s.target), np.full(shape, share)), dtype=np.float64)
        routes[s] = np.broadcast_to(routes[s], shape).copy()
    spouts = query.spouts
    hosts = sorted({n.host for n in plan.nodes})
    return Network(
        layout=layout,
        input_tps={n: np.full(query.component(n).tasks, rate_tps / len(spouts) / query.component(n).tasks)
                   for n in spouts},
        input_scv=scv,
        poll_ms=dict.fromkeys(spouts, poll_ms),
        idle_ms=np.full(len(layout), idle_ms),
        routing=routes,
        fanout=made,
        service=service,
        windows={c.name: c.window for c in query.components if c.window},
        hops=Hops(*(constant(h) for h in hops_ms)),
        batch=1,
        flush_ms=0.0,
        send_ms={},
        acks=True,
        acker_service_ms=constant(acker_ms),
        host=np.array([hosts.index(plan.node_names[w.node].host) for w in plan.workers]),
        cores=np.full(len(hosts), cores),
        background_cores=np.full(len(hosts), background),
    )  # fmt: skip


def station(rate_tps: float, cpu: Atoms, **more: object) -> Network:
    """One queue between a spout and nothing."""
    plan = deploy(query_plan([("spout", "queue")]), 1, nodes=1, workers_per_node=1, ackers=1)
    return network(plan, rate_tps, cpu={"queue": cpu}, **more)  # type: ignore[arg-type]


def random_network(seed: int, busiest: float = 0.9, windows: bool = True) -> Network:
    """A random plan: the generator that the comparison with the simulator is made over.

    One spout and 2 to 5 bolts, each fed by one or two components before it, 1 to 4 executors of up to 8
    tasks; services with a squared coefficient of variation of 0 to 2, CPU or waiting; fan-outs of 1, of a
    mean below 1, or a multiplier; perhaps one window by count or time; skewed or even routing; sleeps of 0 to
    5 ms; two nodes with two workers each on one host of ample cores. Service times are scaled so that the
    busiest executor has a load drawn from 0.2 to ``busiest``, and ackers' so that none has more.
    """
    rng = np.random.default_rng(seed)
    bolts = int(rng.integers(2, 6))
    names = ["spout", *(f"bolt-{i}" for i in range(bolts))]
    edges: dict[tuple[str, str], Grouping] = {}
    for i in range(1, bolts + 1):
        before = names[max(0, i - 3) : i]
        for source in rng.choice(before, size=min(len(before), 1 + int(rng.random() < 0.3)), replace=False):
            edges[str(source), names[i]] = "fields"
    if not any(a == "spout" for a, _ in edges):
        edges["spout", names[1]] = "fields"
    made: dict[str, Window] = {}
    if windows and rng.random() < 0.5:
        name = names[int(rng.integers(1, bolts + 1))]
        if rng.random() < 0.6:
            length = int(rng.choice([5, 10, 20, 50]))
            slide = length if rng.random() < 0.7 else max(length // 5, 1)
            made[name] = Window(kind="count", length=length, slide=slide)
        else:
            length = int(rng.choice([50, 100, 200, 500]))
            slide = length if rng.random() < 0.7 else length // 5
            made[name] = Window(kind="time", length=length, slide=slide)
    tasks = {n: int(rng.choice([2, 4, 8])) for n in names}
    plan = deploy(
        query_plan(edges, tasks, made),
        {n: int(rng.integers(1, min(4, tasks[n]) + 1)) for n in names},
        ackers=int(rng.integers(1, 4)),
    )
    fanout: dict[str, list[float]] = {}
    for n in names[1:]:
        kind = rng.random()
        if kind < 0.15:
            fanout[n] = [0.3, 0.7]
        elif kind < 0.4 and "multiplied" not in fanout:
            mean = float(rng.integers(2, 8))
            pmf = np.exp(-0.5 * ((np.arange(2 * mean + 1) - mean) / max(mean / 4, 0.5)) ** 2)
            pmf[0] = 0
            fanout[n] = list(pmf / pmf.sum())
            fanout["multiplied"] = []
    fanout.pop("multiplied", None)
    cpu: dict[str, Atoms] = {}
    wait: dict[str, Atoms] = {}
    for n in names[1:]:
        scv = float(rng.choice([0.0, 0.25, 1.0, 2.0]))
        mean = float(rng.uniform(0.1, 1.0))
        (cpu if rng.random() < 0.5 else wait)[n] = spread(mean, scv)
    routing = {
        (s.source, s.target): rng.dirichlet(np.full(tasks[s.target], rng.choice([1.0, 5.0, 1000.0])))
        for s in plan.query_plan.streams
    }
    net = network(
        plan,
        float(rng.choice([50.0, 200.0, 500.0])),
        cpu,
        wait,
        fanout,
        routing,
        idle_ms=float(rng.choice([0.0, 1.0, 2.0, 5.0])),
        poll_ms=float(rng.choice([0.0, 0.5, 1.0])),
        scv=float(rng.choice([0.0, 0.5, 1.0])),
        hops_ms=(0.02, float(rng.uniform(0.2, 1.0)), float(rng.uniform(0.3, 1.5))),
        acker_ms=0.02,
    )
    loads = solve(net).loads
    load, acking = (
        float(part.max(initial=0)) for part in np.split(loads, [net.layout.ackers.start])
    )  # executors of components, then ackers
    factor = float(rng.uniform(0.2, busiest)) / load if load > 0 else 1.0
    service = {k: _times(s, factor) if k.source else s for k, s in net.service.items()}
    acker_ms = net.acker_service_ms
    return replace(
        net,
        service=service,
        acker_service_ms=scaled(acker_ms, acker_ms.mean_ms * min(1.0, busiest / max(acking, 1e-9))),
    )


def _times(service: Service, factor: float) -> Service:
    return Service(*(scaled(a, factor * a.mean_ms) for a in (service.cpu_ms, service.wait_ms)))


def spread(mean_ms: float, scv: float) -> Atoms:
    """Atoms of a gamma distribution."""
    if scv == 0:
        return constant(mean_ms)
    edges = gamma.ppf(np.linspace(0, 1, 65), 1 / scv, scale=mean_ms * scv)
    share = np.diff(gamma.cdf(edges, 1 / scv + 1, scale=mean_ms * scv))  # of the mean, by slice
    return Atoms(share * mean_ms * 64, np.full(64, 1 / 64))
