"""The decision that rests on a forecast: back-pressure is foreseen where it is likely enough (D.5).

Two rules say so. By the rate (Caladrius's), more comes than goes through. By the backlog, tuples that came
before still wait, although no more comes than goes through: spouts pause until those are worked off.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from harness.forecasts.answers import FloatArray
from harness.protocols import RateForecast, RateHistory

Rule = Literal["rate", "backlog"]


class RateLimit(NamedTuple):
    """The rate that goes through at most, and what waits already.

    Attributes
    ----------
    rate_tps : float
        Tuples a second.
    waiting : float
        Tuples that wait where the forecast begins.
    """

    rate_tps: float
    waiting: float = 0.0


class PressureForeseen(NamedTuple):
    """The first bucket in which a rule foresees back-pressure.

    Attributes
    ----------
    end_s : float
        Where it ends, on the forecast's clock.
    probability : float
        By the backlog it is at least so probable.
    rule : {'rate', 'backlog'}
        ``rate`` where both say so.
    """

    end_s: float
    probability: float
    rule: Rule


def exceeding_probability(forecast: RateForecast, limit_tps: float) -> FloatArray:
    """Return the probability that the rate is above a limit, in each bucket.

    Between two quantiles the probability is interpolated. Beyond the outermost it is theirs, since a forecast
    says nothing of the tails; it is never below ``1 - levels[-1]`` nor above ``1 - levels[0]``.

    Returns
    -------
    ndarray, shape (h,)

    Examples
    --------
    >>> forecast = RateForecast(np.array([1.0]), (0.1, 0.5, 0.9), np.array([[10.0, 20.0, 40.0]]))
    >>> [round(float(exceeding_probability(forecast, limit)[0]), 3) for limit in (5, 20, 30, 99)]
    [0.9, 0.5, 0.3, 0.1]
    """
    levels = np.asarray(forecast.levels)
    at_most = [np.interp(limit_tps, quantiles, levels) for quantiles in forecast.rate_tps]
    return 1 - np.asarray(at_most, dtype=float)


def waiting_after(history: RateHistory, limit_tps: float) -> float:
    """Return how many tuples wait where a history ends, as nothing waited where it begins.

    Parameters
    ----------
    limit_tps : float
        Tuples a second that go through at most.

    Examples
    --------
    >>> waiting_after(RateHistory(np.array([10.0, 30.0, 40.0, 15.0]), bucket_s=2.0), 20.0)
    50.0
    """
    return float(_backlog(history.rate_tps, limit_tps, history.bucket_s, 0.0)[-1])


def waiting_ahead(
    forecast: RateForecast, limit: RateLimit, bucket_s: float, level: float = 0.5
) -> FloatArray:
    """Return how many tuples wait at the end of each bucket, if a quantile of the rate comes in all.

    Parameters
    ----------
    bucket_s : float
        Length of the forecast's buckets.
    level : float
        Of the quantile. Below the outermost one a forecast says nothing, and nothing comes.

    Returns
    -------
    ndarray, shape (h,)

    Examples
    --------
    >>> forecast = RateForecast(np.array([2.0, 4.0]), (0.5,), np.array([[15.0], [15.0]]))
    >>> waiting_ahead(forecast, RateLimit(20.0, waiting=15.0), 2.0).tolist()
    [5.0, 0.0]
    """
    rates = [np.interp(level, forecast.levels, quantiles, left=0.0) for quantiles in forecast.rate_tps]
    return _backlog(np.asarray(rates, dtype=float), limit.rate_tps, bucket_s, limit.waiting)


def foresee(
    forecast: RateForecast, limit: RateLimit, bucket_s: float, probability: float
) -> PressureForeseen | None:
    """Return the first bucket in which back-pressure has at least a probability, by either rule.

    By the backlog it has where tuples wait although no more comes than the quantile that is exceeded with
    that probability: with 0.5, the median.

    Parameters
    ----------
    bucket_s : float
        Length of the forecast's buckets.

    Examples
    --------
    >>> forecast = RateForecast(np.array([1.0, 2.0]), (0.1, 0.9), np.array([[10.0, 20.0], [20.0, 30.0]]))
    >>> foresee(forecast, RateLimit(22.0), 1.0, 0.5)
    PressureForeseen(end_s=2.0, probability=0.74, rule='rate')
    >>> foresee(forecast, RateLimit(35.0), 1.0, 0.5) is None
    True
    >>> foresee(forecast, RateLimit(35.0, waiting=30.0), 1.0, 0.5)
    PressureForeseen(end_s=1.0, probability=0.5, rule='backlog')
    """
    chances = exceeding_probability(forecast, limit.rate_tps)
    by_rate = chances >= probability
    by_backlog = waiting_ahead(forecast, limit, bucket_s, 1 - probability) > 0
    sure = np.flatnonzero(by_rate | by_backlog)
    if not len(sure):
        return None
    first = sure[0]
    chance = max(float(chances[first]), probability)
    return PressureForeseen(
        float(forecast.time_s[first]), round(chance, 6), "rate" if by_rate[first] else "backlog"
    )


def _backlog(rate_tps: FloatArray, limit_tps: float, bucket_s: float, waiting: float) -> FloatArray:
    """Return what waits at each bucket's end: what came and did not go through."""
    ends = np.empty(len(rate_tps))
    for bucket, excess in enumerate((rate_tps - limit_tps) * bucket_s):
        waiting = max(waiting + float(excess), 0.0)
        ends[bucket] = waiting
    return ends
