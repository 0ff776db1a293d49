"""Variability of what comes to a component's executors: flows of all streams, split and joined.

Covariances of a source's executors fade on the way, and come back in where the flows meet again (``flow``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import index, inlined, inner
from harness.models.solver.indices import (
    atoms_of,
    classes_of,
    executor_count,
    hop_between,
    port_at,
    receiver_at,
    receivers_of,
    sender_at,
    senders_of,
    share_at,
    task_count,
)
from harness.models.solver.rates import TUPLES
from harness.models.solver.records import Flat
from harness.models.solver.stages import Stages
from harness.models.solver.variability import SCALES_MS, dealt, drawn


class SplitFlow(NamedTuple):
    """One sender's flow to one receiver.

    Attributes
    ----------
    rate : float
        Of all that the sender's port emits.
    share : float
        Of it that the receiver gets.
    round_size : int
        Tasks that are dealt to in turn; 0 where they are drawn.
    weight : float
        Of this flow in what comes to the receiver.
    """

    rate: float
    share: float
    round_size: int
    weight: float


@index
def round_size(net: Flat, stream: int, sender: int) -> int:
    """Return how many tasks a sender of a stream deals to in turn; 0 where it draws them."""
    edge, found = net.streams[stream], 0
    if edge.in_turn:
        row = edge.first_route + sender * edge.route_step
        for i in range(task_count(net, edge.target)):
            found += net.route[row + i] > 0
    return found


@inner
def hop_blurs(net: Flat) -> FloatArray:
    """Return how far apart two tuples' hops are on average, by kind of hop."""
    found = np.zeros(net.first_hop.size - 1)
    for kind in range(found.size):
        for i in atoms_of(net, kind):
            for j in atoms_of(net, kind):
                one, other = net.atoms[i], net.atoms[j]
                found[kind] += one.probability * other.probability * abs(one.value - other.value)
    return found


@inner
def meet(stages: Stages, component: int, fade: FloatArray) -> None:
    """Fill in the arrivals at a component's executors, from all streams.

    Parameters
    ----------
    fade : array (kinds, scales)
        Share of an index's distance from 1 that a hop leaves.
    """
    net, flow = stages.net, stages.flow
    first = net.components[component].first_executor
    flow.arrivals[first : first + executor_count(net, component)] = 0.0
    for cls in classes_of(net, component):
        stream = net.classes[cls].stream
        if net.streams[stream].alike:
            _meet_alike(stages, stream, fade)
            continue
        for i in senders_of(net, stream):
            port, sender = port_at(net, stream, i), sender_at(net, stream, i)
            rate, dealt_to = stages.rates.port[TUPLES, port], round_size(net, stream, i)
            if not rate > 0:
                continue
            for j in receivers_of(net, stream):
                share, receiver = share_at(net, stream, i, j), receiver_at(net, stream, j)
                if share > 0:
                    weight = rate * share / stages.service.rate[receiver]
                    part = SplitFlow(rate, share, dealt_to, weight)
                    by_hop = fade[hop_between(net, sender, receiver)]
                    join(part, flow.ports[port], by_hop, flow.arrivals[receiver])


@inner
def _meet_alike(stages: Stages, stream: int, fade: FloatArray) -> None:
    """Join all connections of a stream whose sources route alike, by worker, with the result of ``join``.

    An executor's arrivals are then a function of its share and its worker only.
    """
    net, ports, arrivals = stages.net, stages.flow.ports, stages.flow.arrivals
    dealt_to = round_size(net, stream, 0)
    scales, workers = SCALES_MS.size, net.kind_between.shape[0]
    total, own, others = 0.0, np.zeros((workers, scales)), np.zeros((workers, scales))
    for i in senders_of(net, stream):
        port = port_at(net, stream, i)
        rate = stages.rates.port[TUPLES, port]
        if rate > 0:
            here = net.executors[sender_at(net, stream, i)].worker
            total += rate
            for k in range(scales):
                rest = dealt(0.0, 0.0, rate * SCALES_MS[k] / dealt_to) if dealt_to > 0 else 1.0
                own[here, k] += rate * (ports[port, k] - 1)
                others[here, k] += rate * (rest - 1)
    come, beside = np.zeros((workers, scales)), np.zeros((workers, scales))
    for here in range(workers):
        for there in range(workers):
            left = fade[net.kind_between[here, there]]
            for k in range(scales):
                come[there, k] += own[here, k] * left[k]
                beside[there, k] += others[here, k] * left[k]
    for j in receivers_of(net, stream):
        share, receiver = share_at(net, stream, 0, j), receiver_at(net, stream, j)
        if share > 0 and stages.service.rate[receiver] > 0:
            there, weight = net.executors[receiver].worker, share / stages.service.rate[receiver]
            for k in range(scales):
                found = total + share * come[there, k] + (1 - share) * beside[there, k]
                arrivals[receiver, k] += weight * found


@inlined
def join(flow: SplitFlow, index: FloatArray, fade: FloatArray, found: FloatArray) -> None:
    """Add one connection's flow to what arrives: split off, blurred by the hop.

    Parameters
    ----------
    index, found : array (scales)
        Of dispersion, of all that the port emits and of what arrives.
    fade : array (scales)
    """
    rate, share = flow.rate, flow.share
    for k in range(SCALES_MS.size):
        time_ms = SCALES_MS[k]
        part = drawn(index[k], share)
        if flow.round_size > 0 and share < 1:
            part = dealt(index[k], share, rate * time_ms / flow.round_size)
        found[k] += flow.weight * (1 + (part - 1) * fade[k])


@inner
def rejoin(stages: Stages, component: int, blur: FloatArray, joint: FloatArray) -> None:
    """Add the sources' covariances to the arrivals at a component, and find the component's own.

    Parameters
    ----------
    blur : array (kinds)
        Of hops, ms (``hop_blurs``).
    joint : array (components, scales)
        Covariances, as indices.
    """
    net, arrivals, ports = stages.net, stages.flow.arrivals, stages.flow.ports
    to, targets = net.components[component].first_executor, executor_count(net, component)
    served, copies = stages.service.rate[to : to + targets].sum(), False
    common = np.zeros(SCALES_MS.size)
    for cls in classes_of(net, component):
        stream = net.classes[cls].stream
        source = net.streams[stream].source
        first, sources = net.components[source].first_executor, executor_count(net, source)
        copies = copies or bool(net.streams[stream].copies)
        share = np.zeros(targets)
        mean_blur = _dealt_out(stages, stream, blur, share)
        total = share.sum()
        if not (total > 0 and served > 0) or net.streams[stream].copies:
            continue
        made = total / stages.service.rate[first : first + sources].sum()
        for k in range(SCALES_MS.size):
            own = 0.0
            for i in range(sources):
                port = port_at(net, stream, i)
                own += stages.rates.port[TUPLES, port] / total * ports[port, k]
            fade = SCALES_MS[k] / (SCALES_MS[k] + mean_blur)
            common[k] = made * joint[source, k] * fade
            joint[component, k] += total / served * (1 + (own - 1) * fade + common[k])
        for j in range(targets):
            rate = stages.service.rate[to + j]
            if share[j] > 0 and rate > 0:
                weight = share[j] / rate * share[j] / total
                for k in range(SCALES_MS.size):
                    arrivals[to + j, k] = max(arrivals[to + j, k] + weight * common[k], 0.0)
    for k in range(SCALES_MS.size):
        for j in range(targets):
            rate = stages.service.rate[to + j]
            joint[component, k] -= rate / served * arrivals[to + j, k] if served > 0 else 0.0
    if copies:
        joint[component] = 0.0


@inner
def _dealt_out(stages: Stages, stream: int, blur: FloatArray, share: FloatArray) -> float:
    """Fill in a stream's rate to each of the target's executors; return the mean blur of a hop, in ms."""
    net = stages.net
    total = blurs = 0.0
    if net.streams[stream].alike:
        workers = net.kind_between.shape[0]
        sent, come = np.zeros(workers), np.zeros(workers)
        for i in senders_of(net, stream):
            rate = stages.rates.port[TUPLES, port_at(net, stream, i)]
            sent[net.executors[sender_at(net, stream, i)].worker] += rate
        for j in range(share.size):
            share[j] = sent.sum() * share_at(net, stream, 0, j)
            come[net.executors[receiver_at(net, stream, j)].worker] += share_at(net, stream, 0, j)
            total += share[j]
        for here in range(workers):
            for there in range(workers):
                blurs += sent[here] * come[there] * blur[net.kind_between[here, there]]
        return blurs / total if total > 0 else 0.0
    for i in senders_of(net, stream):
        rate = stages.rates.port[TUPLES, port_at(net, stream, i)]
        for j in range(share.size):
            part = rate * share_at(net, stream, i, j)
            if part > 0:
                share[j] += part
                total += part
                kind = hop_between(net, sender_at(net, stream, i), receiver_at(net, stream, j))
                blurs += part * blur[kind]
    return blurs / total if total > 0 else 0.0
