"""Check that a step's metric buckets tile its interval: one rule for every way in which metrics are read.

A bucket's time is its end, and a bucket begins at the end of the one before it: rates are counts over those
times. The time of a bucket that is missing is thus charged to the next one. A bucket that came twice, or was
squeezed by a clock that was set back, counts its tuples in no time at all. No single row shows either.

Storm asks a task for its bucket by a tick in the task's queue. In a saturated step a bolt's queue grows, and
each tick waits longer than the one before it. Behind a hot key a bucket lasted 19.5 s in place of 2. So there
gaps between a bolt's buckets say nothing, and only those of spouts count, whose ticks wait in no queue of
tuples. A store that loses metrics loses those of spouts, too. Buckets that came twice or were squeezed count
there, too.

In a step that adapts, workers restart, and what they had counted since their last bucket is gone. There the
times between restarts are tiled, by the buckets of spouts. A bolt's queue may grow and be worked off again,
so of its task's buckets only those that came twice are faults.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.plans import PhysicalPlan
from harness.runs import Interval
from harness.schemas import Metric

TILING = (
    Metric.ACK,
    Metric.EMITTED,
    Metric.INTERARRIVAL,
    Metric.RECEIVED,
    Metric.SERVICE,
    Metric.WORKER,
)
"""Measurements that are reported in every bucket, counts of 0 included."""
MOST_GAP = 1.9
"""Longest time between two buckets, in lengths of one; a missing bucket leaves 2. The longest of the 121
archived steps is 1.84, in a step that was a third beyond what it could do: ticks waited in queues."""
MOST_LATE = 3
"""So many buckets after a late one, or before an early one, are looked at for what it lacks."""
EDGE_BUCKETS = MOST_LATE + 1
"""So many of a series' buckets before the interval, and after it, are looked at."""
MOST_SURPLUS = 0.9
"""Most buckets beyond those that fit between the first and the last one; a doubled bucket adds 1. The most of
the archived steps is 0.67."""

SETTLE_MS = 15_000
"""From when a plan is in force. Workers that restarted are cold and catch up: ticks wait in their queues."""

Times = npt.NDArray[np.int64]
Waits = Literal["never", "more-and-more", "more-and-less"]
"""Waiting of a series' ticks in a queue of tuples, as an interval goes on."""


class Change(NamedTuple):
    """A change of the plan within an interval, in epoch ms: when it was asked for, and when in force."""

    asked_ms: int
    in_force_ms: int


class Stretch(NamedTuple):
    """A part of an interval in which no worker restarts, in epoch ms.

    Attributes
    ----------
    start_ms, end_ms : int
        The time that the buckets have to tile.
    since_ms, until_ms : float
        Buckets that end outside this are of workers that were restarted since, or not yet.
    """

    start_ms: int
    end_ms: int
    since_ms: float = -math.inf
    until_ms: float = math.inf


def stretches(interval: Interval, changes: Iterable[Change]) -> list[Stretch]:
    """Return the times between changes of the plan, each without what its workers take to settle.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> whole = SimpleNamespace(start_epoch_ms=0, end_epoch_ms=90_000)
    >>> for s in stretches(whole, [Change(30_000, 36_000), Change(50_000, 55_000)]):
    ...     print(s.start_ms, s.end_ms, s.since_ms, s.until_ms)
    0 30000 -inf 30000
    70000 90000 55000 inf
    """
    found, start_ms, since_ms = [], interval.start_epoch_ms, -math.inf
    for change in changes:
        found.append(Stretch(start_ms, change.asked_ms, since_ms, change.asked_ms))
        start_ms, since_ms = change.in_force_ms + SETTLE_MS, change.in_force_ms
    found.append(Stretch(start_ms, interval.end_epoch_ms, since_ms))
    return [s for s in found if s.start_ms < s.end_ms]


def untiled(
    metrics: pa.Table,
    interval: Interval,
    plan: PhysicalPlan,
    bucket_s: float,
    *,
    saturated: bool,
    parts: Sequence[Stretch] = (),
) -> tuple[str, ...]:
    """Say of which tasks buckets are missing, doubled or squeezed, one line a task.

    Parameters
    ----------
    metrics : Table
        Rows of ``metrics.parquet``; those before and after the interval tell when its edges' buckets began
        and ended.
    interval : Interval
    plan : PhysicalPlan
        Names the tasks' components.
    bucket_s : float
        The length of a bucket as asked.
    saturated : bool
        Whether the step's backlog grew: then gaps between bolts' buckets are none.
    parts : sequence of Stretch
        Of a step that adapts (``stretches``), in place of the interval. Its queues may grow at any time.

    Returns
    -------
    tuple of str
        Empty where every series of every task tiles the interval.
    """
    labels = {task: f"{e.component}:{task}" for task, e in plan.by_task.items()}
    spouts = {t for t, e in plan.by_task.items() if e.component in plan.query_plan.spouts}
    queued = set(labels) - spouts if saturated or parts else set()
    found: dict[str, str] = {}
    for part in parts or stretches(interval, ()):
        ends = metrics["bucket_end_ms"]
        there = pc.and_(pc.greater(ends, part.since_ms), pc.less_equal(ends, part.until_ms))
        silent = spouts if parts else set()  # elsewhere a task without any bucket is its own finding
        for series, own in _series(metrics.filter(there)):
            task = int(series["task"])
            if series["measurement"] == Metric.EMITTED:  # which a spout reports, with counts of 0, too
                silent = silent - {task}
            waits: Waits = "never" if task not in queued else "more-and-less" if parts else "more-and-more"
            if reason := _fault(own, part, bucket_s, interval.start_epoch_ms, waits):
                found.setdefault(labels.get(task, f"task {task}"), f"{series['measurement']}: {reason}")
        length_s = (part.end_ms - part.start_ms) / 1000
        if length_s > MOST_GAP * bucket_s:
            found |= {labels[t]: f"no bucket for {length_s:.1f} s" for t in sorted(silent)}
    return tuple(f"{task}: {reason}" for task, reason in found.items())


def _series(metrics: pa.Table) -> Iterator[tuple[Mapping[str, str | int], pd.DataFrame]]:
    """Yield the buckets of each measurement, worker and task, in order, and which of them came twice."""
    kept = metrics.filter(pc.is_in(metrics["measurement"].cast(pa.string()), pa.array(TILING)))
    named = ["measurement", "worker", "task"]
    rows = kept.drop_columns(["value"]).to_pandas()
    rows["twice"] = rows.duplicated()
    by = {name: rows[name].astype(str) if name != "task" else rows[name] for name in named}
    grouped = rows.groupby([*by.values(), "bucket_end_ms"])["twice"].any().reset_index()
    for key, ends in grouped.groupby(named):
        yield dict(zip(named, key, strict=True)), ends


def _fault(ends: pd.DataFrame, part: Stretch, bucket_s: float, first_ms: int, waits: Waits) -> str:
    """Say what is wrong with one series' buckets; empty when they tile a part of the interval.

    Where ticks wait in a queue that grows, gaps are not looked at. Where it shrinks again, ticks that are
    early make up for those that were late, and only buckets that came twice are faults.
    """
    start_ms, end_ms = part.start_ms, part.end_ms
    times: Times = ends["bucket_end_ms"].to_numpy()
    inside = (times > start_ms) & (times <= end_ms)
    if twice := int(ends["twice"].to_numpy()[inside].sum()):
        return f"{twice} buckets came twice"
    before, after = times[times <= start_ms], times[times > end_ms]
    edges = (
        before[-1] if before.size else start_ms,
        after[0] if after.size else max(end_ms, times[inside].max(initial=end_ms)),
    )
    at = np.unique(np.concatenate([[edges[0]], times[inside], [edges[1]]]))
    bucket_ms = bucket_s * 1000
    for since, until in pairwise(at) if waits == "never" else ():
        if until - since > MOST_GAP * bucket_ms and not _made_up(since, times[times >= until], bucket_ms):
            return (
                f"no bucket of {bucket_s:g} s for {(until - since) / 1000:.1f} s,"
                f" from {(since - first_ms) / 1000:.1f} s of the interval on"
            )
    if waits == "more-and-less":
        return ""
    covered = times[inside] if not before.size else np.concatenate([before[-1:], times[inside]])
    if covered.size and _surplus(covered, before[before < covered[0]], bucket_ms) > MOST_SURPLUS:
        return f"{len(covered) - 1} buckets of {bucket_s:g} s in {(covered[-1] - covered[0]) / 1000:.1f} s"
    return ""


def _made_up(since_ms: np.int64, ends_ms: Times, bucket_ms: float) -> bool:
    """Return True if the buckets after a long gap come so early that none is missing.

    Then the first of them was only late: a tick waits in its executor's queue behind the tuples. Those after
    it are on time.
    """
    next_ones = ends_ms[1 : 1 + MOST_LATE]
    fitting = (next_ones - since_ms) / bucket_ms - np.arange(2, 2 + len(next_ones))
    return bool((fitting <= MOST_GAP - 1).any())


def _surplus(covered: Times, before: Times, bucket_ms: float) -> float:
    """Buckets beyond those that fit, counted from where it makes the fewest: a late one is followed early."""
    begins = np.concatenate([before[-MOST_LATE:], covered[:1]])
    counts = len(covered) - 1 + np.arange(len(begins) - 1, -1, -1)
    return float((counts - (covered[-1] - begins) / bucket_ms).min())
