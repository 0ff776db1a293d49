"""Variability of arrivals everywhere, and the law of waiting that follows at every executor.

A component's executors share one flow out, so their parts are not independent. When a regular flow is dealt
out at random, each executor's part looks random, and all parts together are as regular as before. The
executors' covariances are in ``joint``: the index of the component's whole flow, less the mean of its
executors' own indices.

The covariances are carried on from component to component beside these indices. They fade at times shorter
than those by which tuples of different executors are delayed apart, as an index does by a hop. They come back
in where the flows meet again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.compiled import compiled, inlined, inner
from harness.models.solver.holding import (
    Holds,
    batched,
    come_together,
    gather,
    let_go,
    link_rate,
    near,
    no_holds,
    reply_holds,
    round_size,
    send_holds,
    sender_of,
)
from harness.models.solver.rates import ANCHORS, MEAN_MADE, SQUARE_MADE, TUPLES, Rates
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.structure import BOLT, COUNT_WINDOW, SPOUT, TIME_WINDOW
from harness.models.solver.variability import (
    SCALES_MS,
    blurred,
    dealt,
    departures,
    drawn,
    in_bursts,
    in_turn,
    looked_at,
    renewal,
    rounding,
    slept,
)
from harness.models.solver.waiting import MEAN, NUMBERS, SECOND, SLEEP, waiting_law


class Flow(NamedTuple):
    """Flows through executors, and the waits there.

    Attributes
    ----------
    arrivals : array (executors, scales)
        Index of dispersion of what comes to its queue.
    ports : array (ports, scales)
        Of what it emits.
    law : array (executors and ackers, numbers)
        Waiting laws (``waiting``).
    holds : Holds
        Waits for batches.
    """

    arrivals: FloatArray
    ports: FloatArray
    law: FloatArray
    holds: Holds


def flow(f: Flat, r: Rates, s: ServiceMoments, loop: SpoutLoop) -> Flow:
    """Return variability and waiting laws."""
    scales = SCALES_MS.size
    arrivals, ports = np.ones((f.first_acker, scales)), np.ones((f.output["first_port"][-1], scales))
    law = np.zeros((f.executor.size, NUMBERS))
    found = Flow(arrivals, ports, law, no_holds(f, r))
    _flow(f, r, s, loop, found)
    return found


@compiled
def _flow(f: Flat, r: Rates, s: ServiceMoments, loop: SpoutLoop, found: Flow) -> None:
    arrivals, ports, law = found.arrivals, found.ports, found.law
    blur = hop_blurs(f)
    fade = np.zeros((blur.size, SCALES_MS.size))
    for kind in range(blur.size):
        fade[kind] = SCALES_MS / (SCALES_MS + blur[kind])
    leaving = np.zeros(SCALES_MS.size)
    joint = np.zeros((f.component.size - 1, SCALES_MS.size))
    for c in range(f.component.size - 1):
        if f.component[c].kind == SPOUT:
            _enter(f, c, s, loop, arrivals, joint[c])
        else:
            _meet(f, r, s, c, fade, found)
            _rejoin(f, r, s, c, blur, ports, arrivals, joint)
        for e in range(f.component[c].first_executor, f.component[c + 1].first_executor):
            if f.component[c].kind == SPOUT:
                leaving[:] = 1.0  # acks come to it
                gather(f, s, e, found.holds.far_in[e], 1, leaving, found.holds)
                leaving[:] = arrivals[e]
            else:
                hold = s.hold[e]
                together = come_together(f, r, s, c, e, found.holds) if found.holds.gather.shape[0] else 1
                come = gather(f, s, e, s.rate[e], together, arrivals[e], found.holds)
                waiting_law(
                    s.load[e], hold[0], hold[1], hold[2], arrivals[e], f.executor[e].idle_ms, come, law[e]
                )
                scv = max(hold[1] / hold[0] ** 2 - 1, 0.0) if hold[0] > 0 else 0.0
                load = min(s.load[e], 1.0)
                departures(arrivals[e], load, hold[0], scv, f.executor[e].idle_ms, s.rate[e], leaving)
            if f.component[c].kind >= COUNT_WINDOW:
                _fire(f, r, s, c, e, leaving, ports)
            else:
                _emit(f, r, c, e, leaving, ports)
            if batched(f):
                sender = sender_of(f, s, loop, law, c, e)
                send_holds(f, r, c, e, s.rate[e], sender, leaving, ports, found.holds)
        _pass_on(f, s, law, c, joint[c])
    _acks(f, r, s, loop, found)


@inner
def hop_blurs(f: Flat) -> FloatArray:
    """Return how far apart two tuples' hops are on average, by kind of hop."""
    found = np.zeros(f.first_hop.size - 1)
    for kind in range(found.size):
        for i in range(f.first_hop[kind], f.first_hop[kind + 1]):
            for j in range(f.first_hop[kind], f.first_hop[kind + 1]):
                one, other = f.atom[i], f.atom[j]
                found[kind] += one.p * other.p * abs(one.value - other.value)
    return found


@inner
def _enter(
    f: Flat, c: int, s: ServiceMoments, loop: SpoutLoop, arrivals: FloatArray, joint: FloatArray
) -> None:
    """Messages of a spout's tasks, at the times when the executor comes round to them.

    Over times shorter than a round the looks decide what comes, over longer ones the messages.
    """
    first = f.component[c].first_executor
    executors = f.component[c + 1].first_executor - first
    total, held = np.zeros(executors), np.zeros(executors)
    for t in range(f.component[c].first_task, f.component[c + 1].first_task):
        total[f.task[t].executor] += f.task[t].input_tpms
        held[f.task[t].executor] += 1
    arrivals[first : f.component[c + 1].first_executor] = 0.0
    if f.input_in_turn:
        _enter_in_turn(f, c, s, loop, total, held, arrivals, joint)
        return
    for i in range(executors):
        e = first + i
        chance = total[i] * loop.round_ms[e] / held[i] if held[i] > 0 else 1.0
        after_sleep = total[i] * (loop.used_ms[e] + f.executor[e].idle_ms) * (1 - 1 / max(held[i], 1.0))
        for k in range(SCALES_MS.size):
            t, blur_ms = SCALES_MS[k], loop.round_ms[e] / 3
            index = looked_at(t, chance, f.component[c].poll_ms, s.hold[e, 0]) * blur_ms / (t + blur_ms)
            index += loop.in_empty[e] * slept(t, after_sleep, loop.used_ms[e], f.executor[e].idle_ms)
            arrivals[e, k] = index if total[i] > 0 else 0.0
    for t in range(f.component[c].first_task, f.component[c + 1].first_task):
        i = f.task[t].executor
        rate = f.task[t].input_tpms
        if rate > 0:
            for k in range(SCALES_MS.size):
                own = renewal(rate * SCALES_MS[k], f.input_scv)
                arrivals[first + i, k] += (
                    rate / total[i] * blurred(own, SCALES_MS[k], loop.round_ms[first + i] / 3)
                )


@inner
def _enter_in_turn(f: Flat, c: int, s: ServiceMoments, loop: SpoutLoop, total: FloatArray, held: FloatArray,
                   arrivals: FloatArray, joint: FloatArray) -> None:  # fmt: skip
    """Messages that come to one task after another.

    Parameters
    ----------
    total, held : array (executors)
        Messages a ms, and tasks.
    """
    first = f.component[c].first_executor
    everything, tasks = total.sum(), held.sum()
    scv, mean_round_ms = f.input_scv * tasks, 0.0
    for i in range(total.size):
        if not total[i] > 0:
            continue
        e = first + i
        share = total[i] / everything
        mean_round_ms += share * loop.round_ms[e]
        emit_ms = s.hold[e, 0]
        number = _caught_up_with(everything, held[i], f.component[c].poll_ms, f.executor[e].idle_ms, emit_ms)
        # of its messages in a turn the first and the last burst are cut short, where there are others' tasks
        whole = max(1 - (number + 1) / (3 * held[i]), 0.0) if held[i] < tasks else 1.0
        for k in range(SCALES_MS.size):
            t = SCALES_MS[k]
            own = in_turn(everything * t, tasks, held[i] / tasks, scv)
            arrivals[e, k] = blurred(own, t, loop.round_ms[e] / 3)
            arrivals[e, k] += whole * in_bursts(t, number, number / everything, emit_ms, scv)
            joint[k] -= share * own
    for k in range(SCALES_MS.size):
        joint[k] += renewal(everything * SCALES_MS[k], scv)
        joint[k] *= SCALES_MS[k] / (SCALES_MS[k] + mean_round_ms / 3)


@inlined
def _caught_up_with(rate: float, tasks: float, poll: float, idle: float, emit: float) -> float:
    """Return how many messages an executor finds when it has come round to the task that is next.

    Messages come at ``rate`` to one task after another. Between two times that it catches up with them it
    passes all of its tasks in vain once, and those with a message besides. A sleep is part of that while its
    round is shorter than the time between two messages.
    """
    round_ms = tasks * poll
    round_ms += idle * max(1 - rate * round_ms, 0.0)
    slack = 1 - rate * emit
    return min(rate * round_ms / slack, tasks) if slack > 0 else tasks


@inner
def _meet(f: Flat, r: Rates, s: ServiceMoments, c: int, fade: FloatArray, found: Flow) -> None:
    """Flows of all streams into a component's executors, split and joined.

    Parameters
    ----------
    fade : array (kinds, scales)
        What a hop leaves of an index's distance from 1.
    """
    ports, arrivals = found.ports, found.arrivals
    to = f.component[c].first_executor
    targets = f.component[c + 1].first_executor - to
    arrivals[to : to + targets] = 0.0
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        stream = f.klass[cls].stream
        a = f.stream[stream].source
        if f.stream[stream].alike and not batched(f):
            _meet_alike(f, r, s, stream, round_size(f, stream, 0), fade, ports, arrivals)
            continue
        for i in range(f.component[a + 1].first_executor - f.component[a].first_executor):
            port = f.output[f.stream[stream].output].first_port + i
            rate = r.port[TUPLES, port]
            if not rate > 0:
                continue
            e, dealt_to = f.component[a].first_executor + i, round_size(f, stream, i)
            for j in range(targets):
                p = f.share[f.stream[stream].first_share + i * f.stream[stream].share_step + j]
                if p > 0:
                    by_hop = fade[f.kind_between[f.executor[e].worker, f.executor[to + j].worker]]
                    filled, limit = 0.0, f.batch if near(f, e, to + j) else f.transfer_batch
                    if limit > 1:
                        at_once = near(f, e, to + j)
                        filled = link_rate(f, r, a, c, e, j) if at_once else found.holds.far_out[e]
                    join(ports[port], rate, p, dealt_to, rate * p / s.rate[to + j],
                          by_hop, filled, limit, f.flush_ms, arrivals[to + j])  # fmt: skip


@inner
def _rejoin(f: Flat, r: Rates, s: ServiceMoments, c: int, blur: FloatArray, ports: FloatArray,
            arrivals: FloatArray, joint: FloatArray) -> None:  # fmt: skip
    """Add the sources' covariances to the arrivals at a component, and find the component's own."""
    to = f.component[c].first_executor
    targets = f.component[c + 1].first_executor - to
    served, copies = s.rate[to : to + targets].sum(), False
    common = np.zeros(SCALES_MS.size)
    for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
        one = f.stream[f.klass[cls].stream]
        a = one.source
        first = f.component[a].first_executor
        sources = f.component[a + 1].first_executor - first
        copies = copies or bool(one.copies)
        share = np.zeros(targets)
        mean_blur = _dealt_out(f, r, f.klass[cls].stream, blur, share)
        total = share.sum()
        if not (total > 0 and served > 0) or one.copies:
            continue
        made = total / s.rate[first : first + sources].sum()
        for k in range(SCALES_MS.size):
            own = 0.0
            for i in range(sources):
                port = f.output[one.output].first_port + i
                own += r.port[TUPLES, port] / total * ports[port, k]
            fade = SCALES_MS[k] / (SCALES_MS[k] + mean_blur)
            common[k] = made * joint[a, k] * fade
            joint[c, k] += total / served * (1 + (own - 1) * fade + common[k])
        for j in range(targets):
            if share[j] > 0 and s.rate[to + j] > 0:
                weight = share[j] / s.rate[to + j] * share[j] / total
                for k in range(SCALES_MS.size):
                    arrivals[to + j, k] = max(arrivals[to + j, k] + weight * common[k], 0.0)
    for k in range(SCALES_MS.size):
        for j in range(targets):
            joint[c, k] -= s.rate[to + j] / served * arrivals[to + j, k] if served > 0 else 0.0
    if copies:
        joint[c] = 0.0


@inner
def _dealt_out(f: Flat, r: Rates, stream: int, blur: FloatArray, share: FloatArray) -> float:
    """Fill in a stream's rate to each of the target's executors; return the mean blur of a hop, in ms."""
    one = f.stream[stream]
    first, to = f.component[one.source].first_executor, f.component[one.target].first_executor
    total = blurs = 0.0
    if one.alike:
        workers = f.kind_between.shape[0]
        sent, come = np.zeros(workers), np.zeros(workers)
        for i in range(f.component[one.source + 1].first_executor - first):
            sent[f.executor[first + i].worker] += r.port[TUPLES, f.output[one.output].first_port + i]
        for j in range(share.size):
            share[j] = sent.sum() * f.share[one.first_share + j]
            come[f.executor[to + j].worker] += f.share[one.first_share + j]
            total += share[j]
        for here in range(workers):
            for there in range(workers):
                blurs += sent[here] * come[there] * blur[f.kind_between[here, there]]
        return blurs / total if total > 0 else 0.0
    for i in range(f.component[one.source + 1].first_executor - first):
        rate = r.port[TUPLES, f.output[one.output].first_port + i]
        for j in range(share.size):
            p = rate * f.share[one.first_share + i * one.share_step + j]
            if p > 0:
                share[j] += p
                total += p
                kind = f.kind_between[f.executor[first + i].worker, f.executor[to + j].worker]
                blurs += p * blur[kind]
    return blurs / total if total > 0 else 0.0


@inner
def _pass_on(f: Flat, s: ServiceMoments, law: FloatArray, c: int, joint: FloatArray) -> None:
    """Let what a component's flows have in common fade by the times that tuples stay; windows end it."""
    if f.component[c].kind >= COUNT_WINDOW or batched(f):
        joint[:] = 0.0
    if f.component[c].kind != BOLT:
        return
    total = spread = 0.0
    for e in range(f.component[c].first_executor, f.component[c + 1].first_executor):
        variance = law[e, SECOND] - law[e, MEAN] ** 2 + law[e, SLEEP] ** 2 / 12
        variance += s.hold[e, 1] - s.hold[e, 0] ** 2
        total += s.rate[e]
        spread += s.rate[e] * math.sqrt(max(variance, 0.0))
    if total > 0:
        for k in range(SCALES_MS.size):
            joint[k] *= SCALES_MS[k] / (SCALES_MS[k] + spread / total)


@inner
def _meet_alike(f: Flat, r: Rates, s: ServiceMoments, stream: int, round_size: int, fade: FloatArray,
                ports: FloatArray, arrivals: FloatArray) -> None:  # fmt: skip
    """Join all connections of a stream whose sources route alike, by worker, with the result of ``join``.

    An executor's arrivals are then a function of its share and its worker only.
    """
    source, target = f.component[f.stream[stream].source], f.component[f.stream[stream].target]
    to = target.first_executor
    scales, workers = SCALES_MS.size, f.kind_between.shape[0]
    total, own, others = 0.0, np.zeros((workers, scales)), np.zeros((workers, scales))
    for i in range(f.component[f.stream[stream].source + 1].first_executor - source.first_executor):
        port = f.output[f.stream[stream].output].first_port + i
        rate = r.port[TUPLES, port]
        if rate > 0:
            w = f.executor[source.first_executor + i].worker
            total += rate
            for k in range(scales):
                rest = dealt(0.0, 0.0, rate * SCALES_MS[k] / round_size) if round_size > 0 else 1.0
                own[w, k] += rate * (ports[port, k] - 1)
                others[w, k] += rate * (rest - 1)
    come, beside = np.zeros((workers, scales)), np.zeros((workers, scales))
    for w in range(workers):
        for there in range(workers):
            left = fade[f.kind_between[w, there]]
            for k in range(scales):
                come[there, k] += own[w, k] * left[k]
                beside[there, k] += others[w, k] * left[k]
    for j in range(f.component[f.stream[stream].target + 1].first_executor - to):
        p = f.share[f.stream[stream].first_share + j]
        if p > 0 and s.rate[to + j] > 0:
            there, weight = f.executor[to + j].worker, p / s.rate[to + j]
            for k in range(scales):
                found = total + p * come[there, k] + (1 - p) * beside[there, k]
                arrivals[to + j, k] += weight * found


@inlined
def join(index: FloatArray, rate: float, p: float, round_size: int, weight: float, fade: FloatArray,
          filled: float, limit: int, flush_ms: float, found: FloatArray) -> None:  # fmt: skip
    """Add one connection's flow to what arrives: split off, gathered in batches, blurred by the hop.

    Parameters
    ----------
    filled : float
        Rate of all that fills the batch that this is in; 0 where there is none.
    """
    for k in range(SCALES_MS.size):
        t = SCALES_MS[k]
        part = drawn(index[k], p)
        if round_size > 0 and p < 1:
            part = dealt(index[k], p, rate * t / round_size)
        if filled > 0:
            part += rate * p / filled * let_go(filled, limit, flush_ms, index[k], t)
        found[k] += weight * (1 + (part - 1) * fade[k])


@inner
def _emit(f: Flat, r: Rates, c: int, e: int, leaving: FloatArray, ports: FloatArray) -> None:
    """Fill in a bolt's or spout's outputs: each tuple that leaves makes some at once."""
    i = e - f.component[c].first_executor
    for o in range(f.component[c].first_output, f.component[c + 1].first_output):
        mean = second = total = 0.0
        for cls in range(f.component[c].first_class, f.component[c + 1].first_class):
            fan = f.klass[cls].first_fan + o - f.component[c].first_output
            rate = r.cell[TUPLES, f.klass[cls].first_cell + i]
            total += rate
            mean += rate * r.fan[MEAN_MADE, fan]
            second += rate * r.fan[SQUARE_MADE, fan]
        if mean > 0:
            mean, second = mean / total, second / total
            for k in range(SCALES_MS.size):
                ports[f.output[o].first_port + i, k] = mean * leaving[k] + second / mean - mean


@inner
def _fire(
    f: Flat, r: Rates, s: ServiceMoments, c: int, e: int, leaving: FloatArray, ports: FloatArray
) -> None:
    """Fill in the outputs of an executor's windows, each task's its own."""
    i = e - f.component[c].first_executor
    for o in range(f.component[c].first_output, f.component[c + 1].first_output):
        fan = f.klass[f.component[c].first_class].first_fan + o - f.component[c].first_output
        mean = r.fan[MEAN_MADE, fan]
        port = f.output[o].first_port + i
        if not (mean > 0 and r.port[TUPLES, port] > 0):
            continue
        extra = r.fan[SQUARE_MADE, fan] / mean - mean
        ports[port] = 0.0
        for t in range(f.component[c].first_task, f.component[c + 1].first_task):
            rate = r.task[TUPLES, t]
            if f.task[t].executor != i or not rate > 0:
                continue
            share = rate / s.rate[e]
            fires = rate / f.component[c].slide
            if f.component[c].kind == TIME_WINDOW:
                fires = -np.expm1(-rate * f.component[c].length) / f.component[c].slide
            weight = mean * fires / r.port[TUPLES, port]
            for k in range(SCALES_MS.size):
                at = SCALES_MS[k]
                if f.component[c].kind == TIME_WINDOW:
                    index = drawn(rounding(at / f.component[c].slide), fires * f.component[c].slide)
                else:
                    index = drawn(leaving[k], share) / f.component[c].slide + rounding(at * fires)
                    index = min(index, max(1.0, leaving[k]))
                ports[port, k] += weight * (mean * index + extra)


@inner
def _acks(f: Flat, r: Rates, s: ServiceMoments, loop: SpoutLoop, found: Flow) -> None:
    """Acks come to the ackers in bursts: one for each message that a tuple, or a window's end, acks."""
    law = found.law
    ackers = law.shape[0] - f.first_acker
    if ackers == 0:
        return
    index = np.ones(SCALES_MS.size)
    burst = _acks_together(f, r)
    for e in range(f.first_acker, law.shape[0]):
        hold = s.hold[e]
        index[:] = 1 + (burst / r.acks / ackers if r.acks > 0 else 0.0)
        come = gather(f, s, e, s.rate[e], 1, index, found.holds)
        waiting_law(s.load[e], hold[0], hold[1], hold[2], index, f.executor[e].idle_ms, come, law[e])
        if batched(f):
            reply_holds(f, e, sender_of(f, s, loop, law, -1, e), found.holds)


@inner
def _acks_together(f: Flat, r: Rates) -> float:
    """Return by how many others each ack comes with, times the rate of acks."""
    burst = 0.0
    for cls in range(f.klass.size - 1):
        c = f.klass[cls].component
        if f.component[c].kind == SPOUT:
            continue
        for cell in range(f.klass[cls].first_cell, f.klass[cls + 1].first_cell):
            if r.cell[TUPLES, cell] > 0:
                together = r.cell[ANCHORS, cell] / r.cell[TUPLES, cell]
                if f.component[c].kind == COUNT_WINDOW:
                    together *= min(f.component[c].slide, 100.0)
                burst += r.cell[ANCHORS, cell] * max(together - 1, 0.0)
        if f.component[c].kind == TIME_WINDOW:
            for t in range(f.component[c].first_task, f.component[c + 1].first_task):
                burst += (
                    r.task[TUPLES, t]
                    * r.task[TUPLES, t]
                    * f.component[c].slide
                    / (f.component[c + 1].first_class - f.component[c].first_class)
                )
    return burst
