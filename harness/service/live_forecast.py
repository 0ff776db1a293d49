"""Forecasts of a submitted topology's spouts: from its last seasons, or else from its last minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from harness.app.submitted.live_past import SpoutPast
from harness.errors import UsageError
from harness.forecasts import DEFAULT, FORECASTERS
from harness.forecasts.alerting import SubjectForecast, forecast_subjects
from harness.forecasts.histories import SubjectHistory, histories_of_metrics
from harness.forecasts.seasons import known_seasons
from harness.protocols import RateForecast, RateHistory

HORIZON_S = 60.0
"""At least so far is looked ahead."""
PART = 24
"""Such a part of a season is foreseen: an hour of a day."""
LEVELS = (0.05, 0.5, 0.95)
"""Ends and middle of the band that is drawn."""


@dataclass(frozen=True)
class LiveForecast:
    """Rates of whole spouts that are foreseen from now on.

    Attributes
    ----------
    subjects : tuple of SubjectHistory
        The past that they are foreseen from.
    forecasts : tuple of SubjectForecast
        Buckets that end after now.
    horizon_s : float
        How far ahead of now.
    season_s : tuple of float
        Seasons that the past shows; none where it is the last minutes.
    since_end_s : float
        Time from the past's end to now.
    """

    subjects: tuple[SubjectHistory, ...] = ()
    forecasts: tuple[SubjectForecast, ...] = ()
    horizon_s: float = HORIZON_S
    season_s: tuple[float, ...] = ()
    since_end_s: float = 0.0


@dataclass(frozen=True)
class RecentRates:
    """The rates of the last minutes; the same as others of their topology that end with the same bucket."""

    topology: str
    end_s: float
    subjects: tuple[SubjectHistory, ...] = field(compare=False)


def foresee_live(
    topology: str,
    recent: Sequence[SubjectHistory],
    past: SpoutPast | None,
    spouts: tuple[str, ...],
    season_s: tuple[float, ...],
    now_s: float,
) -> LiveForecast:
    """Foresee the spouts' rates from the past as far as that shows a season, else from the last minutes.

    Either is made once a bucket, for all who ask.

    Parameters
    ----------
    topology : str
        Its folder.
    recent : sequence of SubjectHistory
        Of whole spouts, in the last minutes.
    past : SpoutPast, optional
    season_s : tuple of float
        Those that the traffic is said to have.
    now_s : float
        Seconds of the epoch.

    Raises
    ------
    UsageError
        When there is no forecast.
    """
    seasonal = None if past is None else _of_past(past, spouts, season_s)
    if seasonal is None:
        return _of_minutes(RecentRates(topology, float(recent[0].history.time_s[-1]), tuple(recent)))
    return replace(
        seasonal,
        forecasts=tuple(_after(one, now_s, now_s + seasonal.horizon_s) for one in seasonal.forecasts),
        since_end_s=now_s - float(seasonal.subjects[0].history.time_s[-1]),
    )


@lru_cache(maxsize=8)
def _of_minutes(recent: RecentRates) -> LiveForecast:
    """Return a forecast without seasons, made once until a bucket more is known."""
    made = forecast_subjects(recent.subjects, {DEFAULT: FORECASTERS[DEFAULT]}, HORIZON_S, (), LEVELS)
    return LiveForecast(recent.subjects, tuple(made))


@lru_cache(maxsize=8)
def _of_past(past: SpoutPast, spouts: tuple[str, ...], season_s: tuple[float, ...]) -> LiveForecast | None:
    """Return a forecast by seasons, made once until more of the past is known; None where it shows none."""
    try:
        every = histories_of_metrics(past.rows.to_pandas(), spouts, *past.span, past.bucket_s)
    except UsageError:
        return None  # no bucket of it has been read yet
    subjects = tuple(subject for subject in every if subject.task is None)
    known = known_seasons(subjects[0].history, season_s)
    if not known:
        return None
    horizon_s = max(HORIZON_S, min(known) / PART)
    # The past's end is up to a bucket and its report before now.
    ahead_s = horizon_s + 2 * past.bucket_s + HORIZON_S
    made = forecast_subjects(subjects, {DEFAULT: FORECASTERS[DEFAULT]}, ahead_s, known, LEVELS)
    return LiveForecast(subjects, tuple(made), horizon_s, known)


def _after(one: SubjectForecast, now_s: float, until_s: float) -> SubjectForecast:
    """Return a forecast's buckets that end after now, up to the one that reaches to a time."""

    def cut(forecast: RateForecast) -> RateForecast:
        ends_s = forecast.time_s
        bucket_s = one.subject.history.bucket_s
        kept = (ends_s > now_s) & (ends_s < until_s + bucket_s)
        return replace(forecast, time_s=ends_s[kept], rate_tps=forecast.rate_tps[kept])

    return replace(one, fine=cut(one.fine), asked=cut(one.asked))


def require_live_forecasts() -> None:
    """Check that the forecaster of submitted topologies can run here.

    Raises
    ------
    UsageError
        When it declines traffic that changes and is known for long enough; why, in its words.
    """
    changing = RateHistory(np.asarray(100.0 + np.arange(60) % 7, dtype=np.float64), 1.0)
    subject = SubjectHistory("spout", None, "default", changing)
    forecast_subjects((subject,), {DEFAULT: FORECASTERS[DEFAULT]}, HORIZON_S, (), LEVELS)
