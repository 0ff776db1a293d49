"""Numbers by statistic and subject, their intervals from replicates, and the estimates that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import groupby
from typing import NamedTuple

import numpy as np

from harness.models.composite.sensitivity import share_of_costs
from harness.models.composite.uncertainty import Calibration, Calibrations, interval
from harness.models.contract.layout import FloatArray
from harness.protocols import Estimate
from harness.schemas import Measure

Key = tuple[str, str, str]
"""Names that tell one ``Values`` of an answer from the others."""
_MOST: Mapping[str, float] = {Measure.ROUTING: 1.0}
"""Upper ends of the measures that have one."""


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
        """Key that no other values of an answer have."""
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


Known = Mapping[Key, Values]


class Others(NamedTuple):
    """The same answers otherwise, of which intervals are made; empty where there was none.

    Attributes
    ----------
    coarse : Known
        With as few frequencies as the ones below.
    dearer : Known
        All costs ``sensitivity.BY`` times as much.
    replicates : sequence of Known
        What other intervals of the source would have said.
    """

    coarse: Known
    dearer: Known
    replicates: Sequence[Known]


def estimated(values: Sequence[Values], others: Others, calibrations: Calibrations) -> list[Estimate]:
    """Return estimates, with intervals where there are two replicates or more."""
    found = []
    for known, alike in groupby(values, lambda v: [v.key in r for r in others.replicates]):
        some = list(alike)
        ends = np.full((2, sum(v.values.size for v in some)), np.nan)
        if sum(known) > 1:
            ends = _ends(some, others, calibrations)
        at = np.cumsum([v.values.size for v in some])[:-1]
        for v, own in zip(some, np.split(ends, at, axis=1), strict=True):
            found += v.estimates(own)
    return found


def _ends(values: Sequence[Values], others: Others, calibrations: Calibrations) -> FloatArray:
    """Return the ends of the intervals of several statistics, one behind the other; NaN where there are none.

    Taken together since each by itself is short; the same replicates have all of them.
    """

    def joined(known: Known) -> FloatArray:
        return np.concatenate([_of_subjects(known.get(v.key), v.subjects) for v in values])

    own = np.concatenate([v.values for v in values])
    coarse = joined(others.coarse)
    many = np.stack([joined(r) for r in others.replicates if values[0].key in r])
    with np.errstate(divide="ignore", invalid="ignore"):
        many = np.where(coarse > 0, many * (own / coarse), many)
    sure = np.isfinite(own) & np.isfinite(many).all(axis=0)
    of = [calibrations.get((v.measure, v.statistic), Calibration()) for v in values]
    sizes = [v.values.size for v in values]
    error, costs = np.repeat([astuple(c) for c in of], sizes, axis=0)[sure].T
    error = np.hypot(error, costs * share_of_costs(coarse, joined(others.dearer))[sure])
    ends = np.full((2, own.size), np.nan)
    ends[:, sure] = interval(own[sure], many[:, sure], error)
    most = np.repeat([_MOST.get(v.measure, np.inf) for v in values], sizes)
    return np.asarray(np.clip(ends, 0.0, most))  # NaN stays


def _of_subjects(found: Values | None, subjects: Sequence[str]) -> FloatArray:
    """Return values for subjects; NaN where there are none: a path that a replicate never takes."""
    if found is None:
        return np.full(len(subjects), np.nan)
    if found.subjects == subjects:
        return found.values
    by_subject = dict(zip(found.subjects, found.values.tolist(), strict=True))
    return np.array([by_subject.get(s, np.nan) for s in subjects])
