"""Rates that plans are made for: the traffic that is known by a decision, and the rate that it is made for.

The schedule of a step is known in advance. So all that is counted here is counted up to the decision, and
nothing after it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.experiments.schedule import NS_PER_S, Due
from harness.protocols import RateHistory


class RatesSeen(NamedTuple):
    """Traffic of a step by the moment of a decision.

    Attributes
    ----------
    history : RateHistory
        Messages a second that were due, in the buckets that are over. Time 0 is the interval's begin.
    now_s : float
        The moment of the decision, on the same clock.
    """

    history: RateHistory
    now_s: float


NO_RATES = RatesSeen(RateHistory(np.empty(0), 1.0), 0.0)
"""Nothing is over, as nothing has begun."""


class PlannedRate(NamedTuple):
    """The rate that a plan was made for.

    Attributes
    ----------
    rate_tps : float
    forecast : str
        Forecaster that was asked; empty where the last period's rate is taken.
    quantile, horizon_s : float, optional
        What it was asked for.
    declined : str
        Why it had no forecast: the last period's rate is taken in its place. Empty where it had one.
    """

    rate_tps: float
    forecast: str = ""
    quantile: float | None = None
    horizon_s: float | None = None
    declined: str = ""

    @property
    def columns(self) -> dict[str, float | str | None]:
        """Columns of ``adaptation.parquet``."""
        return {
            "planned_tps": self.rate_tps,
            "forecast": self.forecast or None,
            "quantile": self.quantile,
            "horizon_s": self.horizon_s,
            "forecast_declined": self.declined or None,
        }


class DueRates:
    """Messages that were due since an interval began, in buckets, each counted once, when it is over.

    Parameters
    ----------
    due : callable
        Counts the messages that were due in a span.
    start_ns : int
        Where the first bucket begins.
    bucket_s : float
        Length of a bucket.

    Examples
    --------
    >>> def ten_a_second(start_ns, end_ns):
    ...     return Due((end_ns - start_ns) // 100_000_000, ended=False)
    >>> DueRates(ten_a_second, 0, bucket_s=2.0).until(5 * NS_PER_S).history.rate_tps.tolist()
    [10.0, 10.0]
    """

    def __init__(self, due: Callable[[int, int], Due], start_ns: int, bucket_s: float) -> None:
        self._due = due
        self._start_ns = start_ns
        self._bucket_s = bucket_s
        self._counts: list[int] = []

    def until(self, now_ns: int) -> RatesSeen:
        """Return the rates of all buckets that are over."""
        width_ns = round(self._bucket_s * NS_PER_S)
        while (end_ns := self._start_ns + (len(self._counts) + 1) * width_ns) <= now_ns:
            self._counts.append(self._due(end_ns - width_ns, end_ns).messages)
        rates = np.array(self._counts, dtype=np.float64) / self._bucket_s
        return RatesSeen(RateHistory(rates, self._bucket_s), (now_ns - self._start_ns) / NS_PER_S)
