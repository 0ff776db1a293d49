"""The honest floor: the same bucket a season ago, with intervals from what that was wrong by before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.errors import ForecastDeclined
from harness.forecasts.answers import FloatArray, answer_with, require_history, season_buckets
from harness.protocols import RateForecast, RateHistory

NOTES = """\
The rate in the same bucket of the latest whole season (of the longest season where several are given). Errors
are taken as normal, with the mean square of the history's differences between one season and the next; k
seasons ahead they are the sum of k such differences (Hyndman and Athanasopoulos, section 5.5)."""


def seasonal_naive(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast the rate of a season ago.

    Parameters
    ----------
    history : RateHistory
        At least two of the longest season.
    horizon_s : float
        How far ahead.
    season_s : sequence of float
        Periods, each a multiple of the bucket; the longest one is used.
    levels : sequence of float
        Quantiles, rising, between 0 and 1.

    Examples
    --------
    >>> past = RateHistory(np.array([1.0, 5.0, 2.0, 2.0] * 3), bucket_s=1.0)
    >>> seasonal_naive(past, 2.0, (4.0,), (0.05, 0.95)).rate_tps.tolist()
    [[1.0, 1.0], [5.0, 5.0]]
    """

    def quantiles(ahead: int) -> FloatArray:
        if not season_s:
            raise ForecastDeclined("there is no season to look back by (season_s)")
        require_history(history, season_s)
        season = season_buckets(history, max(season_s))
        steps = np.arange(ahead)
        center = history.rate_tps[-season:][steps % season]
        differences = history.rate_tps[season:] - history.rate_tps[:-season]
        # Hyndman and Athanasopoulos, table 5.2: sigma_h = sigma sqrt(k), k = whole seasons ahead + 1
        spread = np.sqrt(np.mean(differences**2) * (steps // season + 1))
        return np.asarray(center[:, None] + np.outer(spread, stats.norm.ppf(levels)), dtype=float)

    return answer_with(history, horizon_s, levels, quantiles)
