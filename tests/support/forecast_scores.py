"""Forecasts judged by what came: rolling origin, pinball loss, coverage, and the decision that rests on them.

From each origin a forecaster sees the history up to there and nothing later. The decision is that of an
alert: back-pressure is foreseen where the rate is likelier above a limit than below. Tests and bench/ use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.errors import UsageError
from harness.forecasts.answers import LEVELS, FloatArray, count_buckets
from harness.forecasts.foreseeing import exceeding_probability
from harness.protocols import Forecaster, RateForecast, RateHistory

ALERT_PROBABILITY = 0.5
INTERVAL = (0.05, 0.95)
"""Ends of the interval whose coverage is judged."""


def pinball_loss(actual: FloatArray, quantile: FloatArray, level: float | FloatArray) -> FloatArray:
    """Return the loss of quantiles: ``level`` for each unit too low, ``1 - level`` for each too high.

    The mean is least for the true quantile (Koenker and Bassett 1978). Arrays are broadcast.

    Examples
    --------
    >>> pinball_loss(np.array([10.0, 10.0]), np.array([8.0, 12.0]), 0.9).round(3).tolist()
    [1.8, 0.2]
    """
    above = np.asarray(actual) - quantile
    return np.asarray(np.maximum(level * above, (level - 1) * above), dtype=float)


@dataclass(frozen=True)
class HorizonScore:
    """One forecaster's score at one horizon.

    Attributes
    ----------
    origins : int
        Forecasts that were judged.
    declined : int
        Forecasts that were not made.
    pinball_tps : float
        Mean pinball loss over origins and levels; NaN where all were declined, as the next.
    covered_pct : float
        Share of the rates within the 90 % interval.
    hits, misses, false_alarms, quiet : int
        Rate above the limit: foreseen, not foreseen; not above it: foreseen, not foreseen. All zero without a
        limit.
    """

    horizon_s: float
    origins: int
    declined: int
    pinball_tps: float
    covered_pct: float
    hits: int
    misses: int
    false_alarms: int
    quiet: int

    @property
    def hit_pct(self) -> float:
        """Share of the times above the limit that were foreseen; NaN where there was no such time."""
        return _percent(self.hits, self.hits + self.misses)

    @property
    def false_alarm_pct(self) -> float:
        """Share of the alarms after which the rate was not above the limit; NaN without an alarm."""
        return _percent(self.false_alarms, self.hits + self.false_alarms)


@dataclass(frozen=True)
class RollingOrigin:
    """The moments from which is forecast.

    Attributes
    ----------
    first_s, every_s : float
        Length of the first history, and how much each is longer than the one before.
    window_s : float, optional
        How much of the past a forecaster sees, at most; all of it by default.
    """

    first_s: float
    every_s: float
    window_s: float | None = None


def roll_origins(history: RateHistory, origins: RollingOrigin, horizon_s: float) -> Iterator[int]:
    """Yield numbers of buckets to give as history, so that the horizon lies within what is known.

    Raises
    ------
    UsageError
        When the history has no room for one origin.

    Examples
    --------
    >>> list(roll_origins(RateHistory(np.ones(10), bucket_s=2.0), RollingOrigin(8.0, 4.0), 6.0))
    [4, 6]
    """
    first = count_buckets(history, origins.first_s)
    last = len(history.rate_tps) - count_buckets(history, horizon_s)
    if first > last:
        raise UsageError(
            f"{len(history.rate_tps) * history.bucket_s:g} s of history have no room for an origin at"
            f" {origins.first_s:g} s and a horizon of {horizon_s:g} s",
            "give more history or a nearer horizon",
        )
    yield from range(first, last + 1, count_buckets(history, origins.every_s))


def judge_forecaster(
    forecaster: Forecaster,
    history: RateHistory,
    horizons_s: Sequence[float],
    season_s: Sequence[float],
    origins: RollingOrigin,
    limit_tps: float | None = None,
    probability: float = ALERT_PROBABILITY,
) -> pd.DataFrame:
    """Forecast from one origin after another, and set beside each forecast what came.

    Parameters
    ----------
    horizons_s : sequence of float
        How far ahead; the bucket that reaches to each is judged.
    origins : RollingOrigin
    limit_tps : float, optional
        Rate above which there is back-pressure.
    probability : float
        From which on the rate counts as foreseen above the limit.

    Returns
    -------
    DataFrame
        A row an origin and horizon: ``origin_s``, ``horizon_s``, ``actual_tps``, ``pinball_tps`` (mean over
        the levels), ``low_tps`` and ``high_tps`` (90 % interval), ``probability`` (of being above the limit,
        NaN without one), ``above``, ``foreseen``, ``declined`` (the reason, else empty; numbers are NaN).
    """
    rows = []
    for known in roll_origins(history, origins, max(horizons_s)):
        window_s = origins.window_s
        first = 0 if window_s is None else max(0, known - count_buckets(history, window_s))
        start_s = history.start_s + first * history.bucket_s
        past = RateHistory(history.rate_tps[first:known], history.bucket_s, start_s)
        forecast = forecaster(past, max(horizons_s), season_s, LEVELS)
        made = forecast.status == "ok"
        for horizon_s in horizons_s:
            ahead = count_buckets(history, horizon_s) - 1
            actual = float(history.rate_tps[known + ahead])
            quantiles = forecast.rate_tps[ahead] if made else np.full(len(LEVELS), np.nan)
            loss = float(pinball_loss(np.array(actual), quantiles, np.array(LEVELS)).mean())
            low, high = (float(quantiles[LEVELS.index(end)]) for end in INTERVAL)
            chance = np.nan
            if made and limit_tps is not None:
                chance = float(exceeding_probability(_only(forecast, ahead), limit_tps)[0])
            above = limit_tps is not None and actual > limit_tps
            rows.append(
                {
                    "origin_s": history.start_s + known * history.bucket_s,
                    "horizon_s": horizon_s,
                    "actual_tps": actual,
                    "pinball_tps": loss,
                    "low_tps": low,
                    "high_tps": high,
                    "probability": chance,
                    "above": above,
                    "foreseen": bool(chance >= probability),
                    "declined": forecast.reason,
                }
            )
    return pd.DataFrame(rows)


def score_horizons(judged: pd.DataFrame) -> list[HorizonScore]:
    """Sum rows of ``judge_forecaster`` up by horizon."""
    return [_score(float(str(horizon)), rows) for horizon, rows in judged.groupby("horizon_s")]


def _score(horizon_s: float, rows: pd.DataFrame) -> HorizonScore:
    declined = rows["declined"] != ""
    made = rows[~declined]
    covered = made["actual_tps"].between(made["low_tps"], made["high_tps"])
    limited = made[made["probability"].notna()]
    above, foreseen = limited["above"].astype(bool), limited["foreseen"].astype(bool)
    return HorizonScore(
        horizon_s=horizon_s,
        origins=len(made),
        declined=int(declined.sum()),
        pinball_tps=float(made["pinball_tps"].mean()),
        covered_pct=float(100 * covered.mean()),
        hits=int((above & foreseen).sum()),
        misses=int((above & ~foreseen).sum()),
        false_alarms=int((~above & foreseen).sum()),
        quiet=int((~above & ~foreseen).sum()),
    )


def _only(forecast: RateForecast, bucket: int) -> RateForecast:
    """Return one bucket of a forecast."""
    one = slice(bucket, bucket + 1)
    return RateForecast(forecast.time_s[one], forecast.levels, forecast.rate_tps[one])


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else float("nan")
