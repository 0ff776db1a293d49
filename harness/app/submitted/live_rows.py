"""The last minutes of a submitted topology's metrics, read once for however many look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from harness.app.store_sender import given_store
from harness.app.submitted.folder import SubmittedTopology, now_ms
from harness.app.submitted.live_past import LivePasts, NewestReadings, SpoutPast
from harness.app.submitted.observing import RowSpan
from harness.experiments.watching import AGAIN_S
from harness.schemas import METRICS

WINDOW_S = 300.0
"""Length of the past that is shown."""
FRESH_S = 3.0
"""Rows that were read so short ago are shown again."""
PATIENCE_S = 2.0
"""A page says soon that a server is away."""


class LiveRows(NamedTuple):
    """Rows of a span."""

    table: pa.Table
    span: RowSpan


class LiveMetrics:
    """The last rows of submitted topologies."""

    def __init__(self) -> None:
        self._kept: NewestReadings[LiveRows] = NewestReadings()
        self._pasts = LivePasts(self)

    def rows(self, topology: SubmittedTopology) -> LiveRows:
        """Return the rows of the last minutes; only what may have come since the last time is asked for.

        Raises
        ------
        UsageError
            When there is no token, or the server refuses it.
        ClusterError
            When the server does not answer.
        """

        def read(before: LiveRows | None) -> LiveRows:
            until_ms = now_ms()
            if before is not None and until_ms - before.span.until_ms < FRESH_S * 1e3:
                return before
            since_ms = until_ms - round(WINDOW_S * 1e3)
            table = METRICS.empty_table() if before is None else before.table
            read_ms = (
                since_ms if before is None else max(since_ms, before.span.until_ms - round(AGAIN_S * 1e3))
            )
            with given_store(topology.experiment.metrics, topology.name, PATIENCE_S) as store:
                new = store.read(read_ms, until_ms)
            end = table["bucket_end_ms"]
            old = table.filter(pc.and_(pc.greater(end, since_ms), pc.less_equal(end, read_ms)))
            return LiveRows(pa.concat_tables([old, new]).unify_dictionaries(), RowSpan(since_ms, until_ms))

        return self._kept.renew(str(topology.path), read)  # several pages ask once

    def past(self, topology: SubmittedTopology) -> SpoutPast | None:
        """Return what spouts emitted in the last seasons; None where the traffic has none.

        Raises
        ------
        UsageError, ClusterError
            As ``rows``.
        """
        return self._pasts.of(topology) if topology.facts.season_s else None

    def before(self, topology: SubmittedTopology, span: RowSpan) -> LiveRows:
        """Return the last minutes of a span that is over.

        Raises
        ------
        UsageError, ClusterError
            As ``rows``.
        """
        last = RowSpan(max(span.since_ms, span.until_ms - round(WINDOW_S * 1e3)), span.until_ms)
        with given_store(topology.experiment.metrics, topology.name, PATIENCE_S) as store:
            return LiveRows(store.read(*last), last)

    def emitted(
        self,
        topology: SubmittedTopology,
        components: Sequence[str],
        since_ms: int,
        until_ms: int,
        bucket_s: float,
    ) -> pa.Table:
        """Return what components emitted in a span that may be long, summed over buckets.

        Raises
        ------
        UsageError
            When there is no token, or the server refuses it.
        ClusterError
            When the server does not answer.
        """
        with given_store(topology.experiment.metrics, topology.name, PATIENCE_S) as store:
            return store.emitted(components, since_ms, until_ms, round(bucket_s * 1e3))
