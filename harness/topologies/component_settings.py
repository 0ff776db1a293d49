"""Settings of a test topology's component: the work that a bolt does, and a number of children."""

from __future__ import annotations

from math import erf, sqrt
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen

Keep = Annotated[float, Field(gt=0, le=1)]
"""Share of the tuples that a filter passes on."""
Groups = Annotated[int, Field(ge=1, le=10_000)]
"""Key groups of a component, for good: the hash of a key says its group."""
Routing = Literal["one-per-window", "parity"]
"""On which of its streams a join emits for a window."""

MOST_CHILDREN = 100_000
"""Tuples that a multiplier may make of one."""
LEAST_FITTING = 0.01
"""Chance, for one draw of a multiplier, to lie within its bounds: all others are drawn again, by the harness
and by the topology."""


class ServiceTime(Frozen):
    """Work that a bolt spends on each tuple: CPU time burnt, or time waited.

    Attributes
    ----------
    kind : {'cpu', 'wait'}
        CPU time that is burnt, or time that is waited.
    distribution : {'constant', 'exponential', 'lognormal', 'uniform'}
        Distribution of the service time.
    mean_ms : float
        Mean service time in ms.
    cv : float
        Only with ``lognormal``: standard deviation over mean.
    """

    kind: Literal["cpu", "wait"]
    distribution: Literal["constant", "exponential", "lognormal", "uniform"]
    mean_ms: Annotated[float, Field(ge=1e-6, le=3_600_000, allow_inf_nan=False)]
    cv: Annotated[float, Field(ge=1e-6, le=100, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _cv_where_it_is_used(self) -> Self:
        if (self.distribution == "lognormal") != (self.cv is not None):
            raise ValueError("cv (standard deviation over mean) goes with distribution lognormal, only there")
        return self


class Multiplier(Frozen):
    """Number of tuples for each input: a normal draw, rounded and kept within min and max.

    Attributes
    ----------
    min : int
        Least value of a draw.
    max : int
        Greatest value of a draw.
    mean : float
        Mean of the normal draw.
    sd : float
        Standard deviation of the normal draw.
    """

    min: Annotated[int, Field(ge=1, le=MOST_CHILDREN)]
    max: Annotated[int, Field(ge=1, le=MOST_CHILDREN)]
    mean: Annotated[float, Field(ge=1, le=MOST_CHILDREN, allow_inf_nan=False)]
    sd: Annotated[float, Field(ge=0, le=MOST_CHILDREN, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean} must lie between min {self.min} and max {self.max}")
        if self.sd and self._fitting() < LEAST_FITTING:
            raise ValueError(
                f"sd {self.sd:g} puts less than {100 * LEAST_FITTING:g} % of the draws"
                f" between min {self.min} and max {self.max}"
            )
        return self

    def _fitting(self) -> float:
        """Return the chance that a draw, rounded, lies within the bounds."""
        low, high = ((edge - self.mean) / (self.sd * sqrt(2)) for edge in (self.min - 0.5, self.max + 0.5))
        return (erf(high) - erf(low)) / 2
