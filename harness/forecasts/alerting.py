"""Forecasts of many subjects at once, and alerts where a component's rate will pass a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import UsageError
from harness.forecasts.answers import LEVELS, count_buckets, require_levels
from harness.forecasts.foreseeing import foresee
from harness.forecasts.histories import SubjectHistory
from harness.protocols import Forecaster, RateForecast


@dataclass(frozen=True, eq=False)
class SubjectForecast:
    """One model's forecast of one subject.

    Attributes
    ----------
    fine : RateForecast
        At the levels asked and at those from which probabilities are read.
    asked : RateForecast
        At the levels asked alone.
    """

    model: str
    subject: SubjectHistory
    fine: RateForecast
    asked: RateForecast

    def at(self, horizon_s: float) -> list[float]:
        """Return the quantiles asked in the bucket that reaches to a horizon."""
        quantiles = self.asked.rate_tps[count_buckets(self.subject.history, horizon_s) - 1]
        return [float(q) for q in quantiles]


@dataclass(frozen=True)
class RateAlert:
    """A component's rate into a stream that will be above its limit: from when on, and how probably."""

    component: str
    stream: str
    model: str
    limit_tps: float
    ahead_s: float
    probability: float


def forecast_subjects(
    subjects: Sequence[SubjectHistory],
    forecasters: Mapping[str, Forecaster],
    horizon_s: float,
    season_s: Sequence[float],
    levels: Sequence[float],
) -> list[SubjectForecast]:
    """Let each forecaster answer for each subject.

    Raises
    ------
    UsageError
        When the levels or the horizon cannot be, or no forecaster has an answer for any subject.
    """
    require_levels(levels)
    union = tuple(sorted({*levels, *LEVELS}))
    columns = [union.index(level) for level in levels]
    forecasts = []
    for subject in subjects:
        for model, forecaster in forecasters.items():
            fine = forecaster(subject.history, horizon_s, season_s, union)
            asked = RateForecast(
                fine.time_s, tuple(levels), fine.rate_tps[:, columns], fine.status, fine.reason
            )
            forecasts.append(SubjectForecast(model, subject, fine, asked))
    if forecasts and all(f.fine.status == "declined" for f in forecasts):
        raise UsageError(f"no forecast: {forecasts[0].model}: {forecasts[0].fine.reason}")
    return forecasts


def find_alerts(
    forecasts: Sequence[SubjectForecast], limit_of: Mapping[str, float], model: str, probability: float
) -> Iterator[RateAlert]:
    """Yield an alert for each whole component whose rate a model expects above its limit.

    Parameters
    ----------
    limit_of : mapping
        Limit in tuples a second by component; a component without one has no alert.
    probability : float
        From which on a rate counts as above the limit.

    Raises
    ------
    UsageError
        When the model declined for a component with a limit: silence would look like safety.
    """
    for one in forecasts:
        component = one.subject.component
        if one.model != model or one.subject.task is not None or component not in limit_of:
            continue
        if one.fine.status == "declined":
            raise UsageError(f"no alert can be given for {component}: {model}: {one.fine.reason}")
        first = foresee(one.fine, limit_of[component], probability)
        if first is not None:
            end_s = float(one.subject.history.time_s[-1])
            yield RateAlert(
                component=component,
                stream=one.subject.stream,
                model=model,
                limit_tps=limit_of[component],
                ahead_s=round(first[0] - end_s, 6),
                probability=first[1],
            )


def read_limits(texts: Sequence[str], components: Sequence[str]) -> dict[str, float]:
    """Return limits by component from ``RATE``, which is every component's, and ``COMPONENT=RATE``.

    Raises
    ------
    UsageError
        When a limit is no rate, or its component is not among those that are forecast.

    Examples
    --------
    >>> read_limits(["100", "spout=120"], ["other", "spout"])
    {'other': 100.0, 'spout': 120.0}
    """
    limit_of: dict[str, float] = {}
    # The component's own limit counts, wherever it stands.
    for text in sorted(texts, key=lambda t: "=" in t):
        component, _, rate = text.rpartition("=")
        try:
            limit_tps = float(rate)
        except ValueError:
            limit_tps = float("nan")
        if not (limit_tps >= 0 and np.isfinite(limit_tps)):
            raise UsageError(f"--alert {text}: {rate!r} is no rate", "give tuples a second: 250 or spout=250")
        if component and component not in components:
            raise UsageError(
                f"--alert {text}: {component} is not forecast", f"components: {', '.join(components)}"
            )
        limit_of |= dict.fromkeys([component] if component else components, limit_tps)
    return limit_of
