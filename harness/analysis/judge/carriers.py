"""Support of a measured statistic in its interval: the effective number of blocks that carry it.

How far a statistic moves by chance is learnt from the blocks of its interval. A mean is carried by all of
them. The p99 of times that end with a window may be carried by the few windows that took longest, however
many messages were in them. From three of something nobody knows how far it moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.analysis.judge.raw_steps import RawStep, blocks, latency_blocks, metric_blocks
from harness.errors import ModelDeclined
from harness.models.contract.observe import numbers
from harness.models.contract.thesis_protocol import same_node_rows
from harness.protocols import Observation
from harness.schemas import PERCENTILES, Measure, Metric, MetricField

NS_PER_MS = 1e6
Floats = npt.NDArray[np.float64]
Statistic = tuple[str, str, str]
"""Measure, statistic, subject."""


def effective(shares: Floats) -> float:
    """Return how many blocks carry something, of their shares of it (Kish 1965): all if all have as much.

    Examples
    --------
    >>> effective(np.array([2.0, 2.0, 2.0, 0.0])), effective(np.array([97.0, 1.0, 1.0, 1.0])) < 1.1
    (3.0, True)
    """
    squares = float(np.square(shares).sum())
    return float(shares.sum()) ** 2 / squares if squares > 0 else 0.0


def carriers(step: RawStep, seen: Observation, measured: Mapping[Statistic, float]) -> dict[Statistic, float]:
    """Return the effective number of blocks that carry each statistic of a step.

    A mean is carried by its terms, a percentile by what lies beyond it.

    Parameters
    ----------
    step : RawStep
    seen : Observation
        Of the step.
    measured : mapping of (measure, statistic, subject) to float

    Returns
    -------
    mapping
        Of the topology's latencies, and the means of the components' arrival rates and service times.
    """
    of = _Blocks(step, seen, max(1, blocks(step)))
    complete_ms = measured.get((Measure.COMPLETE, "mean", ""), np.inf)
    found: dict[Statistic, float] = {}
    for (measure, statistic, subject), value in measured.items():
        beyond_ms = value if statistic in PERCENTILES else None
        if measure == Measure.GROUND_TRUTH and not subject:
            shares = of.same_node(complete_ms) if statistic == "mean_same_node" else of.latency(beyond_ms)
        elif measure in (Measure.ACK, Measure.COMPLETE) and not subject:
            # Storm's complete latency comes for the whole interval: the acks stand for it.
            shares = of.acks(beyond_ms)
        elif measure == Measure.ARRIVALS and statistic == "mean":
            shares = of.metric(Metric.RECEIVED, MetricField.COUNT, subject)
        elif measure == Measure.SERVICE and statistic == "mean":
            shares = of.metric(Metric.SERVICE, MetricField.WALL_SUM_NS, subject)
        else:
            continue
        found[measure, statistic, subject] = effective(shares)
    return found


@dataclass(frozen=True)
class _Blocks:
    """Sums by block of a step's interval; shape (number,)."""

    step: RawStep
    seen: Observation
    number: int

    def latency(self, beyond_ms: float | None) -> Floats:
        """Return sums of ground truths, or the number of those from a value on."""
        values = self.seen.latency["ground_truth_ms"].to_numpy(dtype=np.float64)
        return self._messages(self.seen.latency, values if beyond_ms is None else values >= beyond_ms)

    def same_node(self, cut_ms: float) -> Floats:
        """Return sums of the thesis's ground truths."""
        try:
            rows = same_node_rows(self.seen.latency, self.seen.plan, cut_ms)
        except ModelDeclined:
            return np.zeros(self.number)
        return self._messages(rows, rows["thesis_ground_truth_ms"].to_numpy(dtype=np.float64))

    def acks(self, beyond_ms: float | None) -> Floats:
        """Return sums of emit-to-ack times, or how many are in bins that end beyond a value."""
        if beyond_ms is None:
            return self.metric(Metric.ACK, MetricField.SUM_NS)
        rows = self._rows(Metric.ACK_HIST)
        return self._buckets(rows[numbers(rows["field"]) > beyond_ms * NS_PER_MS])

    def metric(self, measurement: str, field: str, component: str = "") -> Floats:
        """Return sums of a metric's field, of one component or of all."""
        rows = self._rows(measurement)
        rows = rows[rows["field"] == field]
        return self._buckets(rows[rows["component"] == component] if component else rows)

    def _rows(self, measurement: str) -> pd.DataFrame:
        metrics = self.seen.metrics
        return metrics[metrics["measurement"] == measurement]

    def _messages(self, rows: pd.DataFrame, shares: npt.NDArray[np.float64 | np.bool_]) -> Floats:
        block = latency_blocks(rows["scheduled_ns"].to_numpy(), self.step.interval, self.number)
        return self._sums(block, shares)

    def _buckets(self, rows: pd.DataFrame) -> Floats:
        block = metric_blocks(rows["bucket_end_ms"].to_numpy(), self.step.interval, self.number)
        return self._sums(block, rows["value"].to_numpy(dtype=np.float64))

    def _sums(self, block: npt.NDArray[np.int64], shares: npt.NDArray[np.float64 | np.bool_]) -> Floats:
        weights = np.nan_to_num(shares.astype(np.float64))
        return np.bincount(block, weights=weights, minlength=self.number).astype(np.float64)
