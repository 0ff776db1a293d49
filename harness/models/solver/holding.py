"""Storm's batches: waits of tuples and acks in each, and arrivals that come together by them.

Batches are those of ``JCQueue`` and ``WorkerTransfer`` of storm-client 2.8.3. An executor has a batch of
``batch`` tuples for every executor of its own worker, and one of ``transfer_batch`` for other workers, acks
included. Both are flushed. Tuples from other workers fill a batch of ``batch`` for each receiving executor,
which nothing flushes. A full batch goes when the next tuple comes for it (``tryPublish``). A limit of 1 is no
batch.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.batching import FIRST, NUMBERS, BatchSender, gather_law, hold_law
from harness.models.solver.batching import SECOND as SECOND_HOLD
from harness.models.solver.compiled import bare, compiled, index, inlined, inner
from harness.models.solver.indices import (
    ackers_of,
    cell_at,
    classes_of,
    executor_count,
    executors_of,
    fan_at,
    link_at,
    port_at,
    receiver_at,
    receivers_of,
    sender_at,
    senders_of,
    share_at,
    streams_of,
    task_count,
)
from harness.models.solver.rates import ANCHORS, MEAN_MADE, SQUARE_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.stages import Holds, Stages
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import SCALES_MS, at_scale, dealt, drawn, released, rounding
from harness.models.solver.waiting import MEAN, SECOND, SLEEP, Batches


def no_holds(net: Flat, rates: Rates) -> Holds:
    """Return room for the waits of a network, with the rates to and from other workers filled in."""
    everybody = net.executors.size
    near = net.batch > 1
    one, any_ = everybody if net.transfer_batch > 1 else 0, everybody if near else 0
    found = Holds(
        np.zeros((int(net.streams["first_link"][-1]) if near else 0, NUMBERS)),
        np.zeros((one, NUMBERS)),
        np.zeros((any_, NUMBERS)),
        np.zeros((any_, NUMBERS)),
        np.zeros(everybody),
        np.zeros(everybody),
        np.zeros(net.first_acker),
    )
    if net.batch > 1 or net.transfer_batch > 1:
        _far_rates(net, rates, found)
    return found


def has_batches(net: Flat) -> bool:
    """Return True if tuples wait for batches, for code that is not compiled."""
    return net.batch > 1 or net.transfer_batch > 1


@index
def batched(net: Flat) -> bool:
    """Return True if tuples wait for batches."""
    return net.batch > 1 or net.transfer_batch > 1


@index
def near(net: Flat, executor: int, other: int) -> bool:
    """Return True if two executors are of one worker."""
    return bool(net.executors[executor].worker == net.executors[other].worker)


@index
def round_size(net: Flat, stream: int, sender: int) -> int:
    """Return how many tasks a sender of a stream deals to in turn; 0 where it draws them."""
    edge, found = net.streams[stream], 0
    if edge.in_turn:
        row = edge.first_route + sender * edge.route_step
        for i in range(task_count(net, edge.target)):
            found += net.route[row + i] > 0
    return found


@compiled
def _far_rates(net: Flat, rates: Rates, holds: Holds) -> None:
    for stream in range(net.streams.size - 1):
        for i in senders_of(net, stream):
            sender, rate = sender_at(net, stream, i), rates.port[TUPLES, port_at(net, stream, i)]
            for j in receivers_of(net, stream):
                receiver = receiver_at(net, stream, j)
                if not near(net, sender, receiver):
                    sent = rate * share_at(net, stream, i, j)
                    holds.far_out[sender] += sent
                    holds.far_in[receiver] += sent
    for cls in range(net.classes.size - 1):
        component = net.classes[cls].component
        spout = net.components[component].kind == SPOUT
        for i in range(executor_count(net, component)):
            executor = net.components[component].first_executor + i
            acks = rates.cell[TUPLES if spout else ANCHORS, cell_at(net, cls, i)]
            holds.acks[executor] += acks
            _far_acks(net, holds, executor, acks, spout)


@inlined
def _far_acks(net: Flat, holds: Holds, executor: int, rate: float, answered: bool) -> None:
    """Add an executor's acks to ackers of other workers and, where ``answered``, their answers to it."""
    for acker in ackers_of(net):
        if not near(net, executor, acker):
            one = rate / len(ackers_of(net))
            holds.far_out[executor] += one
            holds.far_in[acker] += one
            if answered:
                holds.far_out[acker] += one
                holds.far_in[executor] += one


@bare
def sender_of(stages: Stages, loop: SpoutLoop, component: int, executor: int) -> BatchSender:
    """Return what a flush meets at an executor; a component of -1 is the ackers'.

    Mean work is got from the mean wait (Brumelle 1971).
    """
    net, law, hold = stages.net, stages.flow.law[executor], stages.service.hold[executor]
    kind = net.components[component].kind if component >= 0 else TIME_WINDOW + 1
    if kind == SPOUT:
        empty = loop.in_empty[executor]
        round_ms = empty * loop.empty_ms[executor] + (1 - empty) * loop.used_ms[executor]
        used = loop.used_ms[executor]
        return BatchSender(used, used * used, used / 2, round_ms, 0.0, 0.0)
    load, first, look_ms = min(stages.service.load[executor], 1.0), hold[0], net.executors[executor].idle_ms
    rest = hold[1] / (2 * first) if first > 0 else 0.0
    work = load * (law[MEAN] + rest)
    if kind == TIME_WINDOW:
        return BatchSender(0.0, 0.0, 0.0, look_ms, load, work)
    before = law[MEAN] + law[SLEEP] / 2 + first
    spread = law[SECOND] - law[MEAN] ** 2 + law[SLEEP] ** 2 / 12 + hold[1] - first * first
    return BatchSender(before, before * before + max(spread, 0.0), 0.0, look_ms, load, work)


@inlined
def _time_scale(rate: float, limit: int, flush_ms: float) -> float:
    """Return how long a batch takes to fill, or to be flushed."""
    return min(flush_ms, limit / rate) if rate > 0 else flush_ms


@inner
def send_holds(stages: Stages, component: int, executor: int, sender: BatchSender, index: FloatArray) -> None:
    """Fill in the waits in the batches of one executor of a component.

    Parameters
    ----------
    index : array (scales)
        Of dispersion of what leaves the executor; that of what it makes is filled in.
    """
    net, holds = stages.net, stages.flow.holds
    place, ackers = executor - net.components[component].first_executor, len(ackers_of(net))
    acks = _ack_group(stages, component, executor)
    if holds.out.shape[0] and holds.far_out[executor] > 0:
        far_index = _far_index(stages, component, executor, acks, index)
        rate = holds.far_out[executor]
        hold_law(rate, net.transfer_batch, net.flush_ms, far_index, sender, holds.out[executor])
    if not holds.link.shape[0]:
        return
    for i in streams_of(net, component):
        stream = net.subscribers[i]
        emitted = stages.rates.port[TUPLES, port_at(net, stream, place)]
        known, alike, filled = -1, 0.0, 0.0
        for j in receivers_of(net, stream):
            at, share = link_at(net, stream, place, j), share_at(net, stream, place, j)
            if not (near(net, executor, receiver_at(net, stream, j)) and share > 0 and emitted > 0):
                continue
            fills = link_rate(stages, stream, place, j)
            if known >= 0 and alike == share and filled == fills:
                holds.link[at] = holds.link[known]
                continue
            time_ms = _time_scale(fills, net.batch, net.flush_ms)
            part = _thinned(stages, stream, place, share, time_ms)
            hold_law(fills, net.batch, net.flush_ms, part, sender, holds.link[at])
            known, alike, filled = at, share, fills
    if ackers:
        fills = holds.acks[executor] / ackers
        time_ms = _time_scale(fills, net.batch, net.flush_ms)
        part = drawn(at_scale(index, time_ms) + acks - 1, 1 / ackers)
        hold_law(fills, net.batch, net.flush_ms, part, sender, holds.ack[executor])


@bare
def _far_index(stages: Stages, component: int, executor: int, acks: float, leaves: FloatArray) -> float:
    """Return the index of all that an executor sends to other workers, at the scale of its batch.

    What one tuple makes, and its ack, go together, so the streams' counts have a covariance.

    Parameters
    ----------
    acks : float
        Acks that it sends at once.
    leaves : array (scales)
        Index of what leaves the executor.
    """
    net, holds = stages.net, stages.flow.holds
    bolt = net.components[component].kind < COUNT_WINDOW
    passing = stages.service.rate[executor] if bolt else math.inf
    time_ms = _time_scale(holds.far_out[executor], net.transfer_batch, net.flush_ms)
    place = executor - net.components[component].first_executor
    index = total = squares = far = 0.0
    for i in streams_of(net, component):
        stream = net.subscribers[i]
        share = 0.0
        for j in receivers_of(net, stream):
            if not near(net, executor, receiver_at(net, stream, j)):
                share += share_at(net, stream, place, j)
        port = port_at(net, stream, place)
        sent = stages.rates.port[TUPLES, port] * share
        if sent > 0:
            index += sent * drawn(at_scale(stages.flow.ports[port], time_ms), min(share, 1.0))
            total += sent
            squares += sent * sent
    for acker in ackers_of(net):
        far += (0.0 if near(net, executor, acker) else 1.0) / len(ackers_of(net))
    sent = holds.acks[executor] * far
    if sent > 0:
        index += sent * drawn(at_scale(leaves, time_ms) + acks - 1, far)
        total += sent
        squares += sent * sent
    if not total > 0:
        return 1.0
    return index / total + (total - squares / total) / passing * at_scale(leaves, time_ms)


@bare
def reply_holds(stages: Stages, acker: int, sender: BatchSender) -> None:
    """Fill in the waits of one acker's messages to spouts."""
    net, holds = stages.net, stages.flow.holds
    if holds.out.shape[0]:
        hold_law(holds.far_out[acker], net.transfer_batch, net.flush_ms, 1.0, sender, holds.out[acker])
    if not holds.ack.shape[0]:
        return
    replies, spouts = 0.0, 0
    for component in range(net.components.size - 1):
        if net.components[component].kind == SPOUT:
            for spout in executors_of(net, component):
                if near(net, acker, spout):
                    replies += holds.acks[spout] / len(ackers_of(net))
                    spouts += 1
    hold_law(replies / max(spouts, 1), net.batch, net.flush_ms, 1.0, sender, holds.ack[acker])


@bare
def link_rate(stages: Stages, stream: int, sender: int, receiver: int) -> float:
    """Return the rate that fills a sender's batch for a receiver: all their streams together."""
    net = stages.net
    source, total = net.streams[stream].source, 0.0
    for cls in classes_of(net, net.streams[stream].target):
        beside = net.classes[cls].stream
        if net.streams[beside].source == source:
            rate = stages.rates.port[TUPLES, port_at(net, beside, sender)]
            total += rate * share_at(net, beside, sender, receiver)
    return total


@index
def _thinned(stages: Stages, stream: int, sender: int, share: float, time_ms: float) -> float:
    """Return the index of one target's share of a sender's flow, at one time scale."""
    net, port = stages.net, port_at(stages.net, stream, sender)
    index = at_scale(stages.flow.ports[port], time_ms)
    if net.streams[stream].in_turn and share < 1:
        dealt_to = round_size(net, stream, sender)
        return dealt(index, share, stages.rates.port[TUPLES, port] * time_ms / dealt_to)
    return drawn(index, min(share, 1.0))


@index
def _ack_group(stages: Stages, component: int, executor: int) -> float:
    """Return how many acks an executor sends at once: by the messages in a tuple, and a window's tuples."""
    net, one = stages.net, stages.net.components[component]
    if one.kind == SPOUT:
        return 1.0
    tuples = acks = 0.0
    for cls in classes_of(net, component):
        tuples += stages.rates.cell[TUPLES, cell_at(net, cls, executor - one.first_executor)]
    acks = stages.flow.holds.acks[executor] / tuples if tuples > 0 else 1.0
    if one.kind == COUNT_WINDOW:
        acks *= min(one.slide, 100.0)
    elif one.kind == TIME_WINDOW:
        acks *= max(tuples * one.slide, 1.0)
    return acks


@index
def whole_batches(holds: Holds, executor: int, rate: float) -> bool:
    """Return True if an executor's whole rate of arrivals comes in whole batches from other workers."""
    return bool(holds.gather.shape[0] > 0 and abs(holds.far_in[executor] - rate) < 0.001 * rate)


@bare
def come_together(stages: Stages, component: int, executor: int) -> int:
    """Return a divisor of the batch that tuples come by from other workers: 1 but where batches keep step.

    One sender that makes as many of each tuple sends what it makes at once; of a whole batch that it got,
    too. So behind one another all batches hold the same messages, and each waits for the whole next one.
    """
    net, rates = stages.net, stages.rates
    together, place = 0, executor - net.components[component].first_executor
    for cls in classes_of(net, component):
        stream = net.classes[cls].stream
        source = net.components[net.streams[stream].source]
        for i in senders_of(net, stream):
            sender, share = sender_at(net, stream, i), share_at(net, stream, i, place)
            if near(net, sender, executor) or not share * rates.port[TUPLES, port_at(net, stream, i)] > 0:
                continue
            if together > 0 or share < 0.999 or source.kind >= COUNT_WINDOW:
                return 1
            together = 1
            if source.kind == SPOUT:
                continue
            fan = fan_at(net, source.first_class, net.streams[stream].output)
            made = rates.fan[MEAN_MADE, fan]
            several = len(classes_of(net, net.streams[stream].source)) > 1
            if several or rates.fan[SQUARE_MADE, fan] > made * made + 1e-9:
                return 1
            whole = whole_batches(stages.flow.holds, sender, stages.service.rate[sender])
            together = int(made + 0.5) * (net.batch if whole else 1)
    return math.gcd(max(together, 1), net.batch)


@bare
def gather(stages: Stages, executor: int, rate: float, together: int, index: FloatArray) -> Batches:
    """Fill in how long what comes from other workers is gathered; let the index show it; return what comes.

    Parameters
    ----------
    rate : float
        Of all that comes to the executor.
    together : int
        What comes from other workers comes by so many, a divisor of the batch.
    index : array (scales)
        Of it.
    """
    net, service, holds = stages.net, stages.service, stages.flow.holds
    far, size = holds.far_in[executor], 1.0 * net.batch
    if not (holds.gather.shape[0] and far > 0 and rate > 0):
        return Batches(0.0, 1.0, 1.0, 1.0)
    # batches that keep step are as regular as what made the first of them, which shows in the long run
    seen = at_scale(index, size / far / 2) if together == 1 else float(index[index.size - 1])
    dispersion = max(seen, 1e-4)
    gather_law(far / together, net.batch // together, dispersion / together, holds.gather[executor])
    share, alone = far / rate, min(max(index[0], 1.0), size)
    busy_ms = size * service.hold[executor, 0] / max(1 - service.load[executor], 0.01)
    even = max(at_scale(index, max(busy_ms, SCALES_MS[0])), 1e-3) / size
    _let_through(index, share, far, size)
    return Batches(share, size, alone, even)


@inlined
def _let_through(index: FloatArray, weight: float, rate: float, limit: float) -> None:
    """Add to an index the effect of batches that let a share ``weight`` of a flow through by the ``limit``.

    Of N tuples that come in a time, the whole batches have a variance in two parts. One is the variance of N.
    The other is the square of the batch times f (1 - f), f the fraction of a batch that N is short of. At
    short times tuples come ``limit`` at once, whatever came together before.
    """
    for k in range(index.size):
        beside = max(limit - max(index[k], 1.0), 0.0)
        index[k] += weight * beside * rounding(rate * SCALES_MS[k] / limit)


@inlined
def let_go(rate: float, limit: int, flush_ms: float, index: float, time_ms: float) -> float:
    """Return how much a flushed batch adds to the index, at some time, by all that fills it at ``rate``."""
    gate = min(flush_ms, limit / rate)
    return min(rate * gate, max(limit - max(index, 1.0), 0.0)) * released(time_ms / gate)


@bare
def hold_mean(net: Flat, holds: Holds, executor: int, other: int, link: int) -> float:
    """Return the mean of all waits for batches from one executor to another, over their connection."""
    if near(net, executor, other):
        return float(holds.link[link, FIRST]) if holds.link.shape[0] else 0.0
    found = 0.0
    if holds.out.shape[0]:
        found += holds.out[executor, FIRST]
    if holds.gather.shape[0]:
        found += holds.gather[other, FIRST]
    return found


@bare
def hold_second(net: Flat, holds: Holds, executor: int, other: int, link: int) -> float:
    """Return the second moment of that."""
    if near(net, executor, other):
        return float(holds.link[link, SECOND_HOLD]) if holds.link.shape[0] else 0.0
    found = mean = 0.0
    if holds.out.shape[0]:
        found, mean = holds.out[executor, SECOND_HOLD], holds.out[executor, FIRST]
    if holds.gather.shape[0]:
        found += 2 * mean * holds.gather[other, FIRST] + holds.gather[other, SECOND_HOLD]
    return found
