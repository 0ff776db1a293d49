"""Seasons of a history: how much of the past shows them, in which buckets, and which are seen in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.errors import ForecastDeclined
from harness.forecasts.answers import is_whole, require_history
from harness.protocols import RateHistory

SEASONS_READ = 3
"""So many of the longest season are read; two are needed, and buckets at both ends are not whole."""
_LONGEST = 4
"""Buckets of whole seasons may be so many times as long as asked."""
_ROUNDED = 1e-9


def past_needed_s(season_s: Sequence[float]) -> float:
    """Return how much of the past is read where traffic has some seasons.

    Examples
    --------
    >>> past_needed_s((86_400.0,)) / 3600
    72.0
    """
    return SEASONS_READ * max(season_s, default=0.0)


def bucket_length_s(reported_s: float, least_s: float, season_s: Sequence[float] = ()) -> float:
    """Return the length of buckets that are made of reported ones, and that seasons are made of.

    It is the least whole multiple of what is reported, not below ``least_s``, of which each season is a whole
    multiple: a bucket then has its counterpart a season ago. Where there is no such length near, seasons do
    not count.

    Parameters
    ----------
    reported_s : float
        Length of a reported bucket.
    least_s : float
        Length asked.
    season_s : sequence of float
        Lengths of seasons.

    Examples
    --------
    >>> [bucket_length_s(2.0, 70.0, season_s) for season_s in ((), (86_400.0,), (7.0,))]
    [70.0, 72.0, 70.0]
    """
    first = max(1, math.ceil(least_s / reported_s - _ROUNDED))
    multiples = (n * reported_s for n in range(first, _LONGEST * first + 1))
    fitting = (length_s for length_s in multiples if all(is_whole(s / length_s) for s in season_s))
    return next(fitting, first * reported_s)


def known_seasons(history: RateHistory, season_s: Sequence[float]) -> tuple[float, ...]:
    """Return the seasons that a history is long enough to show, and its buckets short enough.

    Examples
    --------
    >>> import numpy as np
    >>> known_seasons(RateHistory(np.ones(100), bucket_s=6.0), (120.0, 300.0, 301.0, 6.0))
    (120.0, 300.0)
    """
    return tuple(season for season in season_s if _is_known(history, season))


def _is_known(history: RateHistory, season_s: float) -> bool:
    try:
        require_history(history, (season_s,))
    except ForecastDeclined:
        return False
    return True
