"""Intervals: the spread of predictions, had the source been measured in other intervals, and errors on top.

The source's interval is cut into blocks of equal time, longer than correlations last within them. Weighting
the blocks with exponential random numbers (the Bayesian bootstrap, Rubin 1981) gives replicates of everything
estimated from the interval, counters and hop records alike. Solving their networks gives replicates of every
predicted value, whose spread is the source's sampling error as it arrives at the answer.

Errors that no interval of the source shows, above all the model's own, come on top. Each measure and
statistic has a relative error, and one more for the share of the value that costs of tuples make
(``sensitivity``). Both errors are kept in ``calibration.json``, fitted to measured pairs of other topologies
than those that the model is judged on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from importlib import resources

import numpy as np

from harness.errors import ModelDeclined
from harness.models.composite.proposal import Source, weigh
from harness.models.composite.source_estimates import SourceEstimates
from harness.models.contract.layout import FloatArray

REPLICATES = 8
"""Enough for a standard deviation to 25 %; on top of it comes the model's own error, which is larger."""
LEVEL = 0.9
"""Probability that an interval should cover what is measured."""
Z = 1.6448536269514722
"""Within this distance lies 90 % of a standard normal variable."""
_MOST = 8.0
_MADE_OF = 0.5
"""Share from which a value is called made of costs."""


@dataclass(frozen=True)
class Calibration:
    """Errors that widen an interval beyond the source's sampling error.

    Attributes
    ----------
    error : float
        Relative standard deviation of the model's own error, whatever a value is made of.
    costs : float
        That of what a value's share of costs makes of it; independent of ``error``.
    """

    error: float = 0.0
    costs: float = 0.0


Calibrations = Mapping[tuple[str, str], Calibration]
"""By measure and statistic; where one is missing, intervals are of the sampling error alone."""


def replicates(
    source: Source, number: int = REPLICATES, seed: int = 1, without: frozenset[str] = frozenset()
) -> tuple[SourceEstimates, ...]:
    """Return what the source would have said in other intervals.

    Parameters
    ----------
    source : Source
        Of ``proposal.examine``.
    number : int
        How many; those that would be declined (a part of the plan that only some blocks saw) are left out.
    seed : int
    without : frozenset of str
        Of ``proposal.weigh``.
    """
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(number, source.evidence.blocks))
    weights *= source.evidence.blocks / weights.sum(axis=1, keepdims=True)
    luck = rng.standard_normal(number)
    found = []
    for row, lucky in zip(weights, luck.tolist(), strict=True):
        try:
            found.append(weigh(source, row, lucky, without))
        except ModelDeclined:
            continue
    return tuple(found)


@dataclass(frozen=True)
class Weighed:
    """A source's estimates, which models with and without a mechanism share: each is worked out once.

    Attributes
    ----------
    source : Source
        Of ``proposal.examine``.
    without : frozenset of str
        Of ``proposal.weigh``.
    """

    source: Source
    without: frozenset[str] = frozenset()

    @cached_property
    def estimates(self) -> SourceEstimates:
        """Estimates with all of the interval's blocks weighing alike."""
        return weigh(self.source, np.ones(self.source.evidence.blocks), without=self.without)

    @cached_property
    def replicates(self) -> tuple[SourceEstimates, ...]:
        """Estimates as from other intervals (``replicates``)."""
        return replicates(self.source, without=self.without)


def interval(
    value: FloatArray | float, replicated: FloatArray, error: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of predictions' 90 % intervals.

    Parameters
    ----------
    value : float or array (n)
        The predictions.
    replicated : array (replicates) or (replicates, n)
        The same of the replicates; at least two of each.
    error : float or array (n)
        Relative standard deviation of the model's own error in each prediction.

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
    >>> low, high = interval(10.0, np.array([10.0, 10.0]), error=0.1)
    >>> round(float(low), 2), round(float(high), 2)
    (8.48, 11.79)
    """
    own, others = np.asarray(value, dtype=np.float64), np.asarray(replicated, dtype=np.float64)
    if others.shape[0] < 2 or not (np.isfinite(others).all() and np.isfinite(own).all()):
        raise ValueError(f"an interval needs two numbers or more for each value, not {others.shape[0]}")
    positive = (own > 0) & (others > 0).all(axis=0)
    logs = np.log(np.where(positive, others, 1.0) / np.where(positive, own, 1.0))
    ratio = Z * np.hypot(np.sqrt(np.mean(logs**2, axis=0)), error)
    away = Z * np.hypot(np.sqrt(np.mean((others - own) ** 2, axis=0)), error * np.abs(own))
    times = np.exp(np.minimum(ratio, _MOST))
    return np.where(positive, own / times, own - away), np.where(positive, own * times, own + away)


def fit(log_errors: FloatArray, spreads: FloatArray, shares: FloatArray, level: float = LEVEL) -> Calibration:
    """Fit the model's own errors so that intervals cover what was measured, at a level (split conformal).

    First ``error``, to pairs whose values costs make less than half of; then ``costs``, to the others. Pairs
    of one kind only give one error for all.

    Parameters
    ----------
    log_errors : array (pairs)
        ln(predicted / measured), of other topologies than the one it will be used for.
    spreads : array (pairs)
        Standard deviation of ln(replicate / predicted).
    shares : array (pairs)
        Of costs.

    Returns
    -------
    Calibration
        With the least errors for which the share ``level`` of the pairs of each kind, one more uncovered pair
        counted in, is covered.

    Raises
    ------
    ValueError
        Without pairs.

    Examples
    --------
    >>> thirty = np.full(30, 0.1645)
    >>> round(fit(thirty, 0 * thirty, 0 * thirty).error, 3)
    0.1
    """
    if not log_errors.size:
        raise ValueError("no pairs to fit intervals to")
    need = np.square(log_errors / Z) - np.square(spreads)
    made = shares >= _MADE_OF
    if made.all() or not made.any():
        return Calibration(error=_quantile(np.sqrt(np.maximum(need, 0.0)), level))
    error = _quantile(np.sqrt(np.maximum(need[~made], 0.0)), level)
    rest = np.sqrt(np.maximum(need[made] - error**2, 0.0)) / shares[made]
    return Calibration(error=error, costs=_quantile(rest, level))


def _quantile(needed: FloatArray, level: float) -> float:
    at = int(np.ceil(level * (needed.size + 1))) - 1
    return float(np.sort(needed)[min(at, needed.size - 1)])


@cache
def calibrations() -> Calibrations:
    """Return what is committed in ``calibration.json``."""
    return parse(resources.files(__package__).joinpath("calibration.json").read_text(encoding="utf-8"))


def parse(text: str) -> Calibrations:
    """Read calibrations: ``{"schema": 1, "measures": {measure: {statistic: {"error": .., "costs": ..}}}}``.

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
            values = Calibration(**{name: float(number) for name, number in numbers.items()})
            if not all(0 <= number < np.inf for number in astuple(values)):
                raise ValueError(f"calibration of {measure} {statistic} is {numbers}")
            found[measure, statistic] = values
    return found
