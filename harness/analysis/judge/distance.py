"""Distance of two steps, which a prediction has to bridge."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analysis.spark.inputs import StepRecord


def distances(steps: Sequence[StepRecord]) -> dict[tuple[int, int], float]:
    """Return the distance of every pair of steps, in doublings.

    The distance of two steps is the mean, over the query plan's components, of how often the number of
    executors doubles or halves. The doublings of the number of workers and of the input rate are added to it.
    Where executors are placed does not count. From 1 executor each to 4 each on as many workers is 2; at
    twice the rate it is 3.
    """
    return {(a.index, b.index): distance(a, b) for a in steps for b in steps}


def distance(first: StepRecord, second: StepRecord) -> float:
    """Return the distance of two steps (see ``distances``)."""
    plans = first.plan.start, second.plan.start
    components = [c.name for c in plans[0].query_plan.components]
    executors = [abs(math.log2(len(plans[1].of(c)) / len(plans[0].of(c)))) for c in components]
    workers = abs(math.log2(len(plans[1].workers) / len(plans[0].workers)))
    rates = first.interval.rate_tps, second.interval.rate_tps
    rate = abs(math.log2(rates[1] / rates[0])) if min(rates) > 0 else 0.0
    return round(sum(executors) / len(executors) + workers + rate, 6)
