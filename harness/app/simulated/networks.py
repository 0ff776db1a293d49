"""The network that an experiment describes: its settings, and constants for everything that they leave open.

The constants are of the size that was measured of Storm 2.8.3 on one small machine. They make a run look like
one, and claim nothing about any machine:

- a bolt's own work: 0.15 ms of CPU a tuple, coefficient of variation 0.5
- a spout's emit: 0.05 ms of CPU
- a sink's client: 0.05 ms after the send
- an acker: 0.02 ms of CPU a message
- a hop in a worker: 0.03 ms, exponential
- a hop between workers: the rest of the transfer thread's sleep of 1.06 ms, and 0.3 ms, exponential
- a sleep: 0.06 ms longer than asked
- from broker to spout: 0.5 ms

All worker nodes share one host with 4 cores; a node with a CPU quota has 4 cores of its own, and its quota.

These are not simulated: garbage collection, the CPU use of polling and of Storm's own threads, message
time-outs, replays, Storm's own back-pressure. Max spout pending is simulated where the topology has
``helping`` or ``backpressure``, in all of its steps. The adapting of load-aware routing is not: with it, each
executor's first task gets its executor's share, near or far.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.datasets import dataset_of, key_counts
from harness.models import contention
from harness.models.composite.source.inputs import BEYOND_MS
from harness.models.contract.layout import FloatArray, Layout, Output, lay_out, outputs
from harness.models.network import Atoms, Hops, Input, Network, Service, constant
from harness.models.simulator.distributions import exponential, lognormal, uniform
from harness.plans import Batching, PhysicalPlan, Relief, Stream, batched_streams
from harness.topologies.component_settings import Multiplier, ServiceTime
from harness.topologies.java_text import JAVA_INT, string_hash
from harness.topologies.key_groups import first_table, key_group
from harness.topologies.roles import traits
from harness.topologies.ways import copies_sent, tuples_per_message

WORK = lognormal(0.15, 0.5)
EMIT_MS, SEND_MS, ACK_MS = 0.05, 0.05, 0.02
WITHIN = exponential(0.03)
TRANSFER_SLEEP_MS, FAR_MS = 1.06, 0.3
SLACK_MS = 0.06
FETCH_MS = 0.5
"""From the log append of a message to its being there for the spout."""
HOST_CORES = 4.0
QUEUE_ROOM = 32_768
"""Storm's default of ``topology.executor.receive.buffer.size``."""


def network(
    experiment: Experiment,
    plan: PhysicalPlan,
    rate_tps: float,
    batching: Batching | None = None,
    relief: Relief | None = None,
) -> Network:
    """Return the network of an experiment's topology on a physical plan.

    Parameters
    ----------
    batching : mapping, optional
        What travels in batches of the rewriting layer; by default what the topology says.
    relief : Relief, optional
        Helping and back-pressure that are in force; by default what the topology says.

    Raises
    ------
    UsageError
        For ``routing: parity``: what a window makes on one output depends on the other there.
    """
    layout, topology = lay_out(plan), experiment.topology.own()
    if "parity" in topology.routings.values():
        raise UsageError("cluster.kind: the simulator does not play routing: parity", "use one-per-window")
    roles, services = topology.roles, topology.services
    numbers = {
        **{name: children(m) for name, m in topology.multipliers.items()},
        **{name: np.array([1 - keep, keep]) for name, keep in topology.keeps.items()},
    }
    storm = experiment.storm_settings()
    service: dict[Input, Service] = {}
    fanout: dict[Input, dict[Output, FloatArray]] = {}
    windows = {c.name: c.window for c in plan.query_plan.components if c.window is not None}
    for name in layout.order:
        made = outputs(plan.query_plan, name)
        if traits(roles[name]).spout:
            service[Input(name, "", "")] = Service(constant(EMIT_MS), constant(0.0))
            continue
        made_of_one = numbers.get(name, np.array([0.0, 1.0]))
        for s in plan.query_plan.inputs(name):
            key = Input(name, s.source, s.stream)
            service[key] = _cost(services.get(name))
            fanout[key] = {} if name in windows else dict.fromkeys(made, made_of_one)
        if name in windows:
            fanout[Input(name, "", "")] = dict.fromkeys(made, made_of_one)
    batch = int(str(storm.get("topology.producer.batch.size", 1)))
    transfer = int(str(storm.get("topology.transfer.batch.size", 1)))
    flush = float(str(storm.get("topology.batch.flush.interval.millis", 1)))
    routing = {s: routing_of(experiment, layout, s) for s in plan.query_plan.streams}
    spouts, turns = plan.query_plan.spouts, experiment.shares
    hosts = contention.hosts(layout)
    relief = topology.relief if relief is None else relief
    helpers = {helped: plan.query_plan.inputs(helped)[0].source for helped in relief.helping}
    rates = {s: rate_tps * turns[s] / sum(turns.values()) for s in spouts}
    return Network(
        layout=layout,
        input_tps={
            s: np.full(len(layout.tasks[s]), rate / len(layout.tasks[s])) for s, rate in rates.items()
        },
        input_scv=1 / 16 if experiment.input.arrivals == "poisson" else 0.0,
        in_turn=True,
        poll_ms=dict.fromkeys(spouts, topology.spout.poll_timeout_ms + BEYOND_MS),
        idle_ms=np.full(len(layout), topology.waiting.sleep_ms + SLACK_MS),
        routing=routing,
        round_robin=frozenset(
            s for s in routing if s.grouping in ("shuffle", "local-or-shuffle") and not topology.load_aware
        ),
        fanout=fanout,
        service=service,
        windows=windows,
        hops=Hops(WITHIN, _far(), _far()),
        batch=batch,
        transfer_batch=transfer,
        relief=relief,
        help_routing={
            s: routing_of(experiment, layout, s, helper)
            for helped, helper in helpers.items()
            for s in plan.query_plan.outputs(helped)
        },
        queue_room=int(str(storm.get("topology.executor.receive.buffer.size", QUEUE_ROOM))),
        most_pending=topology.max_spout_pending if topology.relief.parts else 0,
        row_batches=batched_streams(plan.query_plan, topology.batching if batching is None else batching),
        flush_ms=flush if max(batch, transfer) > 1 else 0.0,
        send_ms=dict.fromkeys(plan.query_plan.sinks, constant(SEND_MS)),
        acks=True,
        acker_service_ms=constant(ACK_MS),
        host=hosts.of_worker,
        cores=np.full(hosts.cores.size, HOST_CORES),
        background_cores=np.zeros(hosts.cores.size),
        quota_cores=hosts.quota,
    )


def _far() -> Atoms:
    """Return the rest of a sleep and the network's part: every pair of 20 equal shares of each."""
    sleep, network_ms = uniform(0.0, TRANSFER_SLEEP_MS, 20), exponential(FAR_MS, 20)
    values = np.sort(np.add.outer(sleep.values_ms, network_ms.values_ms).ravel())
    return Atoms(values, np.full(values.size, 1 / values.size))


def _cost(asked: ServiceTime | None) -> Service:
    """Return a bolt's own work, and what the experiment adds to it."""
    none = constant(0.0)
    if asked is None:
        return Service(WORK, none)
    added = {
        "constant": lambda: constant(asked.mean_ms),
        "exponential": lambda: exponential(asked.mean_ms),
        "uniform": lambda: uniform(0.0, 2 * asked.mean_ms),
        "lognormal": lambda: lognormal(asked.mean_ms, asked.cv or 0.0),
    }[asked.distribution]()
    if asked.kind == "wait":
        return Service(WORK, added)
    both = np.sort(np.add.outer(WORK.values_ms[::10], added.values_ms).ravel())
    both *= (WORK.mean_ms + added.mean_ms) / both.mean()
    return Service(Atoms(both, np.full(both.size, 1 / both.size)), none)


def children(multiplier: Multiplier) -> FloatArray:
    """Return the probabilities of 0, 1, 2 ... children: a rounded normal, drawn anew until within bounds.

    Examples
    --------
    >>> children(Multiplier(min=1, max=3, mean=2, sd=0)).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    numbers = np.arange(multiplier.max + 1)
    if multiplier.sd == 0:
        weights = (numbers == np.rint(multiplier.mean)).astype(np.float64)
    else:
        edges = (np.append(numbers, multiplier.max + 1) - 0.5 - multiplier.mean) / multiplier.sd
        weights = np.diff(ndtr(edges))
    weights[: multiplier.min] = 0.0
    return np.asarray(weights / weights.sum())


def routing_of(experiment: Experiment, layout: Layout, stream: Stream, sender: str = "") -> FloatArray:
    """Return where a stream's tuples go (source's executors, target's tasks).

    With a ``sender`` they are sent by its executors, in the place of the source's.
    """
    senders = layout.of[sender or stream.source]
    sources = layout.executors[senders]
    tasks = len(layout.tasks[stream.target])
    held = layout.membership[stream.target]
    row = np.zeros(tasks)
    match stream.grouping:
        case "all":
            row += 1.0
        case "global":
            row[0] = 1.0
        case "fields" | "partial-key":
            keys, groups = emitted_keys(experiment, stream.source), experiment.topology.own().key_groups
            if stream.target in groups:
                row = _by_first_table(keys, groups[stream.target], tasks)
            else:
                row = _by_key(keys, tasks, stream.grouping == "partial-key")
        case "local-or-shuffle":
            here = layout.worker[senders, None] == layout.worker[layout.of[stream.target]]
            near = (here @ held > 0).astype(np.float64)
            near[near.sum(axis=1) == 0] = 1.0
            return np.asarray(near / near.sum(axis=1, keepdims=True))
        case "shuffle" if experiment.topology.load_aware:
            row[held.argmax(axis=1)] = 1 / held.shape[0]
        case _:
            row += 1 / tasks
    return np.tile(row, (len(sources), 1))


def emitted_keys(experiment: Experiment, component: str) -> Mapping[str, float]:
    """Return the weights of the keys of what a component emits.

    They are the workload's, but where it makes them of a dataset's rows, or forwards some and gives the
    others the first key.
    """
    topology, drawn = experiment.topology.own(), experiment.input.keys
    dataset = dataset_of(experiment.input)
    if dataset is not None and component in topology.row_keys:
        return key_counts(dataset, topology.row_keys[component])
    if component not in topology.forwarded_shares:
        return drawn
    share, plan = topology.forwarded_shares[component], topology.query_plan()
    turns = experiment.shares
    arriving = tuples_per_message(plan, topology.ratios, turns)
    found = dict.fromkeys(drawn, 0.0)
    for s in plan.inputs(component):
        keys = emitted_keys(experiment, s.source)
        many = arriving[s.source] * topology.ratios.get(s.source, 1.0) * copies_sent(plan, s)
        for key, weight in keys.items():
            found[key] = found.get(key, 0.0) + share * many * weight / sum(keys.values())
    whole = sum(found.values()) / share if share else 1.0
    found[next(iter(drawn))] += (1 - share) * whole
    return {key: weight for key, weight in found.items() if weight > 0}


def _by_first_table(keys: Mapping[str, float], groups: int, tasks: int) -> FloatArray:
    """Return the tasks' shares of the keys where key groups are on them, as a topology begins."""
    row, table = np.zeros(tasks), first_table(groups, tasks)
    for key, weight in keys.items():
        row[table[key_group(key, groups)]] += weight
    return np.asarray(row / row.sum())


def _by_key(keys: Mapping[str, float], tasks: int, two: bool) -> FloatArray:
    """Return the tasks' shares of the keys; ``two``: each key's tuples go to two tasks alike."""
    row = np.zeros(tasks)
    for key, weight in keys.items():
        first = ((31 + string_hash(key) + JAVA_INT // 2) % JAVA_INT - JAVA_INT // 2) % tasks
        row[first] += weight / 2 if two else weight
        if two:
            row[(first + 1 + string_hash(key) // 7) % tasks] += weight / 2
    return np.asarray(row / row.sum())
