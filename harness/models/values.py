"""Numbers by statistic and subject, their intervals from replicates, and the estimates that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from harness.models.layout import FloatArray
from harness.models.uncertainty import calibration, interval
from harness.protocols import Estimate

Key = tuple[str, str, str]
"""What tells one ``Values`` of an answer from the others."""
_MOST = {"routing_probability": 1.0}
"""Of measures that have an upper end."""


class Values(NamedTuple):
    """One statistic of a measure by subject; NaN where it is unknown, infinite where cores do not suffice."""

    measure: str
    statistic: str
    subjects: Sequence[str]
    values: FloatArray
    unknown: str = ""
    reason: str = ""

    @property
    def key(self) -> Key:
        """What tells it from the others of an answer."""
        return self.measure, self.statistic, self.subjects[0]

    def estimates(self, ends: FloatArray) -> list[Estimate]:
        """Return estimates.

        Parameters
        ----------
        ends : array (2, values)
            Of intervals; NaN where there is none.
        """
        return [
            self._estimate(*each)
            for each in zip(self.subjects, self.values.tolist(), *ends.tolist(), strict=True)
        ]

    def _estimate(self, subject: str, value: float, low: float, high: float) -> Estimate:
        if np.isnan(value):
            return Estimate(
                self.measure, self.statistic, None, subject, status="declined", reason=self.unknown
            )
        if np.isinf(value):
            full = "more cores are asked for than its host has"
            return Estimate(self.measure, self.statistic, None, subject, status="saturated", reason=full)
        known = not np.isnan(low)
        return Estimate(
            self.measure,
            self.statistic,
            value,
            subject,
            low if known else None,
            high if known else None,
            reason=self.reason,
        )


def estimated(values: Sequence[Values], replicated: Mapping[Key, Sequence[FloatArray]]) -> list[Estimate]:
    """Return estimates, with intervals where there are replicates.

    Parameters
    ----------
    values : sequence of Values
    replicated : mapping of Key to sequence of array
        The same values with fewer frequencies, and then every replicate's.
    """
    found = []
    for _, alike in groupby(values, lambda v: len(replicated.get(v.key, ()))):
        some = list(alike)
        ends = _ends(some, [replicated.get(v.key, ()) for v in some])
        at = np.cumsum([v.values.size for v in some])[:-1]
        for v, own in zip(some, np.split(ends, at, axis=1), strict=True):
            found += v.estimates(own)
    return found


def _ends(values: Sequence[Values], replicated: Sequence[Sequence[FloatArray]]) -> FloatArray:
    """Return the ends of the intervals of several statistics, one behind the other; NaN where there are none.

    Taken together since each by itself is short.

    Parameters
    ----------
    replicated : sequence of sequences of array
        As many of each.
    """
    sizes = [v.values.size for v in values]
    ends = np.full((2, sum(sizes)), np.nan)
    if len(replicated[0]) < 3:
        return ends
    own = np.concatenate([v.values for v in values])
    coarse, *others = (np.concatenate(same) for same in zip(*replicated, strict=True))
    many = np.stack(others)
    with np.errstate(divide="ignore", invalid="ignore"):
        many = np.where(coarse > 0, many * (own / coarse), many)
    sure = np.isfinite(own) & np.isfinite(many).all(axis=0)
    known = [calibration(v.measure, v.statistic) for v in values]
    factor, error = np.repeat([(c.factor, c.error) for c in known], sizes, axis=0)[sure].T
    ends[:, sure] = interval(own[sure], many[:, sure], factor, error)
    most = np.repeat([_MOST.get(v.measure, np.inf) for v in values], sizes)
    return np.asarray(np.clip(ends, 0.0, most))  # NaN stays
