"""Forecasts of traffic in Caladrius's shape: statistics by spout component or task, and stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.forecasts.alerting import SubjectForecast
from harness.service.answers import Details, TrafficForecast

PERCENTS = (10, 50, 90, 95, 99)
"""Quantiles of a forecast, in percent."""


def level_name(pct: int) -> str:
    """Return a quantile of a forecast as answers name it.

    Examples
    --------
    >>> level_name(50), level_name(95)
    ('median', '95-quantile')
    """
    return "median" if pct == 50 else f"{pct}-quantile"


def summarise(made: Sequence[SubjectForecast], details: Details) -> TrafficForecast:
    """Return one forecaster's forecasts at ``PERCENTS`` as an answer."""
    wholes = [one for one in made if one.subject.task is None]
    declined = next((one.fine.reason for one in wholes if one.fine.status == "declined"), "")
    answer = TrafficForecast(details=details, reason=declined)
    if not declined:  # a sum without one of the spouts would be too small
        together = np.sum([one.asked.rate_tps for one in wholes], axis=0)
        for pct, highest_tps in zip(PERCENTS, together.max(axis=0), strict=True):
            answer.peak_tps[level_name(pct)] = float(highest_tps)
    median = PERCENTS.index(50)
    for one in made:
        if one.fine.status == "declined":
            continue
        rates = one.asked.rate_tps
        statistics = {level_name(p): rates[:, i].mean() for i, p in enumerate(PERCENTS)}
        statistics |= {"mean": rates[:, median].mean()}
        statistics |= {"min": rates[:, median].min(), "max": rates[:, median].max()}
        subject = one.subject
        into, name = (
            (answer.components, subject.component)
            if subject.task is None
            else (answer.instances, str(subject.task))
        )
        for statistic, rate in statistics.items():
            into.setdefault(statistic, {}).setdefault(name, {})[subject.stream] = float(rate)
    return answer
