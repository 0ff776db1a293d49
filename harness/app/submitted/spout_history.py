"""The tuples that a submitted topology's components emitted: a long past, in buckets that are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from harness.app.submitted.folder import SubmittedTopology, now_ms
from harness.errors import UsageError
from harness.experiments.watching import REPORTED_S
from harness.forecasts.histories import SubjectHistory, histories_of_metrics
from harness.forecasts.seasons import bucket_length_s, past_needed_s

MOST_BUCKETS = 3600
"""Buckets of a history; a longer time has longer ones."""
SOURCE_HOURS = 24.0
"""So much history is read where nobody asks for more, and no season needs more."""


class EmittedMetrics(Protocol):
    """Where what components emitted is read (``harness.app.submitted.live_rows.LiveMetrics``)."""

    def emitted(
        self,
        topology: SubmittedTopology,
        components: Sequence[str],
        since_ms: int,
        until_ms: int,
        bucket_s: float,
    ) -> pa.Table:
        """Return what components emitted in a span, summed over buckets."""
        ...


def hours_needed(season_s: Sequence[float]) -> float:
    """Return the hours of history that are read where none are asked for.

    Examples
    --------
    >>> hours_needed(()), hours_needed((86_400.0,))
    (24.0, 72.0)
    """
    return max(SOURCE_HOURS, past_needed_s(season_s) / 3600)


def last_whole_ms(reported_s: float, bucket_s: float) -> int:
    """Return the end of the last bucket that all have reported, a whole multiple of its length."""
    until_ms = now_ms() - round((reported_s + REPORTED_S) * 1e3)
    return until_ms - until_ms % round(bucket_s * 1e3)


def read_history(
    topology: SubmittedTopology,
    metrics: EmittedMetrics,
    components: Sequence[str],
    source_hours: float,
    bucket_s: float,
    season_s: Sequence[float],
) -> list[SubjectHistory]:
    """Return what components emitted since the topology is up, at most so many hours, by task and stream.

    Buckets are whole multiples of those that are reported. They are longer than asked where there would be
    more than ``MOST_BUCKETS``, or where a season is no multiple of them.

    Parameters
    ----------
    components : sequence of str
        The spouts where there are none.
    season_s : sequence of float
        Of the traffic.

    Raises
    ------
    UsageError
        When a component is not one of the topology's, or emitted nothing.
    ClusterError
        When InfluxDB is away.
    """
    if not 0 < bucket_s < math.inf:
        raise UsageError(f"buckets of {bucket_s} s", "a bucket is longer than 0 s")
    plan = topology.plan.plan.query_plan
    names = [component.name for component in plan.components]
    for name in components:
        if name not in names:
            raise UsageError(f"{topology.name} has no component {name}", f"it has {', '.join(names)}")
    reported_s = float(topology.experiment.measure.bucket_s)
    until_ms = last_whole_ms(reported_s, reported_s)
    since_ms = max(until_ms - round(source_hours * 3_600_000), topology.facts.at_epoch_ms)
    least_s = max(bucket_s, (until_ms - since_ms) / 1e3 / MOST_BUCKETS)
    length_s = bucket_length_s(reported_s, least_s, season_s)
    until_ms -= until_ms % round(length_s * 1e3)
    if until_ms <= since_ms:
        raise UsageError(f"no history: {topology.name} has no bucket of {length_s:g} s yet", "ask again then")
    asked = components or plan.spouts
    rows = metrics.emitted(topology, asked, since_ms, until_ms, length_s)
    return histories_of_metrics(rows.to_pandas(), asked, since_ms, until_ms, length_s)
