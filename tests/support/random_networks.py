"""Random networks, for property tests of the analytic model and of the simulator itself.

A draw is repeated when a message makes more than 100 tuples, or a window takes more than half a minute.

Notes
-----
Plans are those of ``random_plans``. Their mechanisms:

==================  ================================================================================
messages            50 to 1000 a second and spout; one time in two in turn; time between those of a
                    task: equal, or with a squared coefficient of variation of 1/16, 1 or 3 (in turn
                    only up to 1/16)
shuffle groupings   one in two round-robin, the others drawn
spouts              a poll holds the executor for 0, 0.05 or 1 ms; one time in two a message costs
                    0.01 to 0.1 ms of CPU
sleeps              none one time in five, else 0.1 to 5 ms, the same for all
fields groupings    tasks get shares as of 16 keys with weights 16, 15 ... 1, dealt out at random
fan-out             one to one 6 times in 10; 1 in 10 passes 30 to 90 % on; 3 in 10 multiply: a
                    rounded normal with mean 1.5 to 8 and standard deviation of 0 to 2, at least 1
windows             an output a window; one in five has 0 or 1, one in five 1 or 2
service             constant, exponential, uniform or lognormal (coefficient of variation 0.3 to 2),
                    as CPU time, as waiting, or as both; 1 executor in 20 takes 1.5 times as long
load                services are scaled until the busiest executor has the load drawn: 0.1 to
                    ``busiest``; what the scaling does not reach (sinks' clients, ackers) stays below it
cores               one network in two has more than executors; the others' hosts have 1, 2, 4 or 8
                    cores, on which other work takes 0 to 0.3 of what the executors leave; the busiest
                    executor's load is estimated with the waiting for cores in it
hops                0.01 to 0.05 ms in a worker, 0.2 to 1.5 ms between workers, as much again
                    between nodes, exponential beyond a constant half
batches             one network in four: of 2 to 20 tuples within a worker or, the other half, to
                    other workers, flushed each 1 to 20 ms
sinks' clients      0 to 0.05 ms
ackers              one a worker, 0.002 to 0.02 ms a message
==================  ================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from random_plans import PlanLimits, pick, random_plan

from harness.models.contract.layout import FloatArray, Layout, Output, lay_out, outputs
from harness.models.network import Atoms, Hops, Input, Network, Service, constant
from harness.models.simulator.distributions import exponential, lognormal, scaled, uniform
from harness.models.simulator.loads import loads
from harness.plans import Stream

MOST_VISITS, MOST_TOLD = 100.0, 2000.0
"""Tuples, and messages to ackers, that one message may make."""
SLOWEST_WINDOW_S = 30.0
ATTEMPTS = 1000


@dataclass(frozen=True)
class NetworkLimits(PlanLimits):
    """Limits that random networks keep to.

    Attributes
    ----------
    busiest : float
        Highest load of an executor or host.
    contended : bool, optional
        Whether executors wait for cores; drawn when None.
    acks : bool
        Whether trees are tracked.
    """

    busiest: float = 0.9
    contended: bool | None = None
    acks: bool = True


def random_network(seed: int, limits: NetworkLimits | None = None) -> Network:
    """Draw a network.

    Parameters
    ----------
    seed : int
        The same seed and limits give the same network.

    Raises
    ------
    ValueError
        When the limits leave nothing that is not too large.
    """
    rng = np.random.default_rng([seed, 20])
    limits = limits or NetworkLimits()
    for _ in range(ATTEMPTS):
        network = _load(rng, _mechanisms(rng, lay_out(random_plan(rng, limits)), limits), limits)
        if network is not None:
            return network
    raise ValueError(f"no network within {limits}")


def _mechanisms(rng: np.random.Generator, layout: Layout, limits: NetworkLimits) -> Network:
    """Draw all but the cores, with services of any length."""
    plan = layout.plan.query_plan
    fanout: dict[Input, dict[Output, FloatArray]] = {}
    service: dict[Input, Service] = {}
    windows = {c.name: c.window for c in plan.components if c.window is not None}
    for name in layout.order:
        made = outputs(plan, name)
        if name in plan.spouts:
            if rng.random() < 0.5:
                own = Service(constant(rng.uniform(0.01, 0.1)), constant(0.0))
                service[Input(name, "", "")] = own
            continue
        for s in plan.inputs(name):
            key = Input(name, s.source, s.stream)
            service[key] = _service(rng)
            fanout[key] = {o: _fan(rng) for o in made if name not in windows}
        if name in windows:
            fanout[Input(name, "", "")] = {o: _window_fan(rng) for o in made}
    count = len(layout)
    idle_ms = 0.0 if rng.random() < 0.2 else float(np.exp(rng.uniform(np.log(0.1), np.log(5.0))))
    batches = [1, 1]
    if rng.random() < 0.25:
        batches[int(rng.integers(2))] = int(rng.integers(2, 21))
    in_turn = bool(rng.random() < 0.5)
    near, far = rng.uniform(0.01, 0.05), rng.uniform(0.2, 1.5)
    hosts = list(dict.fromkeys(n.host for n in layout.plan.nodes))
    node_host = {n.name: hosts.index(n.host) for n in layout.plan.nodes}
    return Network(
        layout=layout,
        input_tps={s: _shares(rng, layout, s, in_turn) * rng.uniform(50, 1000) for s in plan.spouts},
        input_scv=pick(rng, (0.0, 1 / 16) if in_turn else (0.0, 1 / 16, 1.0, 3.0)),
        in_turn=in_turn,
        round_robin=frozenset(s for s in plan.streams if s.grouping == "shuffle" and rng.random() < 0.5),
        poll_ms={s: pick(rng, (0.0, 0.05, 1.0)) for s in plan.spouts},
        idle_ms=np.full(count, idle_ms),
        routing={s: _routing(rng, layout, s) for s in plan.streams},
        fanout=fanout,
        service=service,
        windows=windows,
        hops=Hops(constant(near), _hop(far), _hop(2 * far)),
        batch=batches[0],
        transfer_batch=batches[1],
        flush_ms=float(rng.uniform(1, 20)) if max(batches) > 1 else 0.0,
        send_ms={s: constant(rng.uniform(0, 0.05)) for s in plan.sinks},
        acks=limits.acks,
        acker_service_ms=constant(rng.uniform(0.002, 0.02)),
        host=np.array([node_host[w.node] for w in layout.plan.workers], dtype=np.int64),
        cores=np.full(len(hosts), count + 1.0),
        background_cores=np.zeros(len(hosts)),
    )


def _load(rng: np.random.Generator, network: Network, limits: NetworkLimits) -> Network | None:
    """Scale the services to a load, choose cores; None when something else is too large."""
    before = loads(network)
    messages = sum(float(r.sum()) for r in network.input_tps.values())
    told = before.acker_tps * len(network.layout.executors[network.layout.ackers])
    if before.visits_per_s > MOST_VISITS * messages or told > MOST_TOLD * messages:
        return None
    if before.slowest_window_s() > SLOWEST_WINDOW_S:
        return None
    target = rng.uniform(0.1, limits.busiest)
    bare = loads(_scaled(network, 0.0)).utilisation
    own = before.utilisation - bare
    if bare.max() >= limits.busiest:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = float(np.nanmin(np.where(own > 0, (np.maximum(target, bare) - bare) / own, np.nan)))
    network = _scaled(network, factor)
    contended = rng.random() < 0.5 if limits.contended is None else limits.contended
    if not contended:
        return network
    cores = np.array([float(pick(rng, (1, 2, 4, 8))) for _ in network.cores])
    left = cores - loads(network).host_cores
    if not (left > 0.1 * cores).all():
        return None
    network = replace(network, cores=cores, background_cores=left * rng.uniform(0, 0.3, cores.size))
    return network if _busiest_with_waiting(network) <= limits.busiest else None


def _busiest_with_waiting(network: Network) -> float:
    """Estimate the busiest executor's load when it waits for cores, as if host and thread knew no other."""
    found = loads(network)
    stretch = 1 / (1 - found.host_load**network.cores)
    hosts = network.host[network.layout.worker]
    return float(max((found.utilisation * stretch[hosts]).max(), found.host_load.max()))


def _scaled(network: Network, factor: float) -> Network:
    service = {
        key: Service(scaled(s.cpu_ms, factor), scaled(s.wait_ms, factor)) if key.source else s
        for key, s in network.service.items()
    }
    return replace(network, service=service)


def _service(rng: np.random.Generator) -> Service:
    kind = pick(rng, ("cpu", "wait", "both"))
    one = _time(rng, float(np.exp(rng.uniform(np.log(0.2), np.log(2.0)))))
    other = _time(rng, float(rng.uniform(0.2, 2.0)))
    none = constant(0.0)
    return Service(none if kind == "wait" else one, none if kind == "cpu" else other)


def _time(rng: np.random.Generator, mean_ms: float) -> Atoms:
    kind = pick(rng, ("constant", "exponential", "uniform", "lognormal"))
    if kind == "constant":
        return constant(mean_ms)
    if kind == "exponential":
        return exponential(mean_ms)
    if kind == "uniform":
        return uniform(0.0, 2 * mean_ms)
    return lognormal(mean_ms, float(rng.uniform(0.3, 2.0)))


def _hop(mean_ms: float) -> Atoms:
    varying = exponential(mean_ms / 2)
    return Atoms(mean_ms / 2 + varying.values_ms, varying.probabilities)


def _fan(rng: np.random.Generator) -> FloatArray:
    drawn = rng.random()
    if drawn < 0.6:
        return np.array([0.0, 1.0])
    if drawn < 0.7:
        passed = rng.uniform(0.3, 0.9)
        return np.array([1 - passed, passed])
    mean, sd = rng.uniform(1.5, 8), rng.uniform(0.0, 2.0)
    numbers = np.arange(20)
    weights = np.exp(-0.5 * ((numbers - mean) / max(sd, 0.1)) ** 2)
    weights[0] = 0.0
    return np.asarray(weights / weights.sum())


def _window_fan(rng: np.random.Generator) -> FloatArray:
    drawn, share = rng.random(), rng.uniform(0.3, 0.9)
    if drawn < 0.2:
        return np.array([1 - share, share])
    if drawn < 0.4:
        return np.array([0.0, 1 - share, share])
    return np.array([0.0, 1.0])


def _shares(rng: np.random.Generator, layout: Layout, spout: str, in_turn: bool) -> FloatArray:
    """Shares of a spout's tasks: mostly equal, as of partitions that are filled evenly."""
    count = len(layout.tasks[spout])
    weights = np.ones(count) if in_turn or rng.random() < 0.75 else rng.uniform(0.5, 1.5, count)
    return np.asarray(weights / weights.sum())


def _routing(rng: np.random.Generator, layout: Layout, stream: Stream) -> FloatArray:
    tasks = len(layout.tasks[stream.target])
    sources = layout.of[stream.source].stop - layout.of[stream.source].start
    if stream.grouping == "all":
        row = np.ones(tasks)
    elif stream.grouping == "global":
        row = np.eye(tasks)[0]
    elif stream.grouping == "fields":
        keys = np.arange(16, 0, -1) / 136
        row = np.zeros(tasks)
        np.add.at(row, rng.integers(tasks, size=16), keys)
    else:
        row = np.full(tasks, 1 / tasks)
    return np.tile(row, (sources, 1))
