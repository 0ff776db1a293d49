"""Forecasts of many subjects at once, and alerts where more will come than goes through, or will wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import UsageError
from harness.forecasts.answers import LEVELS, count_buckets, require_levels
from harness.forecasts.foreseeing import RateLimit, Rule, foresee, waiting_after
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
    """A component's stream that will be above its limit, or waits for it: from when on, and how probably."""

    component: str
    stream: str
    model: str
    limit_tps: float
    ahead_s: float
    probability: float
    rule: Rule

    @property
    def text(self) -> str:
        """The alert in words."""
        limit = f"above {self.limit_tps:g} tuples/s"
        said = limit if self.rule == "rate" else f"still works off what came {limit}"
        when = f"in {self.ahead_s:g} s with probability {self.probability:.2f} ({self.model})"
        return f"{self.component} ({self.stream}) {said} {when}"


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


def limits_of(
    subjects: Sequence[SubjectHistory], limit_tps: Mapping[str, float]
) -> dict[tuple[str, str], RateLimit]:
    """Return the limit of each whole component's stream, and what waits for it by the stream's history.

    Parameters
    ----------
    limit_tps : mapping
        By component; one without a limit is left out.
    """
    return {
        (s.component, s.stream): RateLimit(rate_tps, waiting_after(s.history, rate_tps))
        for s in subjects
        if s.task is None and (rate_tps := limit_tps.get(s.component)) is not None
    }


def find_alerts(
    forecasts: Sequence[SubjectForecast],
    limits: Mapping[tuple[str, str], RateLimit],
    model: str,
    probability: float,
) -> Iterator[RateAlert]:
    """Yield an alert for each whole component's stream of which a model expects more than goes through.

    Parameters
    ----------
    limits : mapping
        By component and stream; a stream without one has no alert.
    probability : float
        From which on something is expected (``harness.forecasts.foreseeing``).

    Raises
    ------
    UsageError
        When the model declined for a stream with a limit: silence would look like safety.
    """
    for one in forecasts:
        subject = one.subject
        limit = limits.get((subject.component, subject.stream))
        if one.model != model or subject.task is not None or limit is None:
            continue
        if one.fine.status == "declined":
            raise UsageError(f"no alert can be given for {subject.component}: {model}: {one.fine.reason}")
        first = foresee(one.fine, limit, subject.history.bucket_s, probability)
        if first is not None:
            yield RateAlert(
                component=subject.component,
                stream=subject.stream,
                model=model,
                limit_tps=limit.rate_tps,
                ahead_s=round(first.end_s - float(subject.history.time_s[-1]), 6),
                probability=first.probability,
                rule=first.rule,
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
