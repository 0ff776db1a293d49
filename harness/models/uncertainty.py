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

REPLICATES = 24
"""Enough for a standard deviation to 15 %."""
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
    found = []
    for row in weights:
        try:
            found.append(weigh(source, row))
        except ModelDeclined:
            continue
    return tuple(found)


def interval(value: float, replicated: FloatArray, calibration: Calibration) -> tuple[float, float]:
    """Return the ends of a prediction's 90 % interval.

    Parameters
    ----------
    value : float
        The prediction.
    replicated : array
        The same of the replicates; at least two numbers.
    calibration : Calibration

    Returns
    -------
    low, high : float
        Symmetric in the logarithm where all values are positive, so that ``low`` is too; else around the
        value.

    Raises
    ------
    ValueError
        When there are fewer than two replicates, or values that are no numbers.

    Examples
    --------
    >>> low, high = interval(10.0, np.array([10.0, 10.0]), Calibration(error=0.1))
    >>> round(low, 2), round(high, 2)
    (8.48, 11.79)
    """
    values = np.asarray(replicated, dtype=np.float64)
    if values.size < 2 or not np.isfinite(values).all() or not np.isfinite(value):
        raise ValueError(f"an interval needs two numbers or more: {values.size} replicates of {value:g}")
    if value > 0 and (values > 0).all():
        spread = calibration.factor * float(np.sqrt(np.mean(np.log(values / value) ** 2)))
        width = min(_Z * float(np.hypot(spread, calibration.error)), _MOST)
        return value * float(np.exp(-width)), value * float(np.exp(width))
    spread = calibration.factor * float(np.sqrt(np.mean((values - value) ** 2)))
    width = _Z * float(np.hypot(spread, calibration.error * abs(value)))
    return value - width, value + width


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
