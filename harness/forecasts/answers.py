"""Parts that all forecasters share: checks of a history, and the making of an answer from quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.errors import ForecastDeclined, UsageError
from harness.protocols import RateForecast, RateHistory

FloatArray = npt.NDArray[np.float64]

LEVELS = (0.01, *(round(0.05 * i, 2) for i in range(1, 20)), 0.99)
"""Quantiles that are close enough to read a probability from them."""
LEAST_SEASONS = 2
"""A season seen once cannot be told from a trend or from chance."""
LEAST_BUCKETS = 8
_MOST_BUCKETS = 1_000_000
_WHOLE = 1e-6


def count_buckets(history: RateHistory, horizon_s: float) -> int:
    """Return how many buckets reach to the horizon, the last one perhaps beyond it.

    Raises
    ------
    UsageError
        When the horizon is not above zero, or too many buckets away.

    Examples
    --------
    >>> count_buckets(RateHistory(np.ones(3), bucket_s=2.0), horizon_s=5.0)
    3
    """
    buckets = horizon_s / history.bucket_s
    if not 0 < buckets <= _MOST_BUCKETS:
        raise UsageError(
            f"horizon of {horizon_s} s", f"give one of 1 to {_MOST_BUCKETS} buckets of {history.bucket_s} s"
        )
    return max(1, math.ceil(buckets - _WHOLE))


def require_levels(levels: Sequence[float]) -> None:
    """Raise UsageError unless the levels of quantiles rise, between 0 and 1."""
    rising = all(a < b for a, b in pairwise(levels))
    if not levels or not rising or not (levels[0] > 0 and levels[-1] < 1):
        raise UsageError(
            f"quantiles {', '.join(f'{q:g}' for q in levels) or 'without any level'}",
            "give rising levels between 0 and 1",
        )


def require_history(history: RateHistory, season_s: Sequence[float], least: int = LEAST_BUCKETS) -> None:
    """Raise ForecastDeclined unless the history holds ``least`` buckets and two of each season.

    A season shorter than two buckets cannot be seen in them, and is declined, too.
    """
    buckets = len(history.rate_tps)
    if buckets < least:
        raise ForecastDeclined(f"the history has {buckets} buckets, {least} are needed")
    length_s = buckets * history.bucket_s
    for season in season_s:
        if not season >= 2 * history.bucket_s:
            raise ForecastDeclined(f"a season of {season:g} s has less than two buckets")
        if length_s < LEAST_SEASONS * season - _WHOLE * history.bucket_s:
            raise ForecastDeclined(
                f"the history of {length_s:g} s is too short for a season of {season:g} s"
                f" ({LEAST_SEASONS} seasons are needed)"
            )


def is_whole(buckets: float) -> bool:
    """Return whether a number of buckets is whole but for rounding, and not 0."""
    return _WHOLE < buckets < math.inf and abs(buckets - round(buckets)) <= _WHOLE * buckets


def season_buckets(history: RateHistory, season_s: float) -> int:
    """Return how many buckets a season has.

    Raises
    ------
    ForecastDeclined
        When they are not a whole number: a bucket then has no counterpart a season ago.
    """
    buckets = season_s / history.bucket_s
    if not is_whole(buckets):
        raise ForecastDeclined(
            f"a season of {season_s:g} s is no multiple of buckets of {history.bucket_s:g} s"
        )
    return round(buckets)


def answer_with(
    history: RateHistory,
    horizon_s: float,
    levels: Sequence[float],
    quantiles: Callable[[int], FloatArray],
) -> RateForecast:
    """Return a forecast, or a declined one with the reason.

    Parameters
    ----------
    quantiles : callable
        Takes the number of buckets h and gives quantiles of shape (h, len(levels)); rates below zero become
        zero. Where it raises ForecastDeclined, the forecast is declined with that reason.
    """
    require_levels(levels)
    ahead = count_buckets(history, horizon_s)
    try:
        rates = quantiles(ahead)
    except ForecastDeclined as why:
        return RateForecast(np.empty(0), tuple(levels), np.empty((0, len(levels))), "declined", str(why))
    end_s = history.start_s + history.bucket_s * len(history.rate_tps)
    time_s = np.asarray(end_s + history.bucket_s * np.arange(1, ahead + 1), dtype=np.float64)
    # Rounding, and samples where a forecaster draws them, may cross quantiles by a hair.
    return RateForecast(time_s, tuple(levels), np.sort(np.maximum(rates, 0.0), axis=1))
