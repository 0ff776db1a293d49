"""How far a measured value would be from itself if it were measured again.

Two parts add up: the spread within the interval (the standard error by batch means, see
`harness.experiments.precision`) and the spread between repeats of one configuration, which holds what
stays the same throughout a step (placement of threads, phases of windows and timers, a cache's
state). The second is estimated as a share of the mean, so repeats of a few configurations serve for
all; without repeats it is unknown, and what is given is a lower bound and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.stats import t as student


@dataclass(frozen=True)
class Measured:
    """A measured mean, its standard error within the interval and that error's degrees of freedom."""

    mean: float
    standard_error: float
    freedom: float

    def __post_init__(self) -> None:
        if not (self.mean > 0 and self.standard_error >= 0 and self.freedom > 0):
            raise ValueError(f"{self} needs mean > 0, standard error >= 0, freedom > 0")


@dataclass(frozen=True)
class Between:
    """Variance between repeats, relative to the mean squared.

    Attributes
    ----------
    total : float
        Variance of the repeats' means, within-interval noise included; ``freedom`` degrees of freedom.
    within : float
        Mean variance within the intervals; ``within_freedom`` degrees of freedom.
    freedom, within_freedom : float
        Degrees of freedom.
    """

    total: float
    within: float
    freedom: float
    within_freedom: float

    @property
    def component(self) -> float:
        """The part beyond the within-interval noise; an unbiased estimate, so it may be negative."""
        return self.total - self.within


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one measured value, with its parts in the value's own unit.

    Attributes
    ----------
    sd : float
        Of the value from repeat to repeat.
    sd_pct : float
        The same in percent of the mean.
    freedom : float
        Degrees of freedom of ``sd`` (Satterthwaite's approximation where parts are added).
    half_width : float
        95 % of repeats' values lie within this of the configuration's true mean.
    within : float
        Part within the interval.
    between : float or None
        Part between repeats; None when nothing was repeated, and then ``sd`` is a lower bound.
    """

    sd: float
    sd_pct: float
    freedom: float
    half_width: float
    within: float
    between: float | None


def between_repeats(groups: Sequence[Sequence[Measured]]) -> Between | None:
    """Estimate the spread between repeats, pooled over configurations.

    Parameters
    ----------
    groups : sequence of sequences of Measured
        One group a configuration, one value a repeat. Groups of one tell nothing and are left out.

    Returns
    -------
    Between or None
        None when no configuration was repeated.

    Examples
    --------
    >>> quiet = [Measured(99, 0, 9), Measured(101, 0, 9)]
    >>> round(between_repeats([quiet]).component, 6)
    0.0002
    """
    repeated = [g for g in groups if len(g) > 1]
    if not repeated:
        return None
    squares = within = within_square = 0.0
    freedom = sum(len(g) - 1 for g in repeated)
    for group in repeated:
        centre = sum(m.mean for m in group) / len(group)
        squares += sum((m.mean / centre - 1) ** 2 for m in group)
        for m in group:
            # A group's mean within-variance counts by its degrees of freedom, as its squares do.
            part = (len(group) - 1) / (len(group) * freedom) * (m.standard_error / centre) ** 2
            within += part
            within_square += part**2 / m.freedom
    within_freedom = within**2 / within_square if within_square > 0 else float(freedom)
    return Between(squares / freedom, within, float(freedom), within_freedom)


def noise(value: Measured, between: Between | None = None) -> Noise:
    """Combine the noise within the interval with that between repeats.

    Parameters
    ----------
    value : Measured
        One step's measured value.
    between : Between, optional
        From `between_repeats`.

    Notes
    -----
    A negative between-component is taken as none: the repeats then differ by no more than the noise
    within their intervals explains.
    """
    own = value.standard_error**2
    extra = 0.0 if between is None else max(between.component, 0.0) * value.mean**2
    variance, freedom = own + extra, value.freedom
    if between is not None and extra > 0:
        scale = value.mean**2
        uncertainty = (
            own**2 / value.freedom
            + (between.total * scale) ** 2 / between.freedom
            + (between.within * scale) ** 2 / between.within_freedom
        )
        freedom = variance**2 / uncertainty
    sd = sqrt(variance)
    return Noise(
        sd,
        100 * sd / value.mean,
        freedom,
        float(student.ppf(0.975, freedom)) * sd,
        sqrt(own),
        None if between is None else sqrt(extra),
    )
