"""Several seasons by repeated smoothing (MSTL), and exponential smoothing of the rest, by statsforecast."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from harness.errors import ForecastDeclined
from harness.forecasts.answers import FloatArray, answer_with, require_history, season_buckets
from harness.protocols import RateForecast, RateHistory

NOTES = """\
statsforecast's MSTL (Bandara, Hyndman and Bergmeir 2021): each season is smoothed out of the history in turn
and repeats as it was last; what remains is forecast by exponential smoothing without a season (AutoETS). Slow
where a season has thousands of buckets. Needs the extra "forecast-rivals"."""


def mstl(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast by repeated smoothing of the seasons; declined where statsforecast is not installed.

    Parameters
    ----------
    history : RateHistory
        At least two of each season.
    horizon_s : float
        How far ahead.
    season_s : sequence of float
        Periods, each a multiple of the bucket.
    levels : sequence of float
        Quantiles, rising, between 0 and 1.
    """

    def quantiles(ahead: int) -> FloatArray:
        if not season_s:
            raise ForecastDeclined("there is no season to smooth by (season_s)")
        try:
            models = import_module("statsforecast.models")
        except ImportError:
            raise ForecastDeclined("statsforecast is missing: install the extra forecast-rivals") from None
        require_history(history, season_s)
        seasons = sorted({season_buckets(history, s) for s in season_s})
        if not history.rate_tps.any():
            return np.zeros((ahead, len(levels)))  # smoothing has no scale there
        model = models.MSTL(season_length=seasons, trend_forecaster=models.AutoETS(model="ZZN"))
        # It gives central intervals: the quantile q is an end of the one that holds |2q - 1|.
        held_pct = {q: round(abs(2 * q - 1) * 100, 6) for q in levels}
        asked = sorted({pct for pct in held_pct.values() if pct > 0})
        scale = float(history.rate_tps.mean())  # its search for parameters stops by absolute steps
        made = model.forecast(y=history.rate_tps / scale, h=ahead, level=asked or None)
        named = (
            "mean" if pct == 0 else f"{'lo' if q < 0.5 else 'hi'}-{pct:g}" for q, pct in held_pct.items()
        )
        by_name = {_as_number(key): np.asarray(value, dtype=float) for key, value in made.items()}
        return np.column_stack([by_name[name] for name in named]) * scale

    return answer_with(history, horizon_s, levels, quantiles)


def _as_number(key: str) -> str:
    """Return the name of an interval's end with its level written in one way (``lo-90.0`` as ``lo-90``)."""
    end, _, level = key.partition("-")
    return f"{end}-{float(level):g}" if level else end
