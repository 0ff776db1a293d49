"""Storm's batches: waits of tuples and acks in each, and arrivals that come together by them.

Batches are those of ``JCQueue`` and ``WorkerTransfer`` of storm-client 2.8.3. An executor has a batch of
``batch`` tuples for every executor of its own worker, and one of ``transfer_batch`` for other workers, acks
included. Both are flushed. Tuples from other workers fill a batch of ``batch`` for each receiving executor,
which nothing flushes. A full batch goes when the next tuple comes for it (``tryPublish``). A limit of 1 is no
batch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.batching import FIRST, NUMBERS, BatchSender, gather_law, hold_law
from harness.models.solver.batching import SECOND as SECOND_HOLD
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.rates import ANCHORS, MEAN_MADE, SQUARE_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.structure import COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import SCALES_MS, at_scale, dealt, drawn, released, rounding
from harness.models.solver.waiting import MEAN, SECOND, SLEEP, Batches


class Holds(NamedTuple):
    """Waits for batches. Without batches all arrays of laws are empty.

    Attributes
    ----------
    link : array (links, numbers)
        From one executor to another of its worker, by stream (``first_link``).
    out : array (executors and ackers, numbers)
        For other workers, by sender.
    ack : array (executors and ackers, numbers)
        Of an ack to an acker of the sender's worker; of an acker's, to such a spout executor.
    gather : array (executors and ackers, numbers)
        Of what comes from other workers, by receiver.
    far_out, far_in : array (executors and ackers)
        Tuples and acks a ms to and from other workers.
    acks : array (executors)
        Acks a ms that each sends.
    """

    link: FloatArray
    out: FloatArray
    ack: FloatArray
    gather: FloatArray
    far_out: FloatArray
    far_in: FloatArray
    acks: FloatArray


def no_holds(f: Flat, r: Rates) -> Holds:
    """Return room for the waits of a network, with the rates to and from other workers filled in."""
    everybody = f.executor.size
    near = f.batch > 1
    one, any_ = everybody if f.transfer_batch > 1 else 0, everybody if near else 0
    found = Holds(
        np.zeros((int(f.stream["first_link"][-1]) if near else 0, NUMBERS)),
        np.zeros((one, NUMBERS)),
        np.zeros((any_, NUMBERS)),
        np.zeros((any_, NUMBERS)),
        np.zeros(everybody),
        np.zeros(everybody),
        np.zeros(f.first_acker),
    )
    if f.batch > 1 or f.transfer_batch > 1:
        _far_rates(f, r, found)
    return found


def has_batches(f: Flat) -> bool:
    """Return True if tuples wait for batches, for code that is not compiled."""
    return f.batch > 1 or f.transfer_batch > 1


@inlined
def batched(f: Flat) -> bool:
    """Return True if tuples wait for batches."""
    return f.batch > 1 or f.transfer_batch > 1


@inlined
def near(f: Flat, e: int, other: int) -> bool:
    """Return True if two executors are of one worker."""
    return bool(f.executor[e].worker == f.executor[other].worker)


@inlined
def round_size(f: Flat, stream: int, i: int) -> int:
    """Return how many tasks the i-th sender of a stream deals to in turn; 0 where it draws them."""
    one, found = f.stream[stream], 0
    if one.in_turn:
        row = one.first_route + i * one.route_step
        for t in range(f.component[one.target + 1].first_task - f.component[one.target].first_task):
            found += f.route[row + t] > 0
    return found


@compiled
def _far_rates(f: Flat, r: Rates, h: Holds) -> None:
    for k in range(f.stream.size - 1):
        s = f.stream[k]
        first, to = f.component[s.source].first_executor, f.component[s.target].first_executor
        for i in range(f.component[s.source + 1].first_executor - first):
            rate = r.port[TUPLES, f.output[s.output].first_port + i]
            for j in range(f.component[s.target + 1].first_executor - to):
                if not near(f, first + i, to + j):
                    sent = rate * f.share[s.first_share + i * s.share_step + j]
                    h.far_out[first + i] += sent
                    h.far_in[to + j] += sent
    for k in range(f.klass.size - 1):
        c = f.klass[k].component
        of = TUPLES if f.component[c].kind == SPOUT else ANCHORS
        for i in range(f.component[c + 1].first_executor - f.component[c].first_executor):
            e = f.component[c].first_executor + i
            acks = r.cell[of, f.klass[k].first_cell + i]
            h.acks[e] += acks
            _far_acks(f, h, e, acks, f.component[c].kind == SPOUT)


@inlined
def _far_acks(f: Flat, h: Holds, e: int, rate: float, answered: bool) -> None:
    """Add an executor's acks to ackers of other workers and, where ``answered``, their answers to it."""
    for a in range(f.first_acker, f.executor.size):
        if not near(f, e, a):
            one = rate / (f.executor.size - f.first_acker)
            h.far_out[e] += one
            h.far_in[a] += one
            if answered:
                h.far_out[a] += one
                h.far_in[e] += one


@inner
def sender_of(f: Flat, s: ServiceMoments, loop: SpoutLoop, law: FloatArray, c: int, e: int) -> BatchSender:
    """Return what a flush meets at an executor; a component of -1 is the ackers'.

    Mean work is got from the mean wait (Brumelle 1971).
    """
    kind = f.component[c].kind if c >= 0 else TIME_WINDOW + 1
    if kind == SPOUT:
        empty = loop.in_empty[e]
        round_ms = empty * loop.empty_ms[e] + (1 - empty) * loop.used_ms[e]
        used = loop.used_ms[e]
        return BatchSender(used, used * used, used / 2, round_ms, 0.0, 0.0)
    load, first = min(s.load[e], 1.0), s.hold[e, 0]
    rest = s.hold[e, 1] / (2 * first) if first > 0 else 0.0
    work = load * (law[e, MEAN] + rest)
    if kind == TIME_WINDOW:
        return BatchSender(0.0, 0.0, 0.0, f.executor[e].idle_ms, load, work)
    before = law[e, MEAN] + law[e, SLEEP] / 2 + first
    spread = law[e, SECOND] - law[e, MEAN] ** 2 + law[e, SLEEP] ** 2 / 12 + s.hold[e, 1] - first * first
    return BatchSender(before, before * before + max(spread, 0.0), 0.0, f.executor[e].idle_ms, load, work)


@inlined
def _time_scale(rate: float, limit: int, flush_ms: float) -> float:
    """Return how long a batch takes to fill, or to be flushed."""
    return min(flush_ms, limit / rate) if rate > 0 else flush_ms


@inner
def send_holds(f: Flat, r: Rates, c: int, e: int, rate: float, sender: BatchSender, leaving: FloatArray,
               ports: FloatArray, h: Holds) -> None:  # fmt: skip
    """Fill in the waits in the batches of one executor of a component.

    Parameters
    ----------
    rate : float
        Of what the executor serves.
    leaving, ports : array (scales), array (ports, scales)
        Index of dispersion of what leaves the executor, and of what that makes.
    """
    first, ackers = f.component[c].first_executor, f.executor.size - f.first_acker
    acks = ack_group(f, r, c, e, h)
    if h.out.shape[0] and h.far_out[e] > 0:
        passing = rate if f.component[c].kind < COUNT_WINDOW else math.inf
        index = _far_index(f, r, c, e, passing, acks, leaving, ports, h)
        hold_law(h.far_out[e], f.transfer_batch, f.flush_ms, index, sender, h.out[e])
    begin = f.output[f.component[c].first_output].first_subscriber
    end = f.output[f.component[c + 1].first_output].first_subscriber
    if not h.link.shape[0]:
        return
    for k in range(begin, end):
        s = f.stream[f.subscribers[k]]
        to = f.component[s.target].first_executor
        targets = f.component[s.target + 1].first_executor - to
        port = f.output[s.output].first_port + e - first
        known, alike, filled = -1, 0.0, 0.0
        for j in range(targets):
            at = s.first_link + (e - first) * targets + j
            share = f.share[s.first_share + (e - first) * s.share_step + j]
            if not (near(f, e, to + j) and share > 0 and r.port[TUPLES, port] > 0):
                continue
            fills = link_rate(f, r, c, s.target, e, j)
            if known >= 0 and alike == share and filled == fills:
                h.link[at] = h.link[known]
                continue
            t = _time_scale(fills, f.batch, f.flush_ms)
            index = thinned(f, r, f.subscribers[k], port, ports, share, t)
            hold_law(fills, f.batch, f.flush_ms, index, sender, h.link[at])
            known, alike, filled = at, share, fills
    if ackers:
        fills = h.acks[e] / ackers
        t = _time_scale(fills, f.batch, f.flush_ms)
        index = drawn(at_scale(leaving, t) + acks - 1, 1 / ackers)
        hold_law(fills, f.batch, f.flush_ms, index, sender, h.ack[e])


@inner
def _far_index(f: Flat, r: Rates, c: int, e: int, passing: float, acks: float, leaving: FloatArray,
               ports: FloatArray, h: Holds) -> float:  # fmt: skip
    """Return the index of all that an executor sends to other workers, at the scale of its batch.

    What one tuple makes, and its ack, go together, so the streams' counts have a covariance.
    """
    t = _time_scale(h.far_out[e], f.transfer_batch, f.flush_ms)
    first, ackers = f.component[c].first_executor, f.executor.size - f.first_acker
    index = total = squares = far = 0.0
    for k in range(f.output[f.component[c].first_output].first_subscriber,
                   f.output[f.component[c + 1].first_output].first_subscriber):  # fmt: skip
        s = f.stream[f.subscribers[k]]
        to = f.component[s.target].first_executor
        p = 0.0
        for j in range(f.component[s.target + 1].first_executor - to):
            if not near(f, e, to + j):
                p += f.share[s.first_share + (e - first) * s.share_step + j]
        port = f.output[s.output].first_port + e - first
        sent = r.port[TUPLES, port] * p
        if sent > 0:
            index += sent * drawn(at_scale(ports[port], t), min(p, 1.0))
            total += sent
            squares += sent * sent
    for a in range(f.first_acker, f.executor.size):
        far += (0.0 if near(f, e, a) else 1.0) / ackers
    sent = h.acks[e] * far
    if sent > 0:
        index += sent * drawn(at_scale(leaving, t) + acks - 1, far)
        total += sent
        squares += sent * sent
    if not total > 0:
        return 1.0
    return index / total + (total - squares / total) / passing * at_scale(leaving, t)


@inner
def reply_holds(f: Flat, e: int, sender: BatchSender, h: Holds) -> None:
    """Fill in the waits of one acker's messages to spouts."""
    if h.out.shape[0]:
        hold_law(h.far_out[e], f.transfer_batch, f.flush_ms, 1.0, sender, h.out[e])
    if not h.ack.shape[0]:
        return
    replies, spouts = 0.0, 0
    for c in range(f.component.size - 1):
        if f.component[c].kind == SPOUT:
            for spout in range(f.component[c].first_executor, f.component[c + 1].first_executor):
                if near(f, e, spout):
                    replies += h.acks[spout] / (f.executor.size - f.first_acker)
                    spouts += 1
    hold_law(replies / max(spouts, 1), f.batch, f.flush_ms, 1.0, sender, h.ack[e])


@inner
def link_rate(f: Flat, r: Rates, source: int, target: int, e: int, j: int) -> float:
    """Return what fills the batch from an executor to the target's executor j: all streams together."""
    total = 0.0
    i = e - f.component[source].first_executor
    for cls in range(f.component[target].first_class, f.component[target + 1].first_class):
        s = f.stream[f.klass[cls].stream]
        if s.source == source:
            rate = r.port[TUPLES, f.output[s.output].first_port + i]
            total += rate * f.share[s.first_share + i * s.share_step + j]
    return total


@inlined
def thinned(f: Flat, r: Rates, stream: int, port: int, ports: FloatArray, p: float, t: float) -> float:
    """Return the index of one target's part of a port's flow, at one time scale."""
    index = at_scale(ports[port], t)
    s = f.stream[stream]
    if s.in_turn and p < 1:
        dealt_to = round_size(f, stream, port - f.output[s.output].first_port)
        return dealt(index, p, r.port[TUPLES, port] * t / dealt_to)
    return drawn(index, min(p, 1.0))


@inlined
def ack_group(f: Flat, r: Rates, c: int, e: int, h: Holds) -> float:
    """Return how many acks an executor sends at once: by the messages in a tuple, and a window's tuples."""
    if f.component[c].kind == SPOUT:
        return 1.0
    tuples = acks = 0.0
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        tuples += r.cell[TUPLES, f.klass[cls].first_cell + e - f.component[c].first_executor]
    acks = h.acks[e] / tuples if tuples > 0 else 1.0
    if f.component[c].kind == COUNT_WINDOW:
        acks *= min(f.component[c].slide, 100.0)
    elif f.component[c].kind == TIME_WINDOW:
        acks *= max(tuples * f.component[c].slide, 1.0)
    return acks


@inlined
def whole_batches(h: Holds, e: int, rate: float) -> bool:
    """Return True if an executor's whole rate of arrivals comes in whole batches from other workers."""
    return bool(h.gather.shape[0] > 0 and abs(h.far_in[e] - rate) < 0.001 * rate)


@inner
def come_together(f: Flat, r: Rates, s: ServiceMoments, c: int, e: int, h: Holds) -> int:
    """Return a divisor of the batch that tuples come by from other workers: 1 but where batches keep step.

    One sender that makes as many of each tuple sends what it makes at once; of a whole batch that it got,
    too. So behind one another all batches hold the same messages, and each waits for the whole next one.
    """
    together = 0
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        one = f.stream[f.klass[cls].stream]
        source, after = f.component[one.source], f.component[one.source + 1]
        for i in range(after.first_executor - source.first_executor):
            sender = source.first_executor + i
            p = f.share[one.first_share + i * one.share_step + e - f.component[c].first_executor]
            if near(f, sender, e) or not p * r.port[TUPLES, f.output[one.output].first_port + i] > 0:
                continue
            if together > 0 or p < 0.999 or source.kind >= COUNT_WINDOW:
                return 1
            together = 1
            if source.kind == SPOUT:
                continue
            fan = f.klass[source.first_class].first_fan + one.output - source.first_output
            made = r.fan[MEAN_MADE, fan]
            if after.first_class - source.first_class > 1 or r.fan[SQUARE_MADE, fan] > made * made + 1e-9:
                return 1
            together = int(made + 0.5) * (f.batch if whole_batches(h, sender, s.rate[sender]) else 1)
    return math.gcd(max(together, 1), f.batch)


@inner
def gather(
    f: Flat, s: ServiceMoments, e: int, rate: float, together: int, index: FloatArray, h: Holds
) -> Batches:
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
    far, size = h.far_in[e], 1.0 * f.batch
    if not (h.gather.shape[0] and far > 0 and rate > 0):
        return Batches(0.0, 1.0, 1.0, 1.0)
    # batches that keep step are as regular as what made the first of them, which shows in the long run
    seen = at_scale(index, size / far / 2) if together == 1 else float(index[index.size - 1])
    dispersion = max(seen, 1e-4)
    gather_law(far / together, f.batch // together, dispersion / together, h.gather[e])
    share, alone = far / rate, min(max(index[0], 1.0), size)
    busy_ms = size * s.hold[e, 0] / max(1 - s.load[e], 0.01)
    even = max(at_scale(index, max(busy_ms, SCALES_MS[0])), 1e-3) / size
    let_through(index, share, far, size)
    return Batches(share, size, alone, even)


@inlined
def let_through(index: FloatArray, weight: float, rate: float, limit: float) -> None:
    """Add to an index the effect of batches that let a share ``weight`` of a flow through by the ``limit``.

    Of N tuples that come in a time, the whole batches have a variance in two parts. One is the variance of N.
    The other is the square of the batch times f (1 - f), f the fraction of a batch that N is short of. At
    short times tuples come ``limit`` at once, whatever came together before.
    """
    for k in range(index.size):
        beside = max(limit - max(index[k], 1.0), 0.0)
        index[k] += weight * beside * rounding(rate * SCALES_MS[k] / limit)


@inlined
def let_go(rate: float, limit: int, flush_ms: float, index: float, t: float) -> float:
    """Return what a flushed batch adds to the index at time t of what fills it, at ``rate`` in all."""
    gate = min(flush_ms, limit / rate)
    return min(rate * gate, max(limit - max(index, 1.0), 0.0)) * released(t / gate)


@inner
def hold_mean(f: Flat, h: Holds, e: int, other: int, at: int) -> float:
    """Return the mean of all waits for batches from one executor to another; ``at``: the link."""
    if near(f, e, other):
        return float(h.link[at, FIRST]) if h.link.shape[0] else 0.0
    found = 0.0
    if h.out.shape[0]:
        found += h.out[e, FIRST]
    if h.gather.shape[0]:
        found += h.gather[other, FIRST]
    return found


@inner
def hold_second(f: Flat, h: Holds, e: int, other: int, at: int) -> float:
    """Return the second moment of that."""
    if near(f, e, other):
        return float(h.link[at, SECOND_HOLD]) if h.link.shape[0] else 0.0
    found = mean = 0.0
    if h.out.shape[0]:
        found, mean = h.out[e, SECOND_HOLD], h.out[e, FIRST]
    if h.gather.shape[0]:
        found += 2 * mean * h.gather[other, FIRST] + h.gather[other, SECOND_HOLD]
    return found
