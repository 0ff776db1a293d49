"""Traffic made by rule and seed, to judge forecasters by and to play as a trace: of people, and of machines.

The two kinds are those of the thesis's appendix D.5: topologies that serve people have strong seasons, those
fed by other programs are bursty. The shapes and numbers are this project's own, no measurement of either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from harness.errors import UsageError
from harness.forecasts.answers import FloatArray
from harness.protocols import RateHistory

NOISE_MEMORY = 0.6
"""Correlation of a bucket's noise with that of the bucket before."""
OFFICE = ((0.0, 0.25), (0.3, 0.25), (0.35, 1.75), (0.8, 1.75), (0.85, 0.25), (1.0, 0.25))
"""Points of the steep day: share of the day, and rate as a multiple of the mean."""
WEEKEND = 0.75
"""Traffic of the last two days of each week, as a share of the others'."""
BURST_SHAPE = 1.5
"""Exponent of the bursts' heights (Pareto): the largest of them hold most of what the bursts bring."""
TALLEST = 20.0
"""The tallest burst, in multiples of the least."""


@dataclass(frozen=True)
class Day:
    """A season of people's traffic.

    Attributes
    ----------
    length_s : float
        A day of two minutes can be played on a cluster.
    steep : bool
        Whether it is that of an office.
    weekly : bool
        Whether the last two days of seven are quieter.
    """

    length_s: float = 120.0
    steep: bool = False
    weekly: bool = False


TWO_MINUTES = Day()


def seasonal_trace(
    seed: int,
    days: int = 10,
    day: Day = TWO_MINUTES,
    bucket_s: float = 2.0,
    mean_tps: float = 200.0,
    noise: float = 0.05,
) -> RateHistory:
    """Return traffic of people: a morning's and an evening's peak each day, and a quiet night.

    The smooth day has two harmonics. The steep one is that of an office: a level of the night and one of the
    day, each rise and fall within a twentieth of a day.

    Parameters
    ----------
    seed : int
        The same seed gives the same trace (with the same release of numpy).
    days : int
        Number of seasons.
    day : Day
    bucket_s : float
        Length of a bucket.
    mean_tps : float
        Mean of the rate, without the weekends' lull.
    noise : float
        Standard deviation of the rate's own wandering, as a share of the rate. Counts vary by chance
        (Poisson) beside this.

    Returns
    -------
    RateHistory
        With whole counts in each bucket.

    Examples
    --------
    >>> trace = seasonal_trace(seed=1, days=3)
    >>> len(trace.rate_tps), bool(trace.rate_tps.min() < 80 < 300 < trace.rate_tps.max())
    (180, True)
    """
    rng = np.random.default_rng(seed)
    buckets = _bucket_number(days * day.length_s, bucket_s)
    at = (np.arange(buckets) + 0.5) * bucket_s / day.length_s  # in days
    angle = 2 * np.pi * at
    shape = 1 - 0.5 * np.cos(angle) - 0.3 * np.cos(2 * angle - 0.4)
    if day.steep:
        shape = np.interp(at % 1, [share for share, _ in OFFICE], [level for _, level in OFFICE])
    if day.weekly:
        shape = np.where(at % 7 >= 5, WEEKEND, 1.0) * shape
    innovations = rng.normal(0, noise * np.sqrt(1 - NOISE_MEMORY**2), buckets)
    wandering = lfilter([1.0], [1.0, -NOISE_MEMORY], innovations)
    return _counted(rng, mean_tps * shape * np.exp(wandering - noise**2 / 2), bucket_s)


def bursty_trace(
    seed: int,
    length_s: float = 1200.0,
    bucket_s: float = 2.0,
    mean_tps: float = 200.0,
    burst_share: float = 0.5,
    gap_s: float = 30.0,
    burst_s: float = 8.0,
) -> RateHistory:
    """Return traffic of machines: a steady base, and bursts at moments that nothing tells in advance.

    Bursts begin at exponential gaps, last exponential times and have heights of a bounded Pareto
    distribution. Where they overlap they add up.

    Parameters
    ----------
    seed : int
        The same seed gives the same trace.
    length_s, bucket_s : float
        Length of the trace and of a bucket.
    mean_tps : float
        Mean of the rate in the long run.
    burst_share : float
        Share of the tuples that come in bursts.
    gap_s, burst_s : float
        Mean gap between the beginnings of bursts, and mean length of a burst.

    Examples
    --------
    >>> trace = bursty_trace(seed=1)
    >>> bool(np.median(trace.rate_tps) < 200 < 400 < trace.rate_tps.max())
    True
    """
    if not 0 <= burst_share <= 1:
        raise UsageError(f"burst_share {burst_share}", "a share lies between 0 and 1")
    rng = np.random.default_rng(seed)
    buckets = _bucket_number(length_s, bucket_s)
    ends = bucket_s * np.arange(1, buckets + 1)
    load = np.zeros(buckets)
    start_s = rng.exponential(gap_s)
    while start_s < length_s:
        end_s = start_s + rng.exponential(burst_s)
        inside = np.clip(np.minimum(ends, end_s) - np.maximum(ends - bucket_s, start_s), 0, None) / bucket_s
        load += _burst_height(rng.random()) * inside
        start_s += rng.exponential(gap_s)
    # Campbell's theorem: bursts of mean height m are a mean load of m burst_s / gap_s.
    unit_tps = mean_tps * burst_share / (_mean_burst_height() * burst_s / gap_s)
    return _counted(rng, mean_tps * (1 - burst_share) + unit_tps * load, bucket_s)


def send_times_s(trace: RateHistory, seed: int) -> FloatArray:
    """Return when each of a trace's tuples is sent, as a trace file has it: seconds from the start, rising.

    Within a bucket the times are uniform and independent, as those of a Poisson process with a known count.

    Raises
    ------
    UsageError
        When a bucket's count is no whole number.

    Examples
    --------
    >>> send_times_s(RateHistory(np.array([1.0, 0.0, 1.5]), bucket_s=2.0), seed=1).round(1).tolist()
    [1.0, 1.9, 4.3, 4.6, 5.9]
    """
    counts = trace.rate_tps * trace.bucket_s
    whole = np.rint(counts).astype(np.int64)
    if np.abs(counts - whole).max(initial=0.0) > 1e-6:
        raise UsageError(
            "a trace's buckets hold parts of tuples", "make it with seasonal_trace or bursty_trace"
        )
    starts = np.repeat(np.arange(len(whole)), whole)
    within = np.random.default_rng(seed).random(len(starts))
    return np.sort((starts + within) * trace.bucket_s)


def _bucket_number(length_s: float, bucket_s: float) -> int:
    if not (0 < bucket_s <= length_s < float("inf")):
        raise UsageError(f"a trace of {length_s} s in buckets of {bucket_s} s", "give at least one bucket")
    return round(length_s / bucket_s)


def _burst_height(chance: float) -> float:
    """Return the height at a probability of the bounded Pareto distribution from 1 to ``TALLEST``."""
    held = 1 - TALLEST**-BURST_SHAPE
    return float((1 - chance * held) ** (-1 / BURST_SHAPE))


def _mean_burst_height() -> float:
    """Return the mean of the bounded Pareto distribution."""
    a, held = BURST_SHAPE, 1 - TALLEST**-BURST_SHAPE
    return float(a / (a - 1) * (1 - TALLEST ** (1 - a)) / held)


def _counted(rng: np.random.Generator, rate_tps: FloatArray, bucket_s: float) -> RateHistory:
    return RateHistory(rng.poisson(rate_tps * bucket_s) / bucket_s, bucket_s)
