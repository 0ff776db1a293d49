"""From a run's raw tables to its judged pairs: what was measured, the checks, and every error, in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from harness.analysis import capacity, checks, counters, distribution, errors, latencies, tables
from harness.analysis.inputs import RunRecord
from harness.protocols import CheckResult


@dataclass(frozen=True)
class Judged:
    """What a run's raw tables say.

    Attributes
    ----------
    checks : tuple of CheckResult
        Whether the measurement can be used, check by check.
    histogram : DataFrame
        The latencies' distributions (``distribution.histogram``).
    actuals : DataFrame
        What was measured, with noise (``errors.actuals``).
    pairs : Spark DataFrame
        Every prediction beside what was measured (``errors.pairs``), kept while the block lasts.
    """

    checks: tuple[CheckResult, ...]
    histogram: pd.DataFrame
    actuals: pd.DataFrame
    pairs: DataFrame


@contextmanager
def judged(spark: SparkSession, run: RunRecord) -> Iterator[Judged]:
    """Give what a run's raw tables say; Spark's copies of it go when the block ends."""
    histogram = distribution.histogram(spark, run)
    totals = counters.total(spark, run)
    kept = [totals.sums, totals.covered]
    try:
        silent = counters.silent_tasks(run, totals)
        samples = {s.index: checks.Samples.of(histogram, s.index, silent[s.index]) for s in run.steps}
        checked = checks.run_checks(run, samples)
        found = [
            *latencies.ground_truth(spark, run, histogram),
            *latencies.thesis_ground_truth(spark, run),
            *(a for s in run.steps for a in latencies.complete(s)),
            *capacity.throughput(run),
            *capacity.sustainable_rate(run),
        ]
        measured = errors.actuals(spark, run, found, counters.measures(spark, run, totals)).persist()
        pairs = errors.pairs(spark, run, measured, checks.unusable(checked)).persist()
        kept += [measured, pairs]
        yield Judged(checked, histogram, tables.collect_frame(measured, "what was measured"), pairs)
    finally:
        for cached in kept:
            cached.unpersist()
