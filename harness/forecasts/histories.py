"""Histories by component, task and stream, from the rows of metric buckets or the send times of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import UsageError
from harness.forecasts.answers import FloatArray
from harness.protocols import RateHistory
from harness.schemas import Metric

TRACE = "trace"
"""Component by which a trace's messages go."""
_NS_PER_S = 1e9
_MS_PER_S = 1e3
_MOMENT_S = 1e-3
"""Times are whole ms, but for rounding."""
_FINER = 0.9
"""Buckets may be a little shorter than those measured, whose ends jitter."""


@dataclass(frozen=True, eq=False)
class SubjectHistory:
    """Rates at which one component, or one task of it, emitted into one stream; ``task`` None: all tasks."""

    component: str
    task: int | None
    stream: str
    history: RateHistory

    def latest(self, buckets: int) -> SubjectHistory:
        """Return the last buckets of it, at least one."""
        history = self.history
        dropped = max(len(history.rate_tps) - max(buckets, 1), 0)
        start_s = history.start_s + dropped * history.bucket_s
        return replace(self, history=replace(history, rate_tps=history.rate_tps[dropped:], start_s=start_s))

    def since(self, start_s: float) -> SubjectHistory:
        """Return the buckets of it that begin at a moment or later, at least the last one.

        Examples
        --------
        >>> spout = SubjectHistory("spout", None, "default", RateHistory(np.array([1.0, 2.0, 3.0]), 2.0))
        >>> spout.since(2.0).history.rate_tps.tolist(), spout.since(2.5).history.rate_tps.tolist()
        ([2.0, 3.0], [3.0])
        """
        begins_s = self.history.time_s - self.history.bucket_s
        return self.latest(int((begins_s >= start_s - _MOMENT_S).sum()))


def histories_of_metrics(
    metrics: pd.DataFrame, components: Sequence[str], start_ms: float, end_ms: float, bucket_s: float
) -> list[SubjectHistory]:
    """Return the emitted rates of components and their tasks by stream, in buckets that all have in common.

    Tasks report at moments of their own, so each one's counts are added up over time, and read off at the
    common buckets' ends. Within a measured bucket tuples are taken as equally spread.

    Parameters
    ----------
    metrics : DataFrame
        Rows of ``metrics.parquet`` (docs/run-directory.md); ``emitted`` is read.
    components : sequence of str
        Whose.
    start_ms, end_ms : float
        Between which moments (epoch); buckets lie within them and within what all tasks measured.
    bucket_s : float
        Length of a bucket.

    Returns
    -------
    list of SubjectHistory
        By component and stream, the whole component first. Times are seconds of the epoch.

    Raises
    ------
    UsageError
        When a component emitted nothing, or the measured buckets are longer than ``bucket_s``.
    """
    emitted = metrics[(metrics["measurement"] == Metric.EMITTED) & metrics["component"].isin(components)]
    emitted = emitted.astype({"component": str, "stream": str})
    for component in components:
        if not (emitted["component"] == component).any():
            known = ", ".join(
                sorted(metrics.loc[metrics["measurement"] == Metric.EMITTED, "component"].unique())
            )
            raise UsageError(
                f"no history: {component} emitted nothing", f"components that did: {known or '-'}"
            )
    counts = {
        (component, int(str(task))): rows
        for component in components
        for task, rows in emitted[emitted["component"] == component].groupby("task")
    }
    ends_ms = {key: np.unique(rows["bucket_end_ms"].to_numpy(dtype=float)) for key, rows in counts.items()}
    grid_ms = _common_grid(list(ends_ms.values()), start_ms, end_ms, bucket_s)
    by_task: dict[tuple[str, str], dict[int, FloatArray]] = {}
    for (component, task), rows in counts.items():
        ends = ends_ms[component, task]
        for stream, of_stream in rows.groupby("stream"):
            sums = of_stream.groupby("bucket_end_ms")["value"].sum().reindex(ends, fill_value=0.0)
            total = np.interp(grid_ms, ends, np.cumsum(sums.to_numpy(dtype=float)))
            by_task.setdefault((component, str(stream)), {})[task] = np.diff(total) / bucket_s
    return list(_subjects(by_task, bucket_s, grid_ms[0] / _MS_PER_S))


def history_of_trace(offsets_ns: npt.NDArray[np.int64], bucket_s: float) -> SubjectHistory:
    """Return the rate of a trace's messages; the last bucket, in which the trace ends, is left out.

    Raises
    ------
    UsageError
        When the trace is shorter than a bucket.

    Examples
    --------
    >>> offsets = np.array([0, 100, 1_500_000_000, 4_100_000_000])
    >>> history_of_trace(offsets, bucket_s=2.0).history.rate_tps.tolist()
    [1.5, 0.0]
    """
    if not 0 < bucket_s < float("inf"):
        raise UsageError(f"buckets of {bucket_s} s", "a bucket is longer than 0 s")
    buckets = (offsets_ns // round(bucket_s * _NS_PER_S)).astype(np.int64)
    counts = np.bincount(buckets)[:-1]
    if not len(counts):
        raise UsageError(f"no history: the trace is shorter than a bucket of {bucket_s:g} s")
    return SubjectHistory(TRACE, None, "default", RateHistory(counts / bucket_s, bucket_s))


def history_before_last(offsets_ns: npt.NDArray[np.int64], bucket_s: float) -> RateHistory:
    """Return the rate of a trace's messages in whole buckets up to its last message, where time 0 is.

    Raises
    ------
    UsageError
        When the trace is shorter than a bucket.

    Examples
    --------
    >>> offsets = np.array([0, 1_000_000_000, 2_100_000_000, 5_000_000_000])
    >>> history = history_before_last(offsets, bucket_s=2.0)
    >>> history.start_s, history.rate_tps.tolist()
    (-4.0, [0.5, 0.5])
    """
    width_ns, last_ns = round(bucket_s * _NS_PER_S), int(offsets_ns[-1])
    whole = last_ns // width_ns
    if not whole:
        raise UsageError(f"no history: the trace is shorter than a bucket of {bucket_s:g} s")
    ages = (last_ns - offsets_ns) // width_ns
    counts = np.bincount(ages, minlength=whole)[:whole][::-1]
    return RateHistory(counts / bucket_s, bucket_s, start_s=-whole * bucket_s)


def _common_grid(
    ends_ms: Sequence[FloatArray], start_ms: float, end_ms: float, bucket_s: float
) -> FloatArray:
    """Return the ends of buckets within what every task measured."""
    gaps_s = np.concatenate([np.diff(of_task) for of_task in ends_ms]) / _MS_PER_S
    if len(gaps_s) and bucket_s < _FINER * np.median(gaps_s):
        raise UsageError(
            f"buckets of {bucket_s:g} s are shorter than those measured ({np.median(gaps_s):.3g} s)",
            "give a longer --bucket-s",
        )
    first_ms = max(start_ms, *(of_task[0] for of_task in ends_ms))
    last_ms = min(end_ms, *(of_task[-1] for of_task in ends_ms))
    buckets = int((last_ms - first_ms) / (bucket_s * _MS_PER_S))
    if buckets < 1:
        raise UsageError(f"no history: the step is shorter than a bucket of {bucket_s:g} s")
    # The latest buckets count most: the history ends where the measurement does.
    return np.asarray(last_ms - bucket_s * _MS_PER_S * np.arange(buckets, -1, -1), dtype=float)


def _subjects(
    by_task: dict[tuple[str, str], dict[int, FloatArray]], bucket_s: float, start_s: float
) -> Iterator[SubjectHistory]:
    for (component, stream), tasks in sorted(by_task.items()):
        whole = np.sum(list(tasks.values()), axis=0)
        yield SubjectHistory(component, None, stream, RateHistory(whole, bucket_s, start_s))
        for task, rates in sorted(tasks.items()):
            yield SubjectHistory(component, task, stream, RateHistory(rates, bucket_s, start_s))
