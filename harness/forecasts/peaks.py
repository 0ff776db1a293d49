"""The highest rate that is foreseen until a horizon: what a plan has to carry that is applied now."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import ForecastDeclined, UsageError
from harness.protocols import Forecaster, RateHistory

_ROUNDED = 1e-9
"""Share by which two sums of the same seconds may differ."""


def highest_rate_tps(
    forecaster: Forecaster,
    history: RateHistory,
    now_s: float,
    horizon_s: float,
    season_s: Sequence[float],
    level: float,
) -> float:
    """Return the highest quantile of the rate in any bucket that ends between now and a horizon.

    Parameters
    ----------
    forecaster : Forecaster
    history : RateHistory
        Ends at or before ``now_s``: in a bucket that is not over, nothing is known yet.
    now_s, horizon_s : float
        Now, on the history's clock, and how far ahead of it.
    season_s : sequence of float
        Periods of the seasons.
    level : float
        Of the quantile.

    Raises
    ------
    ForecastDeclined
        When the forecaster has no forecast, or no finite one.
    UsageError
        When the history goes on after now.

    Examples
    --------
    Rates of 2, 4, 6 three times; 2 and 4 come within the next 2 s, and 6 after that.

    >>> import numpy as np
    >>> from harness.forecasts.seasonal_naive import seasonal_naive
    >>> past = RateHistory(np.array([2.0, 4.0, 6.0] * 3), bucket_s=1.0)
    >>> highest_rate_tps(seasonal_naive, past, 9.0, 2.0, (3.0,), 0.95)
    4.0
    """
    end_s = history.start_s + history.bucket_s * len(history.rate_tps)
    if end_s > now_s + _ROUNDED * max(1.0, abs(now_s)):
        raise UsageError(f"the history ends {end_s - now_s:g} s after the decision", "cut it off there")
    forecast = forecaster(history, now_s + horizon_s - end_s, season_s, (level,))
    if forecast.status == "declined":
        raise ForecastDeclined(forecast.reason)
    highest = float(forecast.rate_tps[forecast.time_s > now_s, 0].max(initial=-math.inf))
    if not (math.isfinite(highest) and highest >= 0):
        raise ForecastDeclined(f"it foresees {highest:g} messages/s, which is no rate")
    return highest
