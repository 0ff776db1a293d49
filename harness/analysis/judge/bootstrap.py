"""Intervals for median errors, by resampling steps: which steps an experiment happens to have is chance.

The pairs of a run share their steps. All predictions of one step are judged by one measurement, and all that
start from one step rest on one observation. So pairs are no independent samples, and blocks have to be
redrawn. A resample draws as many steps of each run as it has, with replacement. A pair weighs the product of
its two steps' counts (the vertex bootstrap of dyadic data: Snijders and Borgatti, 1999). A resample of one
step only has no off-diagonal pair; it takes all that predict that step.

Two models, or two runs of the same steps, are compared on the same resamples (paired). Of a measure with
many subjects (executors, connections) a pair's error is the median over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

RESAMPLES = 2000
FEWEST_STEPS = 3
"""With fewer steps in every run there is nothing to redraw, and so no interval."""
LEVEL = 0.95
ENDS = ["source_step", "proposed_step"]
PAIR = ["run", *ENDS]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ConfidenceInterval:
    """A number with its 95 % interval; the ends are None where there are too few steps."""

    value: float
    low: float | None
    high: float | None


def median(pairs: pd.DataFrame, column: str) -> ConfidenceInterval:
    """Return the median over pairs with its interval.

    Parameters
    ----------
    pairs : DataFrame
        One row a pair: run, source_step, proposed_step and the column.
    """
    values = pairs[column].to_numpy(dtype=float)
    return _with_interval(
        [pairs], lambda weights: weighted_median(values, weights[0]), float(np.median(values))
    )


def paired_difference(pairs: pd.DataFrame, first: str, second: str) -> ConfidenceInterval:
    """Return the difference of two medians over the same pairs (second less first) with its interval."""
    a, b = (pairs[column].to_numpy(dtype=float) for column in (first, second))
    return _with_interval(
        [pairs],
        lambda weights: weighted_median(b, weights[0]) - weighted_median(a, weights[0]),
        float(np.median(b) - np.median(a)),
    )


def unpaired_difference(first: pd.DataFrame, second: pd.DataFrame, column: str) -> ConfidenceInterval:
    """Return the difference of the medians of two sets of pairs that have no step in common."""
    a, b = (pairs[column].to_numpy(dtype=float) for pairs in (first, second))
    return _with_interval(
        [first, second],
        lambda weights: weighted_median(b, weights[1]) - weighted_median(a, weights[0]),
        float(np.median(b) - np.median(a)),
    )


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Return medians of the values under many weightings.

    Parameters
    ----------
    values : array (pairs)
    weights : array (..., pairs)
        Whole numbers: how often each value counts. At least one of them above 0.

    Returns
    -------
    array (...)

    Examples
    --------
    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([[1, 1, 1], [1, 1, 0], [5, 1, 0]]))
    array([2., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[..., order], axis=-1)
    half = below[..., -1:] / 2
    low = values[order][np.argmax(below >= half, axis=-1)]
    high = values[order][np.argmax(below > half, axis=-1)]
    return np.asarray((low + high) / 2)


def _with_interval(
    sets: Sequence[pd.DataFrame], statistic: Callable[[list[Floats]], Floats], value: float
) -> ConfidenceInterval:
    """Resample the steps of every run of every set, each run by itself."""
    blocks = [
        (at, run, np.unique(of[ENDS].to_numpy()))
        for at, pairs in enumerate(sets)
        for run, of in pairs.groupby("run", sort=True)
    ]
    if not blocks or min(len(steps) for _, _, steps in blocks) < FEWEST_STEPS:
        return ConfidenceInterval(value, None, None)

    def of_samples(*drawn: npt.NDArray[np.int64], axis: int = -1) -> Floats:
        assert axis in (-1, drawn[0].ndim - 1)
        shape = drawn[0].shape[:-1]
        weights = [np.zeros((*shape, len(pairs))) for pairs in sets]
        for (at, run, steps), sample in zip(blocks, drawn, strict=True):
            counts = (sample[..., None] == np.arange(len(steps))).sum(axis=-2)
            mine = (sets[at]["run"] == run).to_numpy()
            source, proposed = (
                counts[..., np.searchsorted(steps, sets[at].loc[mine, end].to_numpy())] for end in ENDS
            )
            both = source * proposed
            weights[at][..., mine] = np.where(both.any(axis=-1, keepdims=True), both, proposed)
        return statistic(weights)

    found = stats.bootstrap(
        [np.arange(len(steps)) for _, _, steps in blocks],
        of_samples,
        n_resamples=RESAMPLES,
        batch=200,
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(1),
    )
    low, high = found.confidence_interval
    return ConfidenceInterval(value, float(low), float(high))
