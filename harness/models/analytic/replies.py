"""What is at the end of a message's tree: what the acker gathers, its queue, the way back to the spout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.analytic.batching import FIRST, times_hold
from harness.models.analytic.compiled import compiled
from harness.models.analytic.forward import Stages
from harness.models.analytic.holding import near
from harness.models.analytic.spectrum import ComplexArray, add_atoms, times_uniform, times_wait
from harness.models.analytic.spout_loop import SpoutLoop
from harness.models.analytic.structure import SPOUT
from harness.models.layout import FloatArray, IntArray


class Gathered(NamedTuple):
    """What comes to an acker from other workers and is gathered there; zero where it is not.

    A message's acks fill one acker's batch, and the last of them waits for it, not each by itself. So what
    counts is whether there is one from another worker (``last``), and whether the acker could begin with one
    from its own (``first``: none could).

    Attributes
    ----------
    mean_ms : float
    first, last : array (executors)
        Probabilities, of spout executors.
    """

    mean_ms: float
    first: FloatArray
    last: FloatArray


def gathered(g: Stages) -> Gathered:
    """Return what ackers gather, acks of one component taken to go to its workers independently."""
    f, h = g.f, g.w.holds
    nothing = np.zeros(f.first_acker)
    if not h.gather.shape[0]:
        return Gathered(0.0, nothing, nothing)
    worker = f.executor["worker"]
    workers = f.kind_between.shape[0]
    ackers = np.bincount(worker[f.first_acker :], minlength=workers) / (f.executor.size - f.first_acker)
    spout = np.zeros(f.first_acker, dtype=bool)
    none_far, none_near = np.ones(workers), np.ones(workers)
    first, kinds = f.component["first_executor"], f.component["kind"][:-1]
    messages = sum(h.acks[first[c] : first[c + 1]].sum() for c in np.flatnonzero(kinds == SPOUT))
    for c in range(kinds.size):
        at = slice(first[c], first[c + 1])
        if kinds[c] == SPOUT:
            spout[at] = True
        elif h.acks[at].sum() > 0:
            of_worker = np.bincount(worker[at], h.acks[at], minlength=workers)
            here, number = of_worker / of_worker.sum(), of_worker.sum() / messages
            none_far *= here**number
            none_near *= (1 - here) ** number
    own = np.equal.outer(worker[: f.first_acker], np.arange(workers))
    last = np.where(spout, 1 - (own * none_far) @ ackers, 0.0)
    begins = np.where(spout, (~own * none_near) @ ackers, 0.0)
    return Gathered(float(h.gather[f.first_acker :, FIRST].mean()), begins, last)


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
