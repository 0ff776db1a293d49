"""The cost of a message from measured throughputs: least squares for n, s and the processing time.

A sender that is never short of input takes ppt + n / b + t s for a tuple (equation 3 of Aeolus), and so the
inverse of its throughput is linear in 1 / b and t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from harness.errors import UsageError
from harness.tuning.dataflow import MessageCost, rational


class ThroughputRow(NamedTuple):
    """One measured throughput: tuples a second of one sending executor at a batch and tuple size."""

    batch: int
    tuple_bytes: float
    throughput_tps: float


class FittedCost(NamedTuple):
    """An estimate with the ends of its confidence interval."""

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
        Processing time of one tuple in the sender.
    worst_error_pct : float
        Largest deviation of a fitted throughput from the measured one.
    rows : int
    """

    overhead_us: FittedCost
    per_byte_ns: FittedCost
    ppt_us: FittedCost
    worst_error_pct: float
    rows: int

    def message_cost(self, origin: str) -> MessageCost:
        """Return n and s as the optimizer takes them; an estimate below 0 counts as 0."""
        return MessageCost(
            rational(max(self.overhead_us.value, 0.0)) / 10**6,
            rational(max(self.per_byte_ns.value, 0.0)) / 10**9,
            origin,
        )


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

    Notes
    -----
    Rows are weighted by their throughput, so that relative errors are squared.

    Examples
    --------
    >>> exact = [ThroughputRow(b, t, 1e6 / (2 + 50 / b + 0.004 * t)) for b in (1, 10) for t in (8, 1000)]
    >>> fit = fit_message_cost(exact)
    >>> [round(c.value, 6) for c in (fit.overhead_us, fit.per_byte_ns, fit.ppt_us)]
    [50.0, 4.0, 2.0]
    """
    batch, size, tps = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    if not (np.isfinite(tps).all() and (tps > 0).all() and (batch >= 1).all() and (size >= 0).all()):
        raise UsageError("a row has a batch below 1, a negative size, or no throughput above 0")
    # tps (ppt + n / b + t s) = 1; in microseconds, bytes in thousands, for columns of like size
    columns = np.stack([1 / batch, size / 1000, np.ones(batch.size)], axis=1) * (tps / 1e6)[:, None]
    free = batch.size - columns.shape[1]
    if free < 1 or np.linalg.matrix_rank(columns) < columns.shape[1]:
        raise UsageError(
            f"{batch.size} rows do not tell n, s and ppt apart",
            "measure at least four, with two batch sizes and two tuple sizes",
        )
    costs = np.linalg.lstsq(columns, np.ones(batch.size), rcond=None)[0]
    fitted = columns @ costs
    spread = np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)) * float(((1 - fitted) ** 2).sum()) / free)
    reach = float(stats.t.ppf((1 + level) / 2, free)) * spread
    n, s, ppt = (FittedCost(float(c), float(c - r), float(c + r)) for c, r in zip(costs, reach, strict=True))
    return FittedMessageCost(n, s, ppt, float(100 * np.abs(1 / fitted - 1).max()), batch.size)
