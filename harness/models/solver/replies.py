"""The end of a message's tree: acks gathered for the acker, the acker's queue, the way back to the spout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.batching import FIRST, times_hold
from harness.models.solver.compiled import compiled
from harness.models.solver.forward import moments
from harness.models.solver.holding import near
from harness.models.solver.indices import ackers_of, hop_between
from harness.models.solver.spectrum import ComplexArray, add_atoms, add_hop, times_uniform, times_wait
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.stages import Stages
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


def gathered(stages: Stages) -> Gathered:
    """Return the delays of ackers by gathering.

    Acks of one component are taken to go to its workers independently. Only the means of the times between
    components' acks count. A wait is taken to be uniform up to twice its mean.
    """
    net, holds = stages.net, stages.flow.holds
    first, last = np.zeros(net.first_acker), np.zeros(net.first_acker)
    if not (holds.gather.shape[0] and holds.gather[net.first_acker :, FIRST].any()):
        return Gathered(0.0, first, last)
    workers, begin = net.kind_between.shape[0], net.components["first_executor"]
    home, acker_home = net.executors["worker"][: net.first_acker], net.executors["worker"][net.first_acker :]
    ackers = np.bincount(acker_home, minlength=workers)
    gather_ms = np.bincount(acker_home, holds.gather[net.first_acker :, FIRST], minlength=workers)
    most_ms: FloatArray = 2 * gather_ms / np.maximum(ackers, 1)
    near_ms, far_ms = _sent_ms(stages)

    bolts, messages, spouts = [], 0.0, np.zeros(net.first_acker, dtype=bool)
    for c, kind in enumerate(net.components["kind"][:-1]):
        at = slice(begin[c], begin[c + 1])
        sent = holds.acks[at].sum()
        if kind == SPOUT:
            spouts[at] = True
            messages += sent
        elif sent > 0:
            share = holds.acks[at] / sent
            here = np.bincount(home[at], share, minlength=workers)
            bolts.append((here, sent, share @ near_ms[at], share @ far_ms[at]))

    none = np.ones(workers)  # the probability that no later ack is from another worker
    latest_ms = 0.0
    later = np.zeros((workers, net.first_acker))
    for here, sent, own_ms, sent_ms in sorted(bolts, key=lambda bolt: -bolt[3]):
        none_here = here ** (sent / messages)
        later += (none * (1 - none_here) * _beyond(most_ms, max(latest_ms - sent_ms, 0.0)))[:, None]
        latest_ms = max(latest_ms, own_ms)
        none *= none_here
    other = np.arange(workers)[:, None] != home
    later += none[:, None] * other * _beyond(most_ms[:, None], np.maximum(latest_ms - far_ms, 0.0))
    last[spouts] = (ackers @ later)[spouts]

    none = np.ones(workers)  # that no earlier one is from the acker's own
    sooner = np.zeros((workers, net.first_acker))
    for here, sent, own_ms, _ in sorted(bolts, key=lambda bolt: bolt[2]):
        none_here = np.maximum(1 - here, 0.0) ** (sent / messages)
        sooner += (none * (1 - none_here))[:, None] * _beyond(most_ms[:, None], own_ms - far_ms)
        none *= none_here
    first[spouts] = ((ackers[:, None] * other) * (most_ms[:, None] / 2 - sooner)).sum(axis=0)[spouts]
    mean_ms = float(holds.gather[net.first_acker :, FIRST].mean())
    return Gathered(mean_ms, first / (ackers.sum() * mean_ms), last / (ackers.sum() * mean_ms))


def _sent_ms(stages: Stages) -> tuple[FloatArray, FloatArray]:
    """Return when acks leave for ackers of their executor's worker and of others, from the emit on."""
    holds = stages.flow.holds
    rows = moments(stages, np.ones(stages.net.first_acker))
    age_ms = np.divide(rows[:, 1], rows[:, 0], out=np.zeros(len(rows)), where=rows[:, 0] > 0)
    own = slice(0, stages.net.first_acker)
    near_ms = age_ms + (holds.ack[own, FIRST] if holds.ack.shape[0] else 0.0)
    return near_ms, age_ms + (holds.out[own, FIRST] if holds.out.shape[0] else 0.0)


def _beyond(most_ms: FloatArray, ms: float | FloatArray) -> FloatArray:
    """Return the mean time that a wait, uniform up to ``most_ms``, lasts beyond ``ms``."""
    left = np.maximum(most_ms - ms, 0.0)
    over = left * left / 2 / np.where(most_ms > 0, most_ms, 1.0)
    return np.asarray(np.where(np.less(ms, 0), most_ms / 2 - ms, over))


def reply_ms(stages: Stages) -> FloatArray:
    """Return the mean way of an acker's message to each executor, the waits for batches in it."""
    net = stages.net
    found = np.zeros(net.first_acker)
    _reply_ms(stages, found)
    return found


@compiled
def _reply_ms(stages: Stages, found: FloatArray) -> None:
    net, holds = stages.net, stages.flow.holds
    ackers = len(ackers_of(net))
    for executor in range(net.first_acker):
        for acker in ackers_of(net):
            value = stages.service.hop[hop_between(net, acker, executor), 0]
            if near(net, acker, executor):
                value += holds.ack[acker, FIRST] if holds.ack.shape[0] else 0.0
            else:
                value += holds.out[acker, FIRST] if holds.out.shape[0] else 0.0
                value += holds.gather[executor, FIRST] if holds.gather.shape[0] else 0.0
            found[executor] += value / ackers


@compiled
def times_end(
    stages: Stages, loop: SpoutLoop, spouts: IntArray, step: float, last: FloatArray, cf: ComplexArray
) -> None:
    """Multiply by the acker's batch, queue and service, the way back and the wait for the spout's round.

    Parameters
    ----------
    last : array (executors)
        ``Gathered.last``.
    """
    net, holds = stages.net, stages.flow.holds
    size = cf.shape[1]
    ackers = len(ackers_of(net))
    at_acker = np.zeros(size, dtype=np.complex128)
    gathers = np.zeros(size, dtype=np.complex128)
    one = np.zeros(size, dtype=np.complex128)
    for acker in ackers_of(net):
        one[:] = 0.0
        slow = stages.service.slow[acker] * net.executors[acker].scale
        add_atoms(net.atoms, net.acker_atoms, net.last_atom, slow, step, one)
        times_wait(stages.flow.law[acker], step, one)
        at_acker += one / ackers
        if holds.gather.shape[0]:
            one[:] = 1.0 / ackers
            times_hold(holds.gather[acker], step, one)
            gathers += one
    back = np.zeros(size, dtype=np.complex128)
    used = np.zeros(size, dtype=np.complex128)
    for i in range(spouts.size):
        executor = spouts[i]
        back[:] = 0.0
        for acker in ackers_of(net):
            one[:] = 0.0
            add_hop(net, hop_between(net, acker, executor), step, one)
            if near(net, acker, executor):
                if holds.ack.shape[0]:
                    times_hold(holds.ack[acker], step, one)
            else:
                if holds.out.shape[0]:
                    times_hold(holds.out[acker], step, one)
                if holds.gather.shape[0]:
                    times_hold(holds.gather[executor], step, one)
            back += one
        one[:] = loop.in_empty[executor]
        times_uniform(loop.empty_ms[executor], step, one)
        used[:] = 1 - loop.in_empty[executor]
        times_uniform(loop.used_ms[executor], step, used)
        cf[i] *= at_acker * back * (one + used) / ackers
        if holds.gather.shape[0]:
            cf[i] *= 1 - last[executor] + last[executor] * gathers
