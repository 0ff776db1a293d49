"""The decision that rests on a forecast: a rate above a limit is foreseen where that is likely enough."""

from __future__ import annotations

import numpy as np

from harness.forecasts.answers import FloatArray
from harness.protocols import RateForecast


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


def foresee(forecast: RateForecast, limit_tps: float, probability: float) -> tuple[float, float] | None:
    """Return when the rate is first above a limit with at least a probability, and that probability.

    Examples
    --------
    >>> forecast = RateForecast(np.array([1.0, 2.0]), (0.1, 0.9), np.array([[10.0, 20.0], [20.0, 30.0]]))
    >>> foresee(forecast, 22.0, 0.5)
    (2.0, 0.74)
    >>> foresee(forecast, 35.0, 0.5) is None
    True
    """
    chances = exceeding_probability(forecast, limit_tps)
    sure = np.flatnonzero(chances >= probability)
    if not len(sure):
        return None
    return float(forecast.time_s[sure[0]]), round(float(chances[sure[0]]), 6)
