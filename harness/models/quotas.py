"""CPU quotas of worker nodes: no thread is slowed before the quota of a period is used up, then all wait.

Linux's CFS bandwidth control counts the CPU time of a control group in periods of 100 ms. A group that has
used up its quota is taken off all cores until the next period begins. So a quota is no slower processor: a
message is late only where it comes to a group that has used up its quota, or has work left over.

The CPU time that messages ask for is taken as a gamma process. Messages come at random, and their CPU time in
the group varies as an exponential's. The work that earlier quotas left over at the start of a period is the
maximum of a random walk (Lindley). Spitzer's identity has its mean, and the probability that there is some.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc

from harness.models.contract.layout import FloatArray

PERIOD_MS = 100.0
"""Period of a quota: the kernel's default, and that of ``harness.machine.cgroups``."""
_MOMENTS = (np.arange(25) + 0.5) / 25
"""Moments of a period, at which it is asked whether the quota is used up."""
_STEPS = np.unique(np.concatenate([np.arange(1, 21), np.geomspace(21, 1e5, 60).round()]))
_STANDS_FOR = np.gradient(_STEPS)
"""Steps of the walk that are looked at, and how many each stands for."""
_TINY = 1e-9


class _AskedOfQuotas(NamedTuple):
    """CPU time that groups ask for: a gamma process beside an even part.

    The process has the mean and variance of a compound Poisson process with exponential jumps. So its shape
    a ms is half the rate, and its scale twice the mean jump.
    """

    shape: float
    scale_ms: FloatArray
    even: FloatArray

    def beyond(self, at_ms: FloatArray, limit_ms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability that more than a limit is asked for by then, and the mean excess."""
        shape = self.shape * at_ms
        far = np.maximum(limit_ms - self.even * at_ms, 0.0) / self.scale_ms
        more = gammaincc(shape, far)
        return more, self.scale_ms * (shape * gammaincc(shape + 1, far) - far * more)


def quota_wait_ms(
    asked_cores: FloatArray, tuples_cores: FloatArray, quota_cores: FloatArray, rate_tps: float
) -> FloatArray:
    """Return how long a message waits on average for the quota of a group that it comes to.

    Parameters
    ----------
    asked_cores : array (groups)
        Cores that all of the group asks for on average.
    tuples_cores : array (groups)
        Of these, what messages ask for; the rest is asked for evenly.
    quota_cores : array (groups)
        Infinite where there is no quota.
    rate_tps : float
        Messages a second.

    Returns
    -------
    array (groups)
        0 without a quota, infinite where the whole quota is asked for.

    Examples
    --------
    Half of a quota of 0.3 cores, by 100 messages a second: in few periods it is used up.

    >>> asked, quotas = np.array([0.15, 0.15, 0.3]), np.array([0.3, np.inf, 0.3])
    >>> quota_wait_ms(asked, np.full(3, 0.15), quotas, 100.0).round(2)
    array([0.09, 0.  ,  inf])
    """
    found = np.zeros(asked_cores.size)
    found[asked_cores >= quota_cores] = np.inf
    mine = np.isfinite(quota_cores) & (asked_cores < quota_cores) & (tuples_cores > 0)
    if mine.any():
        message_ms = 1000 * tuples_cores[mine] / rate_tps
        even = asked_cores[mine] - tuples_cores[mine]
        demand = _AskedOfQuotas(rate_tps / 2000, 2 * message_ms, even)
        found[mine] = _wait_ms(demand, quota_cores[mine] * PERIOD_MS)
    return found


def _wait_ms(demand: _AskedOfQuotas, quota_ms: FloatArray) -> FloatArray:
    """Return the mean wait."""
    steps, stands_for = _STEPS[:, None], _STANDS_FOR[:, None]
    ever, more_ms = demand.beyond(PERIOD_MS * steps, quota_ms * steps)
    some = -np.expm1(-(stands_for * ever / steps).sum(axis=0))
    mean_ms = (stands_for * more_ms / steps).sum(axis=0)
    rest_ms = np.maximum(mean_ms / np.maximum(some, _TINY), _TINY)  # where there is some
    at = PERIOD_MS * _MOMENTS[:, None]

    def until_next(left_ms: FloatArray) -> FloatArray:
        used_up, _ = demand.beyond(at, quota_ms - left_ms)
        return np.asarray((used_up * (PERIOD_MS - at)).mean(axis=0))

    once_more = np.exp(-quota_ms / rest_ms)  # exponential: as much again as a quota is left over
    whole_ms = PERIOD_MS * once_more / -np.expm1(-quota_ms / rest_ms)
    first = until_next(np.zeros(quota_ms.size))
    return np.asarray((1 - some) * first + some * (until_next(np.minimum(rest_ms, quota_ms)) + whole_ms))


def quota_stretch(
    asked_cores: FloatArray, tuples: tuple[FloatArray, FloatArray], quota_cores: FloatArray, rate_tps: float
) -> FloatArray:
    """Return how many times longer the work of messages takes because of their group's quota.

    A message that comes to a group waits once: what it still has to do there is done soon after.

    Parameters
    ----------
    asked_cores, quota_cores : array (groups)
        As of ``quota_wait_ms``.
    tuples : tuple of array (groups)
        Cores that messages ask for, and their tuples a second in the group.
    rate_tps : float
        Messages a second.

    Returns
    -------
    array (groups)
        At least 1; 1 without a quota, infinite where more than the quota is asked for.

    Examples
    --------
    >>> asked, tuples = np.array([0.15, 0.15]), (np.array([0.15, 0.15]), np.array([100.0, 100.0]))
    >>> quota_stretch(asked, tuples, np.array([0.3, np.inf]), 100.0).round(3)
    array([1.06, 1.  ])
    """
    cores, served_tps = tuples
    wait_ms = quota_wait_ms(asked_cores, cores, quota_cores, rate_tps)
    work_ms = 1000 * cores / rate_tps  # of a message, on average over all
    comes = np.minimum(served_tps / rate_tps, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        longer = np.where(cores > 0, comes * wait_ms / work_ms, np.where(np.isinf(wait_ms), np.inf, 0.0))
    return np.asarray(1.0 + longer)
