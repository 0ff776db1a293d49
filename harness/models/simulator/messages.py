"""The messages that reach a network's spouts: when, and which task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray, IntArray
from harness.models.network import Network


class Messages(NamedTuple):
    """Messages in any order.

    Attributes
    ----------
    due_ms : array (messages)
        When each is there to be emitted.
    task : array (messages)
        Identifier of the spout task that will emit it.
    """

    due_ms: FloatArray
    task: IntArray


def generate(network: Network, until_ms: float, seed: int) -> Messages:
    """Draw the messages of a time from 0 on.

    The gaps between those of a task are gamma distributed with the network's squared coefficient of
    variation, and in equilibrium: nothing begins at 0. In turn, the gaps between all messages of a spout
    are drawn, so that as many of them as it has tasks make a gap of that variation.
    """
    rng = np.random.default_rng([seed, 0])
    due: list[FloatArray] = [np.empty(0)]
    task: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for spout, rates in network.input_tps.items():
        used = np.asarray(network.layout.tasks[spout])[rates > 0]
        if network.in_turn and used.size:
            scv = network.input_scv * used.size
            times = _renewal(rng, 1000 / float(rates.sum()), scv, until_ms)
            due.append(times)
            task.append(used[(np.arange(times.size) + rng.integers(used.size)) % used.size])
            continue
        for identifier, rate in zip(used, rates[rates > 0], strict=True):
            times = _renewal(rng, 1000 / float(rate), network.input_scv, until_ms)
            due.append(times)
            task.append(np.full(times.size, identifier, dtype=np.int64))
    return Messages(np.concatenate(due), np.concatenate(task))


def _renewal(rng: np.random.Generator, mean_ms: float, scv: float, until_ms: float) -> FloatArray:
    """Draw a renewal process that has gone on for ever: the gap around 0 is the longer, the likelier."""
    if scv == 0:
        return np.arange(rng.random() * mean_ms, until_ms, mean_ms)
    shape, scale = 1 / scv, mean_ms * scv
    parts = [np.array([rng.random() * rng.gamma(shape + 1, scale)])]
    while parts[-1][-1] < until_ms:
        number = int((until_ms - parts[-1][-1]) / mean_ms * 1.1) + 100
        gaps = rng.standard_exponential(number) if scv == 1 else rng.standard_gamma(shape, number)
        parts.append(parts[-1][-1] + np.cumsum(scale * gaps))
    times = np.concatenate(parts)
    return np.asarray(times[: np.searchsorted(times, until_ms)])
