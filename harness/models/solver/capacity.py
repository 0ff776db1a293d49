"""Loads, and the host or executor that is full, or would be first if all rates grew together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.models.contract.layout import FloatArray
from harness.models.solver.contention import Contention, stretch_at
from harness.models.solver.records import Flat
from harness.models.solver.service import ServiceMoments

_STEPS = 40
_CLOSE = 1e-4


class Bottleneck(NamedTuple):
    """The host or executor that is full first.

    Attributes
    ----------
    factor : float
        By which all rates can grow until then; below 1 if it is full already.
    host, executor : int
        Its number; the other is -1.
    """

    factor: float
    host: int
    executor: int


def executor_loads(net: Flat, service: ServiceMoments, spout_load: FloatArray) -> FloatArray:
    """Return the load of each executor and acker: 1 and more cannot be borne."""
    found = service.load.copy()
    found[: net.first_acker] = np.maximum(found[: net.first_acker], spout_load)
    return found


def bottleneck(
    net: Flat, service: ServiceMoments, use: Contention, spout_load: FloatArray, given: FloatArray | None
) -> Bottleneck:
    """Return what is full first when all rates grow together.

    More load lengthens service too, so the factor is searched for.
    """
    off_core = executor_loads(net, service, spout_load) - use.cores * service.slow
    host = int(np.argmax(use.host_load))
    most = 1 / use.host_load[host] if use.host_load[host] > 0 else np.inf
    slowed = stretch_at(net, use.cores, given)

    def loads(factor: float) -> FloatArray:
        stretch = slowed(factor)
        on_core = np.where(use.cores > 0, use.cores * np.where(np.isfinite(stretch), stretch, 1e9), 0.0)
        return np.asarray(factor * (off_core + on_core))

    alone = off_core + use.cores
    high = min(1 / alone.max() if alone.max() > 0 else np.inf, most * (1 - 1e-6))
    if not np.isfinite(high):
        return Bottleneck(np.inf, -1, -1)
    at_high = loads(high)
    if at_high.max() <= 1 + _CLOSE:
        if most * (1 - 1e-6) <= high:
            return Bottleneck(most, host, -1)
        return Bottleneck(high, -1, int(np.argmax(at_high)))
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if loads(middle).max() > 1:
            high = middle
        else:
            low = middle
        if high - low < _CLOSE * high:
            break
    if high > most * (1 - 1e-3):
        return Bottleneck(most, host, -1)
    return Bottleneck(low, -1, int(np.argmax(loads(low))))
