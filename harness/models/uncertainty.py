"""Intervals: what a prediction would have been, had the source been measured in another interval.

The source's interval is cut into blocks of equal time, longer than what is correlated within them. Weighting
the blocks with exponential random numbers (the Bayesian bootstrap, Rubin 1981) gives replicates of
everything estimated from it, counters and hop records alike; solving their networks gives replicates of every
predicted value, whose spread is the source's sampling error as it arrives at the answer.

What no interval of the source shows, above all the model's own error, comes on top: a relative error for each
measure and statistic, kept in ``calibration.json``, fitted to measured pairs of other topologies than the one
it is judged on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from harness.errors import ModelDeclined
from harness.models.layout import FloatArray
from harness.models.proposal import Prepared, Source, weigh

REPLICATES = 8
"""Enough for a standard deviation to 25 %; on top of it comes the model's own error, which is larger."""
LEVEL = 0.9
"""Probability that an interval should cover what is measured."""
_Z = 1.6448536269514722  # of a standard normal variable 90 % lies within this distance
_MOST = 8.0


@dataclass(frozen=True)
class Calibration:
    """How wide an interval has to be beside the source's sampling error.

    Attributes
    ----------
    factor : float
        On the standard deviation between replicates.
    error : float
        Relative standard deviation of the model's own error.
    """

    factor: float = 1.0
    error: float = 0.0


def replicates(source: Source, number: int = REPLICATES, seed: int = 1) -> tuple[Prepared, ...]:
    """Return what the source would have said in other intervals.

    Parameters
    ----------
    source : Source
        Of ``proposal.examine``.
    number : int
        How many; those that would be declined (a part of the plan that only some blocks saw) are left out.
    seed : int
    """
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(number, source.evidence.blocks))
    weights *= source.evidence.blocks / weights.sum(axis=1, keepdims=True)
    luck = rng.standard_normal(number)
    found = []
    for row, lucky in zip(weights, luck.tolist(), strict=True):
        try:
            found.append(weigh(source, row, lucky))
        except ModelDeclined:
            continue
    return tuple(found)


def interval(
    value: FloatArray | float, replicated: FloatArray, factor: FloatArray | float, error: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of predictions' 90 % intervals.

    Parameters
    ----------
    value : float or array (n)
        The predictions.
    replicated : array (replicates) or (replicates, n)
        The same of the replicates; at least two of each.
    factor, error : float or array (n)
        Of each prediction's ``Calibration``.

    Returns
    -------
    low, high : array (n)
        Symmetric in the logarithm where a prediction and all of its replicates are positive, so that ``low``
        is too; else around the value.

    Raises
    ------
    ValueError
        When there are fewer than two replicates, or values that are no numbers.

    Examples
    --------
    >>> low, high = interval(10.0, np.array([10.0, 10.0]), factor=1.0, error=0.1)
    >>> round(float(low), 2), round(float(high), 2)
    (8.48, 11.79)
    """
    own, others = np.asarray(value, dtype=np.float64), np.asarray(replicated, dtype=np.float64)
    if others.shape[0] < 2 or not (np.isfinite(others).all() and np.isfinite(own).all()):
        raise ValueError(f"an interval needs two numbers or more for each value, not {others.shape[0]}")
    positive = (own > 0) & (others > 0).all(axis=0)
    logs = np.log(np.where(positive, others, 1.0) / np.where(positive, own, 1.0))
    ratio = _Z * np.hypot(factor * np.sqrt(np.mean(logs**2, axis=0)), error)
    away = _Z * np.hypot(factor * np.sqrt(np.mean((others - own) ** 2, axis=0)), error * np.abs(own))
    times = np.exp(np.minimum(ratio, _MOST))
    return np.where(positive, own / times, own - away), np.where(positive, own * times, own + away)


def fit(log_errors: Sequence[float], spreads: Sequence[float], level: float = LEVEL) -> Calibration:
    """Fit the model's own error so that intervals cover what was measured, at a level (split conformal).

    Parameters
    ----------
    log_errors : sequence of float
        ln(predicted / measured) of pairs, of other topologies than the one it will be used for.
    spreads : sequence of float
        Standard deviation of ln(replicate / predicted) of the same pairs.

    Returns
    -------
    Calibration
        With the least error for which the share ``level`` of the pairs, one more uncovered pair counted in,
        is covered.

    Raises
    ------
    ValueError
        Without pairs.

    Examples
    --------
    >>> round(fit([0.1645] * 30, [0.0] * 30).error, 3)
    0.1
    """
    if not log_errors:
        raise ValueError("no pairs to fit intervals to")
    need = np.square(np.asarray(log_errors) / _Z) - np.square(np.asarray(spreads))
    errors = np.sort(np.sqrt(np.maximum(need, 0.0)))
    at = int(np.ceil(level * (errors.size + 1))) - 1
    return Calibration(error=float(errors[min(at, errors.size - 1)]))


@cache
def calibrations() -> Mapping[tuple[str, str], Calibration]:
    """Return what is committed in ``calibration.json`` by measure and statistic."""
    return parse(resources.files("harness.models").joinpath("calibration.json").read_text(encoding="utf-8"))


def parse(text: str) -> Mapping[tuple[str, str], Calibration]:
    """Read calibrations: ``{"schema": 1, "measures": {measure: {statistic: {"factor": .., "error": ..}}}}``.

    Raises
    ------
    ValueError
        For another schema, or numbers that are negative or none.
    """
    content = json.loads(text)
    if content.get("schema") != 1:
        raise ValueError(f"calibration.json has schema {content.get('schema')!r}, not 1")
    found = {}
    for measure, statistics in content["measures"].items():
        for statistic, numbers in statistics.items():
            values = Calibration(float(numbers.get("factor", 1.0)), float(numbers.get("error", 0.0)))
            if not (0 <= values.factor < np.inf and 0 <= values.error < np.inf):
                raise ValueError(f"calibration of {measure} {statistic} is {numbers}")
            found[measure, statistic] = values
    return found


def calibration(measure: str, statistic: str) -> Calibration:
    """Return the calibration of one measure's statistic; where none was fitted, the sampling error alone."""
    return calibrations().get((measure, statistic), Calibration())


def spread_of(log_widths: FloatArray, calibration: Calibration) -> FloatArray:
    """Return the standard deviations between replicates that intervals of these half-widths were made of.

    Parameters
    ----------
    log_widths : array
        ln(high / value) of intervals made with the calibration.

    Examples
    --------
    >>> low, high = interval(10.0, np.array([9.0, 11.0]), factor=1.0, error=0.1)
    >>> bool(np.isclose(spread_of(np.log(high / 10), Calibration(error=0.1)), 0.1004, atol=1e-4))
    True
    """
    between = np.maximum((np.asarray(log_widths) / _Z) ** 2 - calibration.error**2, 0.0)
    return np.asarray(np.sqrt(between) / calibration.factor if calibration.factor > 0 else 0 * between)
