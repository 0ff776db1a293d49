"""Settings by which the steps of an experiment are measured: burn-in, interval, attempts and limits."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from harness.plans import Frozen
from harness.quality import Finding
from harness.topologies.bounds import Percent, Seconds

LEAST_BUCKETS = 5
"""Metric buckets in the shortest interval, which is rounded up to whole ones."""
LongerThanNothing = Annotated[Seconds, Field(gt=0)]


class BurnIn(Frozen):
    """The discarded start of a step: at least, at most, and the drift that still counts as steady.

    Attributes
    ----------
    least_s : float
        Seconds that are discarded in any case.
    most_s : float
        Seconds after which a step is measured although it is not steady.
    drift_pct : float
        Drift of the latency in percent that still counts as steady.
    """

    least_s: Seconds = 15
    most_s: LongerThanNothing = 60
    drift_pct: Percent = 10


class IntervalSettings(Frozen):
    """The measured interval: it ends when the mean's 95 % interval is narrow enough, or at its most.

    Attributes
    ----------
    precision_pct : float
        The interval ends when the mean's 95 % interval is within this, in percent of the mean.
    least_s : float
        Shortest length of the interval in seconds.
    most_s : float
        Longest length of the interval in seconds.
    looks : int
        How often the precision is looked at.
    """

    precision_pct: Percent = 3
    least_s: LongerThanNothing = 30
    most_s: LongerThanNothing = 60
    looks: Annotated[int, Field(ge=1, le=100)] = 4


class StealLimits(Frozen):
    """Stolen CPU time in percent of an interval above which it is measured again, and above which invalid.

    Attributes
    ----------
    again : float
        Stolen CPU time in percent of the interval above which a step is measured again.
    most : float
        The same, above which a step is invalid.
    """

    again: Annotated[float, Field(ge=0, le=100)] = 5
    most: Annotated[float, Field(ge=0, le=100)] = 10

    def finding(self, steal_pct: float) -> Finding:
        """Return whether the machine's host left it the CPU that it has.

        Parameters
        ----------
        steal_pct : float
            Share of the machine's CPU time in the interval that went to others.

        Examples
        --------
        >>> StealLimits().finding(20.3).detail
        '20.3 % of the CPU time was stolen in the interval, and at most 10 % are allowed'
        """
        ok = steal_pct <= self.most
        limit = "" if ok else f", and at most {self.most:g} % are allowed"
        return Finding(ok=ok, detail=f"{steal_pct:.1f} % of the CPU time was stolen in the interval{limit}")


class Measuring(Frozen):
    """Settings by which a step is measured.

    Attributes
    ----------
    bucket_s : int
        Seconds of a metric bucket. An interval consists of whole ones, at least 5.
    burn_in : BurnIn
        The discarded start of a step.
    interval : IntervalSettings
        The measured interval of a step.
    attempts : int
        How often at most a step is measured that was disturbed, unsteady or far too imprecise. The
        last attempt is kept as it is.
    steal_pct : StealLimits
        Limits of the CPU time that other guests of the host stole.
    instrument : bool
        Bolts and spouts are wrapped, so that they report metrics.
    """

    bucket_s: Annotated[int, Field(ge=1, le=3600)] = 2
    burn_in: BurnIn = BurnIn()
    interval: IntervalSettings = IntervalSettings()
    attempts: Annotated[int, Field(ge=1, le=100)] = 2
    steal_pct: StealLimits = StealLimits()
    instrument: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for key, part in (("burn_in", self.burn_in), ("interval", self.interval)):
            if part.least_s > part.most_s:
                raise ValueError(f"{key}: least_s {part.least_s:g} is more than most_s {part.most_s:g}")
        if self.steal_pct.again > self.steal_pct.most:
            again, most = self.steal_pct.again, self.steal_pct.most
            raise ValueError(f"steal_pct: again {again:g} is more than most {most:g}")
        if LEAST_BUCKETS * self.bucket_s > self.interval.least_s:
            raise ValueError(
                f"bucket_s {self.bucket_s}: interval.least_s {self.interval.least_s:g} must hold"
                f" at least {LEAST_BUCKETS} buckets"
            )
        return self

    @property
    def whole(self) -> Self:
        """The same with an interval that always lasts its longest."""
        interval = self.interval.model_copy(update={"least_s": self.interval.most_s, "looks": 1})
        return self.model_copy(update={"interval": interval})

    @property
    def timed(self) -> Self:
        """The same with burn-in and interval that always last their longest: their begin is known before."""
        burn_in = self.burn_in.model_copy(update={"least_s": self.burn_in.most_s})
        return self.whole.model_copy(update={"burn_in": burn_in})
