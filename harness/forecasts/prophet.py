"""Prophet, the forecaster of Caladrius and of the thesis's appendix D, as a rival."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Literal

import numpy as np
import pandas as pd

from harness.errors import ForecastDeclined
from harness.forecasts.answers import FloatArray, answer_with, require_history
from harness.protocols import RateForecast, RateHistory

NOTES = """\
Prophet (Taylor and Letham 2018; appendix D.3.1 of the thesis): a level and ten harmonics of each season. The
level is flat; Prophet's own default, which Caladrius uses, is a trend that bends and runs on into the future.
Quantiles of 1,000 drawn futures with a fixed seed. Its fit runs in a program of its own (CmdStan), through
temporary files. Needs the extra "forecast-rivals"."""

HARMONICS = 10
DRAWS = 1000
LEAST = 12
SEED = 0
DAY_S = 86_400


def prophet(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast by Prophet without a trend; declined where prophet is not installed.

    Parameters
    ----------
    history : RateHistory
        At least twelve buckets, and two of each season.
    horizon_s : float
        How far ahead.
    season_s : sequence of float
        Periods; they need not be multiples of the bucket. May be empty.
    levels : sequence of float
        Quantiles, rising, between 0 and 1.
    """
    return _forecast("flat", history, horizon_s, season_s, levels)


def prophet_with_trend(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast by Prophet with its default trend, as Caladrius does (``Prophet()``)."""
    return _forecast("linear", history, horizon_s, season_s, levels)


def _forecast(
    growth: Literal["flat", "linear"],
    history: RateHistory,
    horizon_s: float,
    season_s: Sequence[float],
    levels: Sequence[float],
) -> RateForecast:
    def quantiles(ahead: int) -> FloatArray:
        for name in ("prophet.plot", "cmdstanpy"):  # the one misses plotly, the other tells of each fit
            logging.getLogger(name).disabled = True
        try:
            library = import_module("prophet")
        except ImportError:
            raise ForecastDeclined("prophet is missing: install the extra forecast-rivals") from None
        require_history(history, season_s, LEAST)
        seasonality = {f"{k}ly_seasonality": False for k in ("year", "week")}
        model = library.Prophet(
            growth=growth, daily_seasonality=False, uncertainty_samples=DRAWS, **seasonality
        )
        for season in season_s:
            most = max(1, min(HARMONICS, int(np.ceil(season / history.bucket_s / 2)) - 1))
            model.add_seasonality(name=f"{season:g} s", period=season / DAY_S, fourier_order=most)
        buckets = len(history.rate_tps)
        scale = float(history.rate_tps.mean()) or 1.0
        past = pd.DataFrame({"ds": _dates(history, 0, buckets), "y": history.rate_tps / scale})
        state = np.random.get_state()  # noqa: NPY002 (prophet draws from numpy's global generator)
        try:
            np.random.seed(SEED)  # noqa: NPY002
            model.fit(past, seed=SEED)
            drawn = model.predictive_samples(pd.DataFrame({"ds": _dates(history, buckets, ahead)}))["yhat"]
        finally:
            np.random.set_state(state)  # noqa: NPY002
        return np.asarray(np.quantile(drawn, levels, axis=1).T * scale, dtype=float)

    return answer_with(history, horizon_s, levels, quantiles)


def _dates(history: RateHistory, first: int, buckets: int) -> pd.DatetimeIndex:
    """Return the buckets' ends as dates, since prophet knows no other times."""
    seconds = history.bucket_s * np.arange(first + 1, first + buckets + 1)
    return pd.DatetimeIndex(pd.Timestamp("2001-01-01") + pd.to_timedelta(seconds, unit="s"))
