"""Findings of a comparison with the baseline: one outcome a hypothesis, and the exit status of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from harness.plans import Frozen

Family = Literal["data", "accuracy", "answers", "measured", "quality", "speed"]
Found = Literal["worse", "same", "untested"]

PASSED, WORSE, NOT_ENOUGH = 0, 1, 4


class Limits(Frozen):
    """Limits of a finding: the least changes, how often chance alone may give one, and the needs of a pass.

    Attributes
    ----------
    alpha : float
        Probability that an unchanged night has any finding (all hypotheses of a command together).
    mean_points : float
        Percentage points by which a model's mean error over the pairs may grow.
    pair_points : float
        The same in one pair, where the same data are scored again.
    step_pct : float
        Percent by which what was measured of a step may move.
    noise_factor : float
        Factor by which a step's noise may grow.
    seconds_factor : float
        Factor by which a step's overhead may grow.
    cpu_factor : float
        Factor by which a prediction's time may grow.
    between_pct : float
        How far a machine repeats a night's numbers (1 sd), until the baseline's nights say it better.
    see_pct : float
        A night in which a step's mean ground truth could move by this much without being found (with a
        probability of 0.8) has too little to say, and no finding in it is not a pass.
    """

    alpha: float = Field(default=0.05, gt=0, lt=1)
    mean_points: float = Field(default=2.0, ge=0)
    pair_points: float = Field(default=5.0, ge=0)
    step_pct: float = Field(default=5.0, ge=0)
    noise_factor: float = Field(default=2.0, ge=1)
    seconds_factor: float = Field(default=1.25, ge=1)
    cpu_factor: float = Field(default=2.0, ge=1)
    between_pct: float = Field(default=3.0, ge=0)
    see_pct: float = Field(default=50.0, gt=0)


@dataclass(frozen=True)
class Outcome:
    """One hypothesis and the result of its test.

    Attributes
    ----------
    before, now : float, optional
        The baseline's value and the run's, in ``unit``.
    p, adjusted : float, optional
        P-value, and the same after Holm's correction; None where nothing is left to chance, which is
        so when the same raw data are scored again.
    detail : str
        The pairs or steps at fault, or why it was not tested.
    """

    experiment: str
    run: str
    family: Family
    name: str
    found: Found = "untested"
    before: float | None = None
    now: float | None = None
    unit: str = "%"
    p: float | None = None
    adjusted: float | None = None
    detail: str = ""

    @property
    def said(self) -> str:
        """The outcome in a word: what another night measured is not worse or better, it moved."""
        moved = self.found == "worse" and self.family == "measured" and self.p is not None
        return "moved" if moved else self.found

    @property
    def line(self) -> str:
        """The outcome in one line."""
        parts = [f"{self.said}: {self.experiment} {self.run}: {self.family}: {self.name}"]
        if self.before is not None and self.now is not None:
            parts.append(f"{self.before:.4g} -> {self.now:.4g} {self.unit}".rstrip())
        if self.p is not None:
            parts.append(
                f"p {self.p:.2g}" + (f", adjusted {self.adjusted:.2g}" if self.adjusted is not None else "")
            )
        if self.detail:
            parts.append(self.detail)
        return "; ".join(parts)


@dataclass(frozen=True)
class Regression:
    """All outcomes, and what keeps some experiments from being judged.

    Attributes
    ----------
    gaps : tuple of str
        One line for each run that could not be compared, or not wholly.
    notes : tuple of str
        What else a reader should know (a noisy night, a model without a baseline).
    """

    outcomes: tuple[Outcome, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]
    limits: Limits

    @property
    def worse(self) -> tuple[Outcome, ...]:
        """The findings."""
        return tuple(o for o in self.outcomes if o.found == "worse")

    @property
    def tested(self) -> int:
        """Number of hypotheses that were tested."""
        return sum(o.found != "untested" for o in self.outcomes)

    @property
    def status(self) -> int:
        """Exit status: 1 with a finding, else 4 with a gap or nothing tested, else 0."""
        if self.worse:
            return WORSE
        return NOT_ENOUGH if self.gaps or not self.tested else PASSED


def corrected(outcomes: Sequence[Outcome], alpha: float) -> tuple[Outcome, ...]:
    """Decide the outcomes that have a p-value, by Holm's method over all of them together.

    The probability of any false finding is at most ``alpha``, however the hypotheses depend on each other
    (many share their steps).
    """
    at = [i for i, o in enumerate(outcomes) if o.p is not None]
    if not at:
        return tuple(outcomes)
    found = np.array([outcomes[i].p for i in at])
    assert np.isfinite(found).all(), "a p-value that is not a number would hide the larger ones"
    order = np.argsort(found, kind="stable")  # statsmodels' own collects garbage at every call
    adjusted = np.minimum(1.0, np.maximum.accumulate(found[order] * np.arange(len(at), 0, -1)))
    out = list(outcomes)
    for k, p in zip(order, adjusted, strict=True):
        i = at[k]
        out[i] = replace(out[i], found="worse" if p <= alpha else "same", adjusted=float(p))
    return tuple(out)
