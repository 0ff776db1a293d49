"""A network as flat arrays, for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray
from harness.models.network import Atoms, Network, hop_kinds
from harness.models.solver.compiled import compiled
from harness.models.solver.indices import executor_count, task_count
from harness.models.solver.records import ATOM, EXECUTOR, HOST, TASK, Flat, Records
from harness.models.solver.structure import SPOUT, Structure, structure

_NOTHING = Atoms(np.zeros(1), np.ones(1))
_ONE = np.array([0.0, 1.0])


def _require_solved(network: Network) -> None:
    """Decline what is beyond the solver's domain."""
    if network.batched:
        raise ModelDeclined("batches are not solved, only played")
    if network.relief.parts or network.most_pending:
        raise ModelDeclined("helping, pauses and limits of pending messages are not solved, only played")


def flatten(network: Network) -> tuple[Structure, Flat]:
    """Return a network's structure and its numbers.

    Raises
    ------
    ModelDeclined
        When numbers are missing, negative or not finite.
    """
    _require_solved(network)
    layout = network.layout
    names = structure(layout.plan.query_plan)
    component, klass, output, stream = (
        a.copy() for a in (names.component, names.klass, names.output, names.stream)
    )
    try:
        routes = [network.routing[s] for s in names.streams]
        fans = [_ONE if not key.source and key not in network.fanout else network.fanout[key][o]
                for key, o in names.fans]  # fmt: skip
        service = [network.service[key] if key.source else network.service.get(key) for key in names.inputs]
        inputs = {
            c: network.input_tps[names.components[c]] for c in np.flatnonzero(component["kind"][:-1] == SPOUT)
        }
        for c in inputs:
            component[c]["poll_ms"] = network.poll_ms[names.components[c]]
    except KeyError as missing:
        raise ModelDeclined(f"the network has nothing for {missing.args[0]}") from missing
    slices = [layout.of[name] for name in layout.order]
    executors = np.array([at.stop - at.start for at in slices])
    component["first_executor"][1:] = np.cumsum(executors)
    component["first_task"][1:] = np.cumsum([layout.tasks[name].size for name in layout.order])
    klass["first_cell"][1:] = np.cumsum(executors[klass["component"][:-1]])
    output["first_port"][1:] = np.cumsum(executors[output["component"][:-1]])
    routes = _rows(stream, executors, routes)
    stream["in_turn"][:-1] = [s in network.round_robin for s in names.streams]
    task = np.zeros(component["first_task"][-1], dtype=TASK)
    task["executor"] = np.concatenate([layout.holder[name] for name in layout.order])
    for c, of_tasks_tps in inputs.items():
        task["input_tpms"][component[c]["first_task"] : component[c + 1]["first_task"]] = of_tasks_tps / 1000
    executor = np.zeros(len(layout), dtype=EXECUTOR)
    executor["worker"] = layout.worker
    executor["host"] = network.host[layout.worker]
    executor["idle_ms"] = network.idle_ms
    host = np.zeros(network.cores.size, dtype=HOST)
    host["cores"], host["background"] = network.cores, network.background_cores
    host["quota"] = network.by_quota
    cpu = [s.cpu_ms if s else _NOTHING for s in service]
    wait = [s.wait_ms if s else _NOTHING for s in service]
    send = [network.send_ms.get(name, _NOTHING) for name in names.components]
    hop, kind_between = hop_kinds(layout, network.hops)
    atom, first = _atoms([*cpu, *wait, *send, *hop, network.acker_service_ms])
    classes, components = len(cpu), len(send)
    klass["first_cpu"] = first[: classes + 1]
    klass["first_wait"] = first[classes : 2 * classes + 1]
    component["first_send"] = first[2 * classes : 2 * classes + components + 1]
    route = np.concatenate([r.ravel() for r in routes]) if routes else np.zeros(0)
    share = np.zeros(stream[-1]["first_share"])
    fan = np.concatenate(fans) if fans else np.zeros(0)
    parts = [
        task["input_tpms"],
        route,
        fan,
        atom["value"],
        atom["probability"],
        executor["idle_ms"],
    ]
    together = np.concatenate([*parts, host["cores"], host["background"], component["poll_ms"]])
    if not (np.isfinite(together).all() and (together >= 0).all()):
        raise ModelDeclined("the network has a time, rate or probability that is negative or no number")
    net = Flat(
        components=component,
        classes=klass,
        outputs=output,
        streams=stream,
        tasks=task,
        executors=executor,
        hosts=host,
        atoms=atom,
        subscribers=names.subscribers,
        first_fan=_firsts([f.size for f in fans]),
        fan=fan,
        route=route,
        share=share,
        first_hop=first[-len(hop) - 2 : -1],
        kind_between=kind_between,
        first_acker=int(executors.sum()),
        acker_atoms=int(first[-2]),
        last_atom=int(first[-1]),
        input_scv=float(network.input_scv),
        input_in_turn=int(network.in_turn),
    )
    _shares(net)
    return names, net


def _rows(stream: Records, executors: IntArray, routes: list[FloatArray]) -> list[FloatArray]:
    """Fill in where each stream's routes and shares are; return the rows that are kept."""
    receivers = executors[stream["target"][:-1]]
    alike = [r.strides[0] == 0 or bool((r == r[:1]).all()) for r in routes]
    rows = [r[:1] if same else r for r, same in zip(routes, alike, strict=True)]
    stream["alike"][:-1] = alike
    stream["route_step"][:-1] = [0 if same else r.shape[1] for r, same in zip(routes, alike, strict=True)]
    stream["share_step"][:-1] = np.where(np.array(alike, dtype=bool), 0, receivers)
    stream["first_route"][1:] = np.cumsum([r.size for r in rows])
    stream["first_share"][1:] = np.cumsum(np.array([len(r) for r in rows], dtype=np.int64) * receivers)
    return rows


def _firsts(sizes: Sequence[int]) -> IntArray:
    found = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def _atoms(several: Iterable[Atoms]) -> tuple[Records, IntArray]:
    listed = list(several)
    first = _firsts([a.values_ms.size for a in listed])
    found = np.zeros(first[-1], dtype=ATOM)
    found["value"] = np.concatenate([a.values_ms for a in listed])
    found["probability"] = np.concatenate([a.probabilities for a in listed])
    return found, first


@compiled
def _shares(net: Flat) -> None:
    """Add the tasks' routing up by their executors."""
    for stream in range(net.streams.size - 1):
        target, edge = net.streams[stream].target, net.streams[stream]
        targets, tasks = executor_count(net, target), task_count(net, target)
        first = net.components[target].first_task
        size = net.streams[stream + 1].first_share - edge.first_share
        for i in range(size // targets if targets else 0):
            for j in range(tasks):
                at = edge.first_share + i * targets + net.tasks[first + j].executor
                net.share[at] += net.route[edge.first_route + i * tasks + j]
