"""The rate that a period's plan is made for: the last period's, or a forecast's upper quantile."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.errors import ForecastDeclined, UsageError
from harness.experiments.adapting import PeriodSeen
from harness.experiments.forecast_settings import ForecastSettings
from harness.experiments.planned_rates import PlannedRate
from harness.experiments.schedule import Trace
from harness.forecasts import resolve_forecaster
from harness.forecasts.histories import history_before_last
from harness.forecasts.peaks import highest_rate_tps
from harness.protocols import RateHistory

LEAST_BUCKETS, SEASONS = 60, 4
"""Length of the history by which is tried whether a forecaster ever answers."""


class RatePlanner:
    """Says for which rate plans are made; reads each step's earlier traffic once."""

    def __init__(self) -> None:
        self._earlier: dict[tuple[Path | None, float], RateHistory] = {}

    def __call__(self, asked: ForecastSettings, seen: PeriodSeen) -> PlannedRate:
        """Return the highest rate that is foreseen until the horizon, or else the last period's.

        A forecaster sees the earlier traffic and the buckets that are over, and nothing after the decision.
        """
        if asked.forecast is None or asked.horizon_s is None:
            return PlannedRate(seen.rate_tps)
        said = (asked.forecast, asked.quantile, asked.horizon_s)
        try:
            history = self._known(asked, seen.rates.history)
            foreseen_tps = highest_rate_tps(
                resolve_forecaster(asked.forecast),
                history,
                seen.rates.now_s,
                asked.horizon_s,
                asked.season_s,
                asked.quantile,
            )
        except ForecastDeclined as why:
            return PlannedRate(seen.rate_tps, *said, declined=str(why))
        except Exception as why:  # a user's forecaster may raise anything; the step goes on
            return PlannedRate(seen.rate_tps, *said, declined=f"failed with {type(why).__name__}: {why}")
        return PlannedRate(foreseen_tps, *said)

    def _known(self, asked: ForecastSettings, own: RateHistory) -> RateHistory:
        """Return the interval's own past with the earlier traffic before it."""
        key = (asked.history, asked.bucket_s)
        if key not in self._earlier:
            self._earlier[key] = earlier_traffic(asked)
        earlier = self._earlier[key]
        return RateHistory(
            np.concatenate([earlier.rate_tps, own.rate_tps]), asked.bucket_s, earlier.start_s + own.start_s
        )


def earlier_traffic(asked: ForecastSettings) -> RateHistory:
    """Return the traffic up to the interval's begin, which is time 0; nothing without a file of it.

    Raises
    ------
    UsageError
        When the file is no trace, or shorter than a bucket.
    """
    if asked.history is None:
        return RateHistory(np.empty(0), asked.bucket_s)
    return history_before_last(Trace.read(asked.history).offsets_ns, asked.bucket_s)


def require_forecasts(asked: ForecastSettings) -> None:
    """Check that a step's forecaster is there, and answers where it knows enough.

    What the forecaster needs is loaded by it: a step that is measured does not wait for that.

    Raises
    ------
    UsageError
        When the forecaster is not known, or declines however much it knows; when the history is no trace.
    """
    if asked.forecast is None or asked.horizon_s is None:
        return
    forecaster = resolve_forecaster(asked.forecast)
    earlier_traffic(asked)
    longest_s = SEASONS * max(asked.season_s, default=0.0)
    buckets = max(LEAST_BUCKETS, round(longest_s / asked.bucket_s))
    changing = np.asarray(100.0 + np.arange(buckets) % 7, dtype=np.float64)  # as all traffic does
    made = RateHistory(changing, asked.bucket_s)
    try:
        highest_rate_tps(forecaster, made, made.time_s[-1], asked.horizon_s, asked.season_s, asked.quantile)
    except ForecastDeclined as why:
        raise UsageError(f"adapt.forecast: {asked.forecast} never has a forecast: {why}") from None
    except UsageError as why:
        raise UsageError(f"adapt.forecast: {asked.forecast}: {why.message}", why.hint) from None
    except Exception as why:  # a user's forecaster may raise anything
        words = f"adapt.forecast: {asked.forecast} failed with {type(why).__name__}: {why}"
        raise UsageError(words) from why
