"""The last seasons of submitted topologies, kept for pages: what spouts emitted, summed over long buckets.

A part of it is read at a time, the newest first, so that no look at a page waits for days of metrics. From
then on only new buckets are read.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.observing import RowSpan
from harness.app.submitted.spout_history import EmittedMetrics, last_whole_ms
from harness.experiments.watching import AGAIN_S
from harness.forecasts.seasons import bucket_length_s, past_needed_s
from harness.schemas import METRICS

BUCKETS = 720
"""The whole past has so many at most."""
AT_ONCE_S = 6 * 3600.0
"""Longest time that is read at once."""
MOST_TOPOLOGIES = 8
"""Whose rows and past are kept in memory."""
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class SpoutPast:
    """The tuples that spouts emitted in the last seasons, as far as read; the same object until more is read.

    Attributes
    ----------
    rows : Table
        Of schema ``harness.schemas.METRICS``.
    span : RowSpan
    bucket_s : float
    """

    rows: pa.Table
    span: RowSpan
    bucket_s: float


class NewestReadings(Generic[Kept]):
    """The newest reading of each topology; one is read by one thread at a time, others meanwhile.

    The topology that nobody looked at for longest is forgotten, where there are too many.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: dict[str, threading.Lock] = {}
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def renew(self, key: str, read: Callable[[Kept | None], Kept]) -> Kept:
        """Keep a topology's new reading, and return it; who asks for the same one meanwhile waits.

        Parameters
        ----------
        key : str
            The topology.
        read : callable
            Returns the new reading, given the one that was kept.

        Examples
        --------
        >>> readings: NewestReadings[int] = NewestReadings()
        >>> [readings.renew("words", lambda before: 1 if before is None else before + 1) for _ in range(3)]
        [1, 2, 3]
        >>> for number in range(MOST_TOPOLOGIES):
        ...     _ = readings.renew(f"topology-{number}", lambda before: 0)
        >>> readings.renew("words", lambda before: 1 if before is None else before + 1)
        1
        """
        with self._lock:
            reading = self._reading.setdefault(key, threading.Lock())
        with reading:  # a server that is slow keeps nobody from another one
            with self._lock:
                before = self._kept.get(key)
            made = read(before)
            with self._lock:
                self._kept[key] = made
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_TOPOLOGIES:
                    self._kept.popitem(last=False)
            return made


class LivePasts:
    """The past of topologies whose traffic has seasons.

    Parameters
    ----------
    metrics : EmittedMetrics
        Where it is read.
    """

    def __init__(self, metrics: EmittedMetrics) -> None:
        self._metrics = metrics
        self._kept: NewestReadings[SpoutPast] = NewestReadings()

    def of(self, topology: SubmittedTopology) -> SpoutPast:
        """Return the past of a topology, longer by what one reading brings.

        Raises
        ------
        UsageError
            When there is no token, or the server refuses it.
        ClusterError
            When the server does not answer.
        """
        key, facts = str(topology.path), topology.facts
        reported_s, needed_s = float(topology.experiment.measure.bucket_s), past_needed_s(facts.season_s)
        bucket_s = bucket_length_s(reported_s, needed_s / BUCKETS, facts.season_s)

        def read(past: SpoutPast | None) -> SpoutPast:
            until_ms = last_whole_ms(reported_s, bucket_s)
            since_ms = max(until_ms - round(needed_s * 1e3), facts.at_epoch_ms)
            if past is None or until_ms - past.span.until_ms > 2 * _at_once_ms(bucket_s):
                past = SpoutPast(METRICS.empty_table(), RowSpan(until_ms, until_ms), bucket_s)
            return self._longer(topology, past, RowSpan(since_ms, until_ms))

        return self._kept.renew(key, read)  # several pages ask once

    def _longer(self, topology: SubmittedTopology, past: SpoutPast, wanted: RowSpan) -> SpoutPast:
        """Return a past with the buckets that are over since, and with a part of those before it."""
        bucket_ms = round(past.bucket_s * 1e3)
        first_ms, last_ms = past.span
        missing: list[RowSpan] = []
        if last_ms < wanted.until_ms:
            again_ms = bucket_ms * math.ceil(AGAIN_S * 1e3 / bucket_ms)
            last_ms = max(first_ms, last_ms - again_ms)
            missing.append(RowSpan(last_ms, wanted.until_ms))
        if wanted.since_ms < first_ms:
            missing.append(RowSpan(max(wanted.since_ms, first_ms - _at_once_ms(past.bucket_s)), first_ms))
        if not missing:
            return past
        spouts: Sequence[str] = topology.plan.plan.query_plan.spouts
        read = [self._metrics.emitted(topology, spouts, *span, past.bucket_s) for span in missing]
        ends = past.rows["bucket_end_ms"]
        kept = past.rows.filter(pc.and_(pc.greater(ends, wanted.since_ms), pc.less_equal(ends, last_ms)))
        begin_ms = max(wanted.since_ms, min(first_ms, *(span.since_ms for span in missing)))
        return SpoutPast(
            rows=pa.concat_tables([kept, *read]).unify_dictionaries(),
            span=RowSpan(begin_ms, wanted.until_ms),
            bucket_s=past.bucket_s,
        )


def _at_once_ms(bucket_s: float) -> int:
    return round(bucket_s * 1e3) * max(1, int(AT_ONCE_S / bucket_s))
