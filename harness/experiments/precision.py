"""Precision of the mean of an interval, and when to stop measuring.

Messages near each other in time share fate: they wait in one queue, or leave in one window. Their spread says
little about the mean's error. So the interval is cut into batches of equal *time*, and the error is taken
from the spread between batches (batch means). A batch weighs as its number of messages (ratio estimator), so
empty and full batches are both used as they are.

The batches are as many of 30, 24, 20, 15, 12 and 10 as von Neumann's test lets pass as uncorrelated. Positive
correlation that remains is put into the variance, as of a first-order autoregression. Negative correlation,
which windows cause, is not put in: the interval is then too wide rather than too narrow.

An interval looked at several times, and kept at the first look that is narrow enough, covers the truth less
often than one looked at once. So each look uses the level of `look_alpha`. The table shows the coverage at
the stop, in percent, of simulated intervals of 60 s with one look, and with four looks from 30 s on. Each is
of 600 intervals (standard error 1 point); ``tests/experiments/test_precision.py`` asserts it within binomial
bounds.

| stream                                              | one look | four looks |
| --------------------------------------------------- | -------: | ---------: |
| independent messages                                |       95 |   95 to 98 |
| half of the variance in a level, time constant 0.3 s |      94 |   94 to 95 |
| the same, time constant 1 s                         |       91 |   92 to 93 |
| count windows, 16 keys, the rarest lasting 2.7 s    |       99 |   98 to 99 |
| count windows, 16 keys, the rarest lasting 20 s     |      100 |         99 |

An interval should therefore be a hundred times the longest time constant of the measured stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from harness.errors import StepInvalid

Floats = NDArray[np.float64]

BATCH_COUNTS = (30, 24, 20, 15, 12, 10)
"""Numbers of batches tried, from the shortest batches to the longest."""
FINE_BATCHES = 120
"""Values are summed once in so many; every number in `BATCH_COUNTS` divides it."""
CORRELATION_ALPHA = 0.2
"""One-sided level of von Neumann's test; large, since a correlation missed makes intervals too narrow."""
LEAST_MESSAGES = 30
"""With fewer no interval is given."""


@dataclass(frozen=True)
class Look:
    """Mean and its precision at one look.

    Attributes
    ----------
    mean : float
        Mean of all values.
    half_width : float
        Of the mean's 95 % interval, widened for the number of looks; infinite when there are too few
        messages to tell.
    precision_pct : float
        Half-width in percent of the mean.
    standard_error : float
        Of the mean, with ``batches - 1`` degrees of freedom.
    batches : int
        Number of batches used.
    autocorrelation : float
        Lag-1 autocorrelation of the batches, before it is allowed for.
    independent : bool
        False when even the longest batches are positively correlated, so that the half-width, although
        widened for it, is not to be relied on.
    enough : bool
        The precision asked is reached with independent batches: measuring may stop.
    """

    mean: float
    half_width: float
    precision_pct: float
    standard_error: float
    batches: int
    autocorrelation: float
    independent: bool
    enough: bool


@dataclass(frozen=True)
class _BatchMeans:
    count: int
    standard_error: float
    autocorrelation: float
    independent: bool


MOST_MISSED_FACTOR = 2.0
"""A precision missed by up to this factor is noted; beyond it the step is measured again, then invalid."""


def samples(times_s: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats]:
    """Return both as arrays, having checked that nothing is missing.

    Raises
    ------
    ValueError
        When they are not two arrays of one length.
    StepInvalid
        When a time or value is missing or infinite, or a value is negative.
    """
    times, x = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if times.ndim != 1 or times.shape != x.shape:
        raise ValueError(f"times and values must be arrays of one length, not {times.shape} and {x.shape}")
    missing = int(np.count_nonzero(~(np.isfinite(times) & np.isfinite(x))))
    negative = int(np.count_nonzero(x < 0))
    if missing or negative:
        raise StepInvalid(
            f"of {x.size} measured values {missing} are missing and {negative} negative",
            "a latency must be a number of at least 0",
        )
    return times, x


def batch_totals(
    times_s: Floats,
    values: Floats,
    start_s: float,
    end_s: float,
    batches: int,
    weights: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Count and sum the values in batches of equal time.

    Parameters
    ----------
    times_s, values : ndarray, shape (n,)
        In any order; times outside ``start_s <= time < end_s`` belong to no batch.
    start_s, end_s : float
        The interval.
    batches : int
        Number of batches.
    weights : array_like, shape (n,), optional
        How many values each of them stands for, with their mean; 1 when left out.

    Returns
    -------
    counts, sums : ndarray, shape (batches,)

    Raises
    ------
    ValueError
        When the interval is empty.
    """
    if not start_s < end_s:
        raise ValueError(f"the interval from {start_s} s to {end_s} s is empty")
    inside = (times_s >= start_s) & (times_s < end_s)
    w = np.ones(times_s.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if not inside.all():
        times_s, values, w = times_s[inside], values[inside], w[inside]
    # Rounding can put a time just below end_s on the upper edge of the last batch.
    which = np.minimum(((times_s - start_s) * (batches / (end_s - start_s))).astype(np.intp), batches - 1)
    counts = np.bincount(which, weights=w, minlength=batches).astype(np.float64)
    sums = np.bincount(which, weights=values * w, minlength=batches).astype(np.float64)
    return counts, sums


def deviations(counts: Floats, sums: Floats) -> Floats:
    """Return each batch's share in the error of the ratio of all sums to all counts; they add up to 0."""
    total = float(counts.sum())
    return (sums - float(sums.sum()) / total * counts) * (counts.size / total)


def look(
    times_s: ArrayLike,
    values: ArrayLike,
    start_s: float,
    end_s: float,
    precision_pct: float,
    looks: int = 1,
    weights: ArrayLike | None = None,
) -> Look:
    """Estimate the mean over an interval and say whether it is known well enough.

    Parameters
    ----------
    times_s, values : array_like, shape (n,)
        When each message was sent, or when it arrived, and its latency. By time of sending, leave the
        interval's last messages the time to arrive: those that are there first are the quick ones.
        Messages outside the interval are ignored.
    start_s, end_s : float
        Start of the interval and the time of this look.
    precision_pct : float
        Half-width asked, in percent of the mean.
    looks : int
        Number of looks planned, which widens the interval (`look_alpha`); 1 to report an interval
        whose end did not depend on the values.
    weights : array_like, shape (n,), optional
        As for `batch_totals`.

    Raises
    ------
    ValueError
        When the interval is empty or the arrays differ in length.
    StepInvalid
        When a value is missing or negative.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> times = np.arange(0, 60, 0.01)
    >>> seen = look(times, rng.exponential(20, times.size), 0, 60, precision_pct=5)
    >>> seen.enough, round(seen.mean), round(seen.precision_pct)
    (True, 20, 2)
    """
    times, x = samples(times_s, values)
    counts, sums = batch_totals(times, x, start_s, end_s, FINE_BATCHES, weights)
    messages = counts.sum()
    mean = float(sums.sum() / messages) if messages else nan
    if messages < LEAST_MESSAGES:
        return Look(mean, inf, inf, inf, BATCH_COUNTS[-1], 0.0, independent=False, enough=False)
    chosen = _choose_batches(deviations(counts, sums))
    half_width = critical(chosen.count, looks) * chosen.standard_error
    relative_pct = 100 * half_width / mean if mean > 0 else inf
    return Look(
        mean,
        half_width,
        relative_pct,
        chosen.standard_error,
        chosen.count,
        chosen.autocorrelation,
        chosen.independent,
        enough=chosen.independent and relative_pct <= precision_pct,
    )


def look_times(least_s: float, most_s: float, looks: int) -> tuple[float, ...]:
    """Return when to look, in seconds since the interval began: the last at the most time.

    The times grow by a constant factor, so that each look adds the same share of precision.

    Raises
    ------
    ValueError
        When the least time is not positive, exceeds the most, or there is no look.

    Examples
    --------
    >>> look_times(30, 120, 3)
    (30.0, 60.0, 120.0)
    """
    if not 0 < least_s <= most_s or looks < 1:
        raise ValueError(f"{looks} looks between {least_s} s and {most_s} s cannot be")
    if looks == 1 or least_s == most_s:
        return (float(most_s),)
    factor = (most_s / least_s) ** (1 / (looks - 1))
    return (*(float(least_s * factor**i) for i in range(looks - 1)), float(most_s))


def look_alpha(looks: int) -> float:
    """Return the level of each of that many looks which leaves 5 % at the stop, found by simulation.

    Successive looks share most of their data, so far less has to be given up than 0.05 / looks.
    """
    if looks == 1:
        return 0.05
    return 0.03 if looks <= 4 else 0.025


@cache
def critical(batches: int, looks: int = 1) -> float:
    """Return the half-width, in standard errors, of a 95 % interval at any of that many looks."""
    return float(stdtrit(batches - 1, 1 - look_alpha(looks) / 2))


def von_neumann(z: Floats) -> float:
    """Return von Neumann's test statistic of a series with mean 0; about standard normal if independent.

    Positive when neighbours are alike, negative when they alternate; 0 for a series without spread.
    """
    square = float(z @ z)
    if square == 0:
        return 0.0
    n = z.size
    ratio = float(np.square(np.diff(z)).sum()) / square
    return (1 - ratio / 2) / sqrt((n - 2) / (n * n - 1))


def _choose_batches(fine: Floats) -> _BatchMeans:
    """Merge fine batches until neighbours pass as uncorrelated, or the batches are the longest."""
    accepted = float(ndtri(1 - CORRELATION_ALPHA))
    for count in BATCH_COUNTS:
        z = fine.reshape(count, -1).mean(axis=1)
        statistic = von_neumann(z)
        if abs(statistic) <= accepted:
            break
    square = float(z @ z)
    lag_1 = float(z[1:] @ z[:-1]) / square if square > 0 else 0.0
    # The estimate's bias is about -1/count; only positive correlation is allowed for.
    excess = max(lag_1 + 1 / count, 0.0)
    variance = square / (count * (count - 1)) * (1 + excess) / (1 - excess)
    return _BatchMeans(count, sqrt(variance), lag_1, independent=statistic <= accepted)


def precision_words(reached_pct: float) -> str:
    """Return a half-width in percent in words; of too few values there is no mean to be near to.

    Examples
    --------
    >>> precision_words(2.04), precision_words(float("inf"))
    ('±2.0 % of the mean reached', 'too few results for a mean')
    """
    return (
        f"±{reached_pct:.1f} % of the mean reached" if isfinite(reached_pct) else "too few results for a mean"
    )
