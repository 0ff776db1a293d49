"""Caladrius's ``stats_summary``: the future is as the past was, at any time of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.forecasts.answers import FloatArray, answer_with, require_history
from harness.protocols import RateForecast, RateHistory

NOTES = """\
Quantiles of all rates in the history, for every bucket ahead (Caladrius's stats_summary, which takes three
hours of history by default). Knows no season and no time."""


def stats_summary(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast the history's own quantiles for every bucket.

    Parameters
    ----------
    history : RateHistory
        At least eight buckets.
    horizon_s : float
        How far ahead.
    season_s : sequence of float
        Not used.
    levels : sequence of float
        Quantiles, rising, between 0 and 1.

    Examples
    --------
    >>> past = RateHistory(np.arange(9.0), bucket_s=1.0)
    >>> stats_summary(past, 2.0, (), (0.5,)).rate_tps.tolist()
    [[4.0], [4.0]]
    """
    del season_s

    def quantiles(ahead: int) -> FloatArray:
        require_history(history, ())
        return np.tile(np.quantile(history.rate_tps, levels), (ahead, 1))

    return answer_with(history, horizon_s, levels, quantiles)
