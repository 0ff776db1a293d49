"""Distributions of times as a few values: made from histograms and moments, their mean kept exactly."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from harness.models.contract.layout import FloatArray
from harness.models.network import Atoms, constant

RANKS = np.array([0.0, 0.05, 0.15, 0.3, 0.45, 0.6, 0.72, 0.82, 0.9, 0.95, 0.98, 0.995, 1.0])
"""Between these shares of the probability lies one atom each: fine where the tail is."""
_SHARES = np.diff(RANKS)
_STEPS = 8
"""Atoms of an even or lognormal part."""
_LOG_RANKS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.92, 0.98, 0.995, 1.0])
"""Between these lies one atom each of a lognormal part."""
_LOG_SHARES, _NORMAL = np.diff(_LOG_RANKS), ndtri(_LOG_RANKS)


def merged(values_ms: FloatArray, weights: FloatArray) -> Atoms:
    """Return one atom for each range of ranks: its mean, so that the whole mean is exact.

    Parameters
    ----------
    values_ms : array (n)
        In any order.
    weights : array (n)
        Not negative; some positive.

    Examples
    --------
    >>> merged(np.array([3.0, 1.0]), np.array([1.0, 3.0])).mean_ms
    1.5
    """
    order = np.argsort(values_ms, kind="stable")
    value, weight = values_ms[order], weights[order] / weights.sum()
    if value.size <= RANKS.size:
        return Atoms(value, weight)
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    upto[-1] = 1.0
    total = np.concatenate([[0.0], np.cumsum(weight * value)])
    # the integral of the quantile function, at the ranks; a value that straddles a rank is split
    at = np.interp(RANKS, upto, total)
    return Atoms(np.diff(at) / _SHARES, _SHARES)


def scaled(atoms: Atoms, mean_ms: float) -> Atoms:
    """Return the same shape with another mean; a constant where the shape has none."""
    mean = atoms.mean_ms
    return Atoms(atoms.values_ms * (mean_ms / mean), atoms.probabilities) if mean > 0 else constant(mean_ms)


def shifted(atoms: Atoms, by_ms: float) -> Atoms:
    """Return all values moved; one that would be negative is 0, and the others move on so that the mean fits.

    Where the mean itself would be negative, it is 0.
    """
    mean = max(atoms.mean_ms + by_ms, 0.0)
    values = np.maximum(atoms.values_ms + by_ms, 0.0)
    found = float(values @ atoms.probabilities)
    return Atoms(values * (mean / found) if found > 0 else values, atoms.probabilities)


def from_histogram(values_ms: FloatArray, count: FloatArray, mean_ms: float) -> Atoms:
    """Return a histogram's shape with a mean that is known better than from its bins."""
    if not count.sum() > 0:
        return constant(mean_ms)
    return scaled(merged(values_ms, count), mean_ms)


def even(longest_ms: float) -> Atoms:
    """Return the time until the end of a period that begins at any time: even between 0 and its length.

    Examples
    --------
    >>> even(2.0).mean_ms
    1.0
    """
    return Atoms((np.arange(_STEPS) + 0.5) / _STEPS * longest_ms, np.full(_STEPS, 1 / _STEPS))


def lognormal(mean_ms: float, scv: float) -> Atoms:
    """Return a lognormal time; each atom is the mean of a range of ranks, the last two in the tail."""
    if mean_ms <= 0 or scv <= 0:
        return constant(max(mean_ms, 0.0))
    sigma = math.sqrt(math.log1p(scv))
    # E[X; X <= its quantile p] / E[X] is Phi(Phi^-1(p) - sigma)
    below = ndtr(_NORMAL - sigma)
    return Atoms(mean_ms * np.diff(below) / _LOG_SHARES, _LOG_SHARES)


def sum_of(first: Atoms, second: Atoms) -> Atoms:
    """Return the distribution of a sum of independent times, merged to a few atoms."""
    values = (first.values_ms[:, None] + second.values_ms[None, :]).ravel()
    weights = (first.probabilities[:, None] * second.probabilities[None, :]).ravel()
    return merged(values, weights)
