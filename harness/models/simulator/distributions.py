"""Common distributions of times as atoms: equal shares, each at its own mean, so that the mean is exact.

Variability within a share is lost: with 200 shares the second moment of an exponential distribution is
0.3 % low. A test that compares with a formula has to take that moment from the atoms themselves.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from harness.models.network import Atoms, constant

SHARES = 200


def exponential(mean_ms: float, shares: int = SHARES) -> Atoms:
    """Return an exponential distribution.

    Examples
    --------
    >>> round(exponential(2.0).mean_ms, 12)
    2.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        left = -np.log1p(-np.arange(shares + 1) / shares)
        below = np.where(np.isfinite(left), (left + 1) * np.exp(-left), 0.0)  # of the mean, beyond ``left``
    return _shares(mean_ms * shares * -np.diff(below), mean_ms)


def lognormal(mean_ms: float, cv: float, shares: int = SHARES) -> Atoms:
    """Return a lognormal distribution with that coefficient of variation."""
    sigma = np.sqrt(np.log1p(cv**2))
    below = ndtr(ndtri(np.arange(shares + 1) / shares) - sigma)  # of the mean, up to each share's end
    return _shares(mean_ms * shares * np.diff(below), mean_ms)


def uniform(low_ms: float, high_ms: float, shares: int = SHARES) -> Atoms:
    """Return a uniform distribution."""
    middle = (np.arange(shares) + 0.5) / shares
    return _shares(low_ms + (high_ms - low_ms) * middle, (low_ms + high_ms) / 2)


def scaled(atoms: Atoms, factor: float) -> Atoms:
    """Return the distribution of a multiple."""
    return Atoms(atoms.values_ms * factor, atoms.probabilities)


def _shares(values: np.ndarray[tuple[int], np.dtype[np.float64]], mean_ms: float) -> Atoms:
    if mean_ms == 0:
        return constant(0.0)
    return Atoms(values * (mean_ms / values.mean()), np.full(values.size, 1 / values.size))
