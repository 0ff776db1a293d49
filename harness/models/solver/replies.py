"""The end of a message's tree: acks gathered for the acker, the acker's queue, the way back to the spout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.batching import FIRST, times_hold
from harness.models.solver.compiled import compiled
from harness.models.solver.forward import Stages, moments
from harness.models.solver.holding import near
from harness.models.solver.spectrum import ComplexArray, add_atoms, times_uniform, times_wait
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.structure import SPOUT


class Gathered(NamedTuple):
    """Delays of an acker by gathering acks from other workers; zero where acks are not gathered.

    A message's acks fill one acker's batch in the order in which they come. So the acker begins with the
    first word from another worker or, if that is sooner, with one from its own, which is not gathered. The
    acker ends when the last word from another worker is let go or the last from its own comes.

    Attributes
    ----------
    mean_ms : float
    first, last : array (executors)
        How much later both are than if nothing were gathered, of spout executors, in units of the mean.
    """

    mean_ms: float
    first: FloatArray
    last: FloatArray


def gathered(g: Stages) -> Gathered:
    """Return the delays of ackers by gathering.

    Acks of one component are taken to go to its workers independently. Only the means of the times between
    components' acks count. A wait is taken to be uniform up to twice its mean.
    """
    f, h = g.f, g.w.holds
    first, last = np.zeros(f.first_acker), np.zeros(f.first_acker)
    if not (h.gather.shape[0] and h.gather[f.first_acker :, FIRST].any()):
        return Gathered(0.0, first, last)
    workers, begin = f.kind_between.shape[0], f.component["first_executor"]
    home, acker_home = f.executor["worker"][: f.first_acker], f.executor["worker"][f.first_acker :]
    ackers = np.bincount(acker_home, minlength=workers)
    gather_ms = np.bincount(acker_home, h.gather[f.first_acker :, FIRST], minlength=workers)
    most_ms: FloatArray = 2 * gather_ms / np.maximum(ackers, 1)
    near_ms, far_ms = _sent_ms(g)

    bolts, messages, spouts = [], 0.0, np.zeros(f.first_acker, dtype=bool)
    for c, kind in enumerate(f.component["kind"][:-1]):
        at = slice(begin[c], begin[c + 1])
        sent = h.acks[at].sum()
        if kind == SPOUT:
            spouts[at] = True
            messages += sent
        elif sent > 0:
            share = h.acks[at] / sent
            here = np.bincount(home[at], share, minlength=workers)
            bolts.append((here, sent, share @ near_ms[at], share @ far_ms[at]))

    none = np.ones(workers)  # the probability that no later ack is from another worker
    latest_ms = 0.0
    later = np.zeros((workers, f.first_acker))
    for here, sent, own_ms, sent_ms in sorted(bolts, key=lambda bolt: -bolt[3]):
        none_here = here ** (sent / messages)
        later += (none * (1 - none_here) * _beyond(most_ms, max(latest_ms - sent_ms, 0.0)))[:, None]
        latest_ms = max(latest_ms, own_ms)
        none *= none_here
    other = np.arange(workers)[:, None] != home
    later += none[:, None] * other * _beyond(most_ms[:, None], np.maximum(latest_ms - far_ms, 0.0))
    last[spouts] = (ackers @ later)[spouts]

    none = np.ones(workers)  # that no earlier one is from the acker's own
    sooner = np.zeros((workers, f.first_acker))
    for here, sent, own_ms, _ in sorted(bolts, key=lambda bolt: bolt[2]):
        none_here = np.maximum(1 - here, 0.0) ** (sent / messages)
        sooner += (none * (1 - none_here))[:, None] * _beyond(most_ms[:, None], own_ms - far_ms)
        none *= none_here
    first[spouts] = ((ackers[:, None] * other) * (most_ms[:, None] / 2 - sooner)).sum(axis=0)[spouts]
    mean_ms = float(h.gather[f.first_acker :, FIRST].mean())
    return Gathered(mean_ms, first / (ackers.sum() * mean_ms), last / (ackers.sum() * mean_ms))


def _sent_ms(g: Stages) -> tuple[FloatArray, FloatArray]:
    """Return when acks leave for ackers of their executor's worker and of others, from the emit on."""
    h = g.w.holds
    rows = moments(g, np.ones(g.f.first_acker))
    age_ms = np.divide(rows[:, 1], rows[:, 0], out=np.zeros(len(rows)), where=rows[:, 0] > 0)
    own = slice(0, g.f.first_acker)
    near_ms = age_ms + (h.ack[own, FIRST] if h.ack.shape[0] else 0.0)
    return near_ms, age_ms + (h.out[own, FIRST] if h.out.shape[0] else 0.0)


def _beyond(most_ms: FloatArray, ms: float | FloatArray) -> FloatArray:
    """Return the mean time that a wait, uniform up to ``most_ms``, lasts beyond ``ms``."""
    left = np.maximum(most_ms - ms, 0.0)
    over = left * left / 2 / np.where(most_ms > 0, most_ms, 1.0)
    return np.asarray(np.where(np.less(ms, 0), most_ms / 2 - ms, over))


def reply_ms(g: Stages) -> FloatArray:
    """Return the mean way of an acker's message to each executor, the waits for batches in it."""
    f = g.f
    found = np.zeros(f.first_acker)
    _reply_ms(g, found)
    return found


@compiled
def _reply_ms(g: Stages, found: FloatArray) -> None:
    f, h = g.f, g.w.holds
    ackers = f.executor.size - f.first_acker
    for e in range(f.first_acker):
        for a in range(f.first_acker, f.executor.size):
            value = g.s.hop[f.kind_between[f.executor[a].worker, f.executor[e].worker], 0]
            if near(f, a, e):
                value += h.ack[a, FIRST] if h.ack.shape[0] else 0.0
            else:
                value += h.out[a, FIRST] if h.out.shape[0] else 0.0
                value += h.gather[e, FIRST] if h.gather.shape[0] else 0.0
            found[e] += value / ackers


def times_end(g: Stages, loop: SpoutLoop, spouts: IntArray, step: float, last: FloatArray,
              cf: ComplexArray) -> None:  # fmt: skip
    """Multiply by the acker's batch, queue and service, the way back and the wait for the spout's round.

    Parameters
    ----------
    last : array (executors)
        ``Gathered.last``.
    """
    _times_end(g, loop, spouts, step, last, cf)


@compiled
def _times_end(g: Stages, loop: SpoutLoop, spouts: IntArray, step: float, last: FloatArray,
               cf: ComplexArray) -> None:  # fmt: skip
    f, h = g.f, g.w.holds
    size = cf.shape[1]
    ackers = f.executor.size - f.first_acker
    at_acker = np.zeros(size, dtype=np.complex128)
    gathers = np.zeros(size, dtype=np.complex128)
    one = np.zeros(size, dtype=np.complex128)
    for a in range(f.first_acker, f.executor.size):
        one[:] = 0.0
        slow = g.s.slow[a] * f.executor[a].scale
        add_atoms(f.atom, f.acker_atoms, f.last_atom, slow, step, one)
        times_wait(g.w.law[a], step, one)
        at_acker += one / ackers
        if h.gather.shape[0]:
            one[:] = 1.0 / ackers
            times_hold(h.gather[a], step, one)
            gathers += one
    back = np.zeros(size, dtype=np.complex128)
    used = np.zeros(size, dtype=np.complex128)
    for i in range(spouts.size):
        e = spouts[i]
        back[:] = 0.0
        for a in range(f.first_acker, f.executor.size):
            kind = f.kind_between[f.executor[a].worker, f.executor[e].worker]
            one[:] = 0.0
            add_atoms(f.atom, f.first_hop[kind], f.first_hop[kind + 1], 1.0, step, one)
            if near(f, a, e):
                if h.ack.shape[0]:
                    times_hold(h.ack[a], step, one)
            else:
                if h.out.shape[0]:
                    times_hold(h.out[a], step, one)
                if h.gather.shape[0]:
                    times_hold(h.gather[e], step, one)
            back += one
        one[:] = loop.in_empty[e]
        times_uniform(loop.empty_ms[e], step, one)
        used[:] = 1 - loop.in_empty[e]
        times_uniform(loop.used_ms[e], step, used)
        cf[i] *= at_acker * back * (one + used) / ackers
        if h.gather.shape[0]:
            cf[i] *= 1 - last[e] + last[e] * gathers
