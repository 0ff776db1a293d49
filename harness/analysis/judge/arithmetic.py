"""Arithmetic of judging, in one place: protocol, verdict and errors of a comparison, noise between repeats.

It works on what Spark has summed up, and on numbers of any shape: columns of a pair table, several runs
together, or nights of one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.analysis.spark.inputs import StepRecord
from harness.schemas import LATENCIES, Measure

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Numbers = TypeVar("Numbers", float, Floats)
Truths = TypeVar("Truths", bool, "pd.Series[bool]")

THESIS_STATISTICS: Mapping[str, str] = {Measure.GROUND_TRUTH: "mean_same_node", Measure.COMPLETE: "p90_paths"}
"""Statistics that the thesis's protocol compares (5.7.2), by measure; all others belong to ours."""


def protocol_of(measure: str, statistic: str) -> str:
    """Return which protocol a statistic belongs to.

    Examples
    --------
    >>> protocol_of(Measure.COMPLETE, "p90_paths"), protocol_of(Measure.GROUND_TRUTH, "p90_paths")
    ('thesis', 'ours')
    """
    return "thesis" if THESIS_STATISTICS.get(measure) == statistic else "ours"


def relative_error(predicted: Numbers, actual: Numbers) -> Numbers:
    """Return (P - A) / A.

    Examples
    --------
    >>> relative_error(12.0, 10.0)
    0.2
    """
    return (predicted - actual) / actual


def abs_error_pct(predicted: Numbers, actual: Numbers) -> Numbers:
    """Return the relative error's size in percent.

    Examples
    --------
    >>> abs_error_pct(8.0, 10.0)
    20.0
    """
    return abs(relative_error(predicted, actual)) * 100.0


def q_error(predicted: Floats, actual: Floats) -> Floats:
    """Return the larger of P/A and A/P; NaN unless both are positive.

    Examples
    --------
    >>> q_error(np.array([8.0, -8.0]), np.array([10.0, 10.0]))
    array([1.25,  nan])
    """
    positive = (predicted > 0) & (actual > 0)
    p, a = np.where(positive, predicted, np.nan), np.where(positive, actual, np.nan)
    return np.asarray(np.maximum(p / a, a / p))


def error_over_noise(predicted: Floats, actual: Floats, noise: Floats) -> Floats:
    """Return abs(P - A) / noise; NaN where the noise is 0 or not known.

    Examples
    --------
    >>> error_over_noise(np.array([12.0, 12.0]), np.array([10.0, 10.0]), np.array([0.5, 0.0]))
    array([ 4., nan])
    """
    return np.asarray(abs(predicted - actual) / np.where(noise > 0, noise, np.nan))


def is_covered(low: Floats, actual: Floats, high: Floats) -> Bools:
    """Say whether intervals hold what was measured; an end that is missing holds nothing."""
    return np.asarray((low <= actual) & (actual <= high))


def quantile(values: npt.ArrayLike, share: float) -> float:
    """Return a quantile of numbers, between two of them by their distance: what Spark calls ``percentile``.

    Examples
    --------
    >>> quantile([10.0, 60.0, 20.0], 0.95)
    56.0
    """
    return float(np.quantile(np.asarray(values, dtype=np.float64), share))


def quantile_of_known(values: npt.ArrayLike, share: float) -> float | None:
    """Return a quantile of the numbers that are known; None of none.

    Examples
    --------
    >>> quantile_of_known([10.0, np.nan], 0.5), quantile_of_known([np.nan], 0.5)
    (10.0, None)
    """
    numbers = np.asarray(values, dtype=np.float64)
    known = numbers[~np.isnan(numbers)]
    return quantile(known, share) if len(known) else None


def is_full(source_full: Truths, proposed_full: Truths, latency: Truths) -> Truths:
    """Say of pairs whether a backlog that grew leaves nothing to judge.

    A step whose backlog grew is no source to learn from, and has no latency to judge by. Its throughput can
    be judged.

    Examples
    --------
    >>> is_full(True, False, False), is_full(False, True, True), is_full(False, True, False)
    (True, True, False)
    """
    return source_full | (proposed_full & latency)


@dataclass(frozen=True)
class StepStates:
    """Fitness of a run's steps to be ends of judged pairs.

    Attributes
    ----------
    unusable : mapping of int to (str, str)
        The verdict (``invalid`` or ``unsteady``) and the reason, of steps that cannot be used.
    saturated : mapping of int to str
        How the backlog grew, of steps that were saturated.
    """

    unusable: Mapping[int, tuple[str, str]]
    saturated: Mapping[int, str]

    @classmethod
    def of(cls, steps: Iterable[StepRecord], unusable: Mapping[int, tuple[str, str]]) -> StepStates:
        """Return the states of steps, by their numbers."""
        return cls(unusable, {s.index: s.quality.saturated for s in steps if s.quality.saturated})

    def excluded(self, source: int, proposed: int, measure: str) -> tuple[str, str]:
        """Return the verdict on a measure of a pair that cannot be judged, and why; empty where it can.

        Examples
        --------
        >>> states = StepStates({1: ("unsteady", "step 1: drift")}, {2: "saturated: 3 messages/s more"})
        >>> states.excluded(1, 2, Measure.GROUND_TRUTH)
        ('unsteady', 'step 1: drift')
        >>> states.excluded(0, 2, Measure.GROUND_TRUTH)
        ('saturated', 'the step was saturated: 3 messages/s more')
        >>> states.excluded(0, 2, Measure.THROUGHPUT)
        ('', '')
        """
        for verdict in ("invalid", "unsteady"):
            # of the end whose state it is: an unsteady step says nothing of why the other one is invalid
            for step in (proposed, source):
                found = self.unusable.get(step, ("", ""))
                if found[0] == verdict:
                    return found
        if is_full(source in self.saturated, proposed in self.saturated, measure in LATENCIES):
            whose, step = ("source step", source) if source in self.saturated else ("step", proposed)
            return "saturated", f"the {whose} was {self.saturated[step]}"
        return "", ""


def between_share(rows: pd.DataFrame, kind: Sequence[str], repeat: Sequence[str]) -> pd.DataFrame:
    """Return the spread between repeats as a share of the value, pooled by kind.

    It is the part of the variance between repeats that the intervals' own errors do not explain:

        share^2 = max(0, mean((var(repeats) - mean(within^2)) / mean(repeats)^2))

    Parameters
    ----------
    rows : DataFrame
        With value and within (one standard deviation within the interval; NaN where it is not known).
    kind : sequence of str
        Columns over whose repeats the share is pooled.
    repeat : sequence of str
        Columns that, with ``kind``, tell apart what repeats each other.

    Returns
    -------
    DataFrame
        The columns of ``kind``, and share, of the kinds that have repeats.
    """
    by = [*kind, *repeat]
    known = rows[rows["value"].notna()]
    again = known[known.duplicated(by, keep=False)]
    first = again.drop_duplicates(by)
    group = np.asarray(again.groupby(by, sort=False).ngroup(), dtype=np.int64)
    values = _by_group(group, again["value"].to_numpy(dtype=float))
    within = again["within"].to_numpy(dtype=float)
    explained = _by_group(group, within * within)
    count = np.isfinite(values).sum(axis=1)
    mean = _ordered_sum(values) / count
    off = values - values[:, :1]
    total = _ordered_sum(off)
    variance = (_ordered_sum(off * off) - total * total / count) / (count - 1)
    of_explained = np.isfinite(explained).sum(axis=1)
    mean_explained = _ordered_sum(explained) / np.maximum(of_explained, 1)
    squares = mean * mean
    excess = (variance - mean_explained) / np.where(squares > 0, squares, np.nan)
    pooled = first[[*kind]].assign(excess=excess).dropna(subset="excess")
    by_kind = pooled.groupby([*kind], sort=False)["excess"].agg(_ordered_mean).astype(float)
    share = np.sqrt(by_kind.clip(lower=0.0).to_numpy(dtype=float))
    return pd.Series(share, by_kind.index, name="share").reset_index()


def _by_group(group: npt.NDArray[np.int64], values: Floats) -> Floats:
    """Return a row a group: its values in rising order, then NaN. The groups are counted from 0."""
    order = np.lexsort((values, group))
    counts = np.bincount(group)
    out = np.full((len(counts), int(counts.max(initial=0))), np.nan)
    place = np.arange(len(group)) - np.repeat(counts.cumsum() - counts, counts)
    out[group[order], place] = values[order]
    return out


def _ordered_sum(rows: Floats) -> Floats:
    """Return the sum of each row's numbers in their order, so that no bit depends on who adds them up."""
    if not rows.shape[1]:
        return np.zeros(len(rows))
    return np.asarray(np.nan_to_num(rows).cumsum(axis=1)[:, -1])


def _ordered_mean(values: pd.Series[float]) -> float:
    ordered = np.asarray(np.sort(values.to_numpy(dtype=float)), dtype=np.float64)
    return float(_ordered_sum(ordered[None])[0] / len(ordered))


def widened(within: Floats, between: Floats) -> Floats:
    """Return noise within intervals and between repeats together; NaN where neither is known.

    Examples
    --------
    >>> widened(np.array([3.0, 3.0, np.nan]), np.array([4.0, np.nan, np.nan]))
    array([ 5.,  3., nan])
    """
    known = np.isfinite(within) | np.isfinite(between)
    total = np.nan_to_num(within * within) + np.nan_to_num(between * between)
    return np.where(known, np.sqrt(total), np.nan)
