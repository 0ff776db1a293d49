"""Throughput of every step, and the highest rate that a configuration sustains.

A configuration that was measured at several input rates, at some of which the backlog grew, has its limit
between the highest rate without growth and the lowest with it. The middle of this bracket is taken for the
limit. The error is the bracket's width over the square root of 12, since the limit may lie anywhere in it
with equal chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.analysis.spark.inputs import RunRecord, StepRecord
from harness.analysis.spark.latencies import Actual
from harness.schemas import Measure


def throughput(run: RunRecord) -> Iterator[Actual]:
    """Yield the messages a second that came out in every step's interval."""
    for s in run.steps:
        found = s.quality.backlog
        yield Actual(
            s.index,
            Measure.THROUGHPUT,
            "mean",
            found.throughput_tps if found else None,
            within=found.throughput_error_tps if found else None,
            n=0 if found is None else found.throughput_tps * (s.interval.end_ns - s.interval.start_ns) / 1e9,
            note="" if found else s.quality.absent.get("backlog", "measured before throughput was kept"),
        )


def sustainable_rate(run: RunRecord) -> Iterator[Actual]:
    """Yield the limit of every step's configuration, the same for all steps that have it."""
    ramps: dict[str, list[StepRecord]] = {}
    for s in run.steps:
        placement = s.plan.placement
        where = "" if placement is None else placement.digest
        ramps.setdefault(s.plan.asked.model_dump_json() + where, []).append(s)
    for steps in ramps.values():
        limit, error, note = bracket(
            [s.interval.rate_tps for s in steps if not s.changes and not s.quality.saturated and _steady(s)],
            [s.interval.rate_tps for s in steps if not s.changes and s.quality.saturated],
        )
        for s in steps:
            yield Actual(s.index, Measure.SUSTAINABLE, "mean", limit, within=error, n=len(steps), note=note)


def _steady(step: StepRecord) -> bool:
    return step.quality.steady.ok and step.interval.burn_in.found


def bracket(steady: list[float], saturated: list[float]) -> tuple[float | None, float | None, str]:
    """Return the limit between rates with and without growth, its standard error, or why both are missing.

    Examples
    --------
    >>> bracket([80.0, 100.0], [110.0, 150.0])[0]
    105.0
    """
    if not saturated:
        return None, None, f"not saturated at up to {max(steady):g} messages/s" if steady else "not measured"
    if not steady:
        return None, None, f"saturated from {min(saturated):g} messages/s on, the lowest rate measured"
    low, high = max(steady), min(saturated)
    if low >= high:
        return None, None, f"steady at {low:g} messages/s and saturated at {high:g}: no limit between them"
    return (low + high) / 2, (high - low) / math.sqrt(12), ""
