"""The cost of a message from measured throughputs: least squares for n, s and the processing time.

A sender that is never short of input takes ppt + n / b + t s for a tuple (equation 3 of Aeolus). Part of ppt
may be user code whose time is known. The fit minimises the squared difference of logarithms, in which twice
and half the throughput are as wrong as one another. The inverse throughput is linear in 1 / b and t, but its
relative errors are no good measure. Those errors are at most 1 where the fit is too fast and without bound
where the fit is too slow. So they would draw the fit to costs that are too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from harness.errors import UsageError

FloatArray = npt.NDArray[np.float64]

LEAST = 1e-9
"""Least estimate, in us a message, ns a byte and us a tuple: 0 has no logarithm where all are 0."""


class ThroughputRow(NamedTuple):
    """One measured throughput: tuples a second of one sending executor, with so much user code a tuple."""

    batch: int
    tuple_bytes: float
    throughput_tps: float
    work_us: float = 0.0


class FittedCost(NamedTuple):
    """An estimate, at least 0, with the ends of its confidence interval."""

    value: float
    low: float
    high: float


class FittedMessageCost(NamedTuple):
    """Estimates of a fit.

    Attributes
    ----------
    overhead_us : FittedCost
        The paper's n.
    per_byte_ns : FittedCost
        The paper's s.
    ppt_us : FittedCost
        Processing time of one tuple in the sender, without known user code.
    worst_error_pct : float
        Largest deviation of a fitted throughput from the geometric mean of those measured at one batch size,
        tuple size and time of user code.
    rows : int
    """

    overhead_us: FittedCost
    per_byte_ns: FittedCost
    ppt_us: FittedCost
    worst_error_pct: float
    rows: int

    def throughput_tps(self, batch: float, tuple_bytes: float, work_us: float = 0.0) -> float:
        """Return the fitted throughput of a sender that is never short of input (equation 3 of Aeolus)."""
        costs_us = self.overhead_us.value / batch + tuple_bytes * self.per_byte_ns.value / 1000
        return 1e6 / (costs_us + self.ppt_us.value + work_us)

    def as_json(self) -> dict[str, object]:
        """Return the estimates, each with the ends of its interval, and how well they fit."""
        costs = {"overhead_us": self.overhead_us, "per_byte_ns": self.per_byte_ns, "ppt_us": self.ppt_us}
        fitted = {name: cost._asdict() for name, cost in costs.items()}
        return {**fitted, "worst_error_pct": self.worst_error_pct, "rows": self.rows}


def fit_message_cost(rows: Sequence[ThroughputRow], level: float = 0.95) -> FittedMessageCost:
    """Fit n, s and ppt to throughputs of a saturated sender.

    Parameters
    ----------
    rows : sequence of ThroughputRow
        At least four, of two batch sizes and two tuple sizes or more; repeats are rows of their own.
    level : float
        Level of the confidence intervals, which are Student's.

    Raises
    ------
    UsageError
        When the rows do not tell the three costs apart.

    Examples
    --------
    >>> exact = [ThroughputRow(b, t, 1e6 / (2 + 50 / b + 0.004 * t)) for b in (1, 10) for t in (8, 1000)]
    >>> fit = fit_message_cost(exact)
    >>> [round(c.value, 6) for c in (fit.overhead_us, fit.per_byte_ns, fit.ppt_us)]
    [50.0, 4.0, 2.0]
    """
    batch, size, tps, work_us = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    sound = np.isfinite(tps) & (tps > 0) & (batch >= 1) & (size >= 0) & (work_us >= 0)
    if not sound.all():
        raise UsageError("a row has a batch below 1, a negative size or time, or no throughput above 0")
    # in microseconds, bytes in thousands: columns of like size
    columns = np.stack([1 / batch, size / 1000, np.ones(batch.size)], axis=1)
    free = batch.size - columns.shape[1]
    if free < 1 or np.linalg.matrix_rank(columns) < columns.shape[1]:
        raise UsageError(
            f"{batch.size} rows do not tell n, s and ppt apart",
            "measure at least four, with two batch sizes and two tuple sizes",
        )
    log_us = np.log(1e6 / tps)
    start = np.linalg.lstsq(columns * (tps / 1e6)[:, None], 1 - work_us * tps / 1e6, rcond=None)[0]

    def errors(costs: FloatArray) -> FloatArray:
        return np.asarray(np.log(columns @ costs + work_us) - log_us, dtype=np.float64)

    def slopes(costs: FloatArray) -> FloatArray:
        return np.asarray(columns / (columns @ costs + work_us)[:, None], dtype=np.float64)

    found = optimize.least_squares(
        errors,
        np.maximum(start, LEAST),
        jac=slopes,
        bounds=(LEAST, np.inf),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    costs, error = (np.asarray(value, dtype=np.float64) for value in (found.x, found.fun))
    slope = slopes(costs)
    spread = np.sqrt(np.diag(np.linalg.pinv(slope.T @ slope)) * float((error**2).sum()) / free)
    reach = float(stats.t.ppf((1 + level) / 2, free)) * spread
    n, s, ppt = (
        FittedCost(float(c), float(max(c - r, 0.0)), float(c + r)) for c, r in zip(costs, reach, strict=True)
    )
    cells = set(zip(batch.tolist(), size.tolist(), work_us.tolist(), strict=True))
    off = [float(error[(batch == b) & (size == t) & (work_us == w)].mean()) for b, t, w in cells]
    worst = max(abs(math.expm1(-o)) for o in off)
    return FittedMessageCost(n, s, ppt, float(100 * worst), batch.size)
