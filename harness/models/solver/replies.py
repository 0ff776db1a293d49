"""The end of a message's tree: the acker's queue, and the way back to the spout."""

from __future__ import annotations

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.solver.compiled import compiled
from harness.models.solver.indices import ackers_of, hop_between
from harness.models.solver.spectrum import ComplexArray, add_atoms, add_hop, times_uniform, times_wait
from harness.models.solver.spout_loop import SpoutLoop
from harness.models.solver.stages import Stages


def reply_ms(stages: Stages) -> FloatArray:
    """Return the mean way of an acker's message to each executor."""
    net = stages.net
    found = np.zeros(net.first_acker)
    _reply_ms(stages, found)
    return found


@compiled
def _reply_ms(stages: Stages, found: FloatArray) -> None:
    net = stages.net
    ackers = len(ackers_of(net))
    for executor in range(net.first_acker):
        for acker in ackers_of(net):
            found[executor] += stages.service.hop[hop_between(net, acker, executor), 0] / ackers


@compiled
def times_end(stages: Stages, loop: SpoutLoop, spouts: IntArray, step: float, cf: ComplexArray) -> None:
    """Multiply by the acker's queue and service, the way back and the wait for the spout's round."""
    net = stages.net
    size = cf.shape[1]
    ackers = len(ackers_of(net))
    at_acker = np.zeros(size, dtype=np.complex128)
    one = np.zeros(size, dtype=np.complex128)
    for acker in ackers_of(net):
        one[:] = 0.0
        add_atoms(net.atoms, net.acker_atoms, net.last_atom, stages.service.slow[acker], step, one)
        times_wait(stages.flow.law[acker], step, one)
        at_acker += one / ackers
    back = np.zeros(size, dtype=np.complex128)
    used = np.zeros(size, dtype=np.complex128)
    for i in range(spouts.size):
        executor = spouts[i]
        back[:] = 0.0
        for acker in ackers_of(net):
            add_hop(net, hop_between(net, acker, executor), step, back)
        one[:] = loop.in_empty[executor]
        times_uniform(loop.empty_ms[executor], step, one)
        used[:] = 1 - loop.in_empty[executor]
        times_uniform(loop.used_ms[executor], step, used)
        cf[i] *= at_acker * back * (one + used) / ackers
