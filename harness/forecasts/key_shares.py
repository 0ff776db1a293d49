"""Shares of keys by phase of a season: how traffic divides over its keys at each time of the day.

The thesis takes the shares of keys as fixed, and says that they may follow the time of day (section 6.3.3).
A task may then be full in the evening whose mean load is low.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.errors import ForecastDeclined
from harness.forecasts.answers import FloatArray

PHASES = 12
"""Equal parts of a season."""
HELD = 0.9
"""Probability that an interval holds the share."""
_MOST_SEASONS = 1000
"""The latest seasons say enough."""
_SHORT = 0.1
"""A season is whole that lacks less than this share of a phase."""
_ROUNDED = 1e-9
_PRIOR = 0.5
"""Jeffreys' for a share."""


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """Tuples of each key over time.

    Attributes
    ----------
    component : str
        Whose keys they are.
    keys : tuple of str
    time_s : ndarray of float, shape (n,)
        When tuples were counted; of a bucket, its middle. Phases count from 0 on this clock.
    key : ndarray of int, shape (n,)
        Positions in ``keys``.
    count : ndarray of float, shape (n,)
        Tuples.
    start_s, end_s : float
        The time in which tuples were counted.
    bucket_s : float
        Length of the buckets in which they were; 0 where each tuple's time is known.
    """

    component: str
    keys: tuple[str, ...]
    time_s: FloatArray
    key: npt.NDArray[np.int_]
    count: FloatArray
    start_s: float
    end_s: float
    bucket_s: float = 0.0


@dataclass(frozen=True, eq=False)
class KeyShares:
    """Shares of the most frequent keys in each phase of the next season, or a reason why there are none.

    Attributes
    ----------
    component : str
    season_s : float
    seasons : int
        Whole seasons that were recorded, the last ones.
    keys : tuple of str
        The most frequent ones, the first most.
    tuples : ndarray of float, shape (phases,)
        Tuples in each phase, of all seasons.
    share, low, high : ndarray of float, shape (phases, len(keys) + 1)
        Shares as recorded, that of all other keys together last, and the ends of their intervals. A phase's
        sum is 1; all are NaN in one without any tuple.
    status : {'ok', 'declined'}
    reason : str
    """

    component: str
    season_s: float
    seasons: int = 0
    keys: tuple[str, ...] = ()
    tuples: FloatArray = field(default_factory=lambda: np.empty(0))
    share: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    low: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    high: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    status: Literal["ok", "declined"] = "ok"
    reason: str = ""


def forecast_key_shares(
    counts: KeyCounts, season_s: float, most: int, phases: int = PHASES, held: float = HELD
) -> KeyShares:
    """Return the share that each of the most frequent keys will have in each phase of the next season.

    An interval is that of a Beta distribution about the recorded share, with the prior of Jeffreys. It has
    the errors of the recorded tuples and of those of the next season, as many as one of these has.
    Seasons that differ by more than chance widen all intervals by their dispersion (Pearson's, McCullagh and
    Nelder 1989, section 4.5); of a single season none is known.

    Parameters
    ----------
    counts : KeyCounts
    season_s : float
        Length of the season.
    most : int
        How many keys have a share of their own.
    phases : int
        Equal parts of the season.
    held : float
        Probability that an interval holds the share.

    Examples
    --------
    >>> time_s = np.arange(8) + 0.5
    >>> key = np.array([0, 0, 0, 1, 0, 0, 0, 1])
    >>> made = KeyCounts("trace", ("A", "B"), time_s, key, np.ones(8), 0.0, 8.0)
    >>> shares = forecast_key_shares(made, season_s=4.0, most=1, phases=2)
    >>> shares.seasons, shares.keys, shares.share.tolist()
    (2, ('A',), [[1.0, 0.0], [0.5, 0.5]])
    """
    try:
        return _shares(counts, season_s, most, phases, held)
    except ForecastDeclined as why:
        return KeyShares(counts.component, season_s, status="declined", reason=str(why))


def _shares(counts: KeyCounts, season_s: float, most: int, phases: int, held: float) -> KeyShares:
    if not counts.count.sum() > 0:
        raise ForecastDeclined("no keys were recorded")
    if not season_s >= max(phases * counts.bucket_s, _ROUNDED):
        raise ForecastDeclined(
            f"a season of {season_s:g} s has less than {phases} buckets of {counts.bucket_s:g} s"
        )
    length_s = counts.end_s - counts.start_s
    seasons = min(int(length_s / season_s + _SHORT / phases), _MOST_SEASONS)
    if not seasons:
        raise ForecastDeclined(f"{length_s:g} s were recorded, and no whole season of {season_s:g} s")
    keys, table = _table(counts, season_s, seasons, most, phases)
    by_phase = table.sum(axis=1)
    tuples = by_phase.sum(axis=1)
    with np.errstate(invalid="ignore"):
        share = by_phase / tuples[:, None]
    # The errors of n recorded tuples and of n / seasons that come, as those of fewer recorded ones alone.
    worth = (tuples / (_dispersion(table, share) * (seasons + 1)))[:, None]
    tail = (1 - held) / 2
    within = stats.beta(_PRIOR + worth * share, _PRIOR + worth * (1 - share))
    return KeyShares(
        component=counts.component,
        season_s=season_s,
        seasons=seasons,
        keys=keys,
        tuples=tuples,
        share=share,
        low=np.minimum(within.ppf(tail), share),
        high=np.maximum(within.ppf(1 - tail), share),
    )


def _table(
    counts: KeyCounts, season_s: float, seasons: int, most: int, phases: int
) -> tuple[tuple[str, ...], FloatArray]:
    """Return the most frequent keys, and tuples by phase, season and key, all others' last."""
    begin_s = counts.end_s - seasons * season_s
    inside = counts.time_s >= begin_s
    time_s, key, count = counts.time_s[inside], counts.key[inside], counts.count[inside]
    totals = np.bincount(key, weights=count, minlength=len(counts.keys))
    ranked = np.argsort(-totals, kind="stable")[:most]
    columns = np.full(len(counts.keys), len(ranked))
    columns[ranked] = np.arange(len(ranked))
    phase = np.floor(np.mod(time_s, season_s) * phases / season_s + _ROUNDED).astype(int)
    season = np.floor((time_s - begin_s) / season_s).astype(int)
    table = np.zeros((phases, seasons, len(ranked) + 1))
    at = np.minimum(phase, phases - 1), np.minimum(season, seasons - 1), columns[key]
    np.add.at(table, at, count)
    return tuple(counts.keys[i] for i in ranked), table


def _dispersion(table: FloatArray, share: FloatArray) -> float:
    """Return by how much seasons' shares vary more than those of independent tuples; 1 or more."""
    expected = table.sum(axis=2)[:, :, None] * np.nan_to_num(share)[:, None, :]
    there = expected > 0
    misses = np.divide((table - expected) ** 2, expected, out=np.zeros_like(expected), where=there)
    seen = there.any(axis=2).sum(axis=1)
    freedom = float((np.maximum(seen - 1, 0) * np.maximum((share > 0).sum(axis=1) - 1, 0)).sum())
    return max(1.0, float(misses.sum()) / freedom) if freedom else 1.0
