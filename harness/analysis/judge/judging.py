"""From raw tables to judged pairs: what was measured, the checks, and every error, in Spark.

One job analyses one run or many: the steps of all runs are read and counted together, told apart by their
numbers (``inputs.STEP_NUMBERS``).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis.judge import capacity, checks, raw_steps
from harness.analysis.judge import pairs as errors
from harness.analysis.judge.samples import Samples
from harness.analysis.spark import counters, distribution, latencies, tables
from harness.analysis.spark.inputs import STEP_NUMBERS, Archive, RunRecord, Source
from harness.protocols import CheckResult


@dataclass(frozen=True)
class Judged:
    """Judgement of a run's raw tables.

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


@dataclass(frozen=True)
class AllJudged:
    """Judgement of the raw tables of a job's runs: as ``Judged``, with the job's numbers of the steps."""

    source: Source
    checks: tuple[tuple[CheckResult, ...], ...]
    histogram: pd.DataFrame
    actuals: pd.DataFrame
    pairs: DataFrame

    def of(self, place: int) -> Judged:
        """Return one run's part, with the run's own numbers of its steps."""
        actuals = of_run(self.actuals, place).drop(columns="run")
        pairs = self.pairs
        if len(self.source.runs) > 1:
            first = place * STEP_NUMBERS
            own = {k: sf.col(k) - first for k in ("source_step", "proposed_step")}
            pairs = pairs.where(errors.run_of("proposed_step") == place).withColumns(own)
        return Judged(self.checks[place], of_run(self.histogram, place), actuals, pairs)


def of_run(rows: pd.DataFrame, place: int, *columns: str) -> pd.DataFrame:
    """Return a run's part of a table of several runs, with the run's own numbers in the columns of steps."""
    steps = columns or ("step",)
    mine = rows[rows[steps[0]] // STEP_NUMBERS == place]
    return mine.assign(**{k: mine[k] % STEP_NUMBERS for k in steps}).reset_index(drop=True)


@contextmanager
def judged(spark: SparkSession, run: RunRecord) -> Iterator[Judged]:
    """Give what a run's raw tables say; Spark's copies of it go when the block ends."""
    with all_judged(spark, Archive.of([run])) as found:
        yield found.of(0)


@contextmanager
def all_judged(spark: SparkSession, source: Source) -> Iterator[AllJudged]:
    """Give the judgement of a job's raw tables; Spark's copies of it go when the block ends."""
    totals = counters.total(spark, source)
    measures = counters.measures(spark, source, totals).persist()
    kept = [totals.sums, totals.covered, measures]
    try:
        # Spark plans a query on one core: what the metrics say is counted beside what the latencies say.
        with ThreadPoolExecutor(max_workers=1) as beside:
            counted = beside.submit(measures.count)
            histogram = distribution.histogram(spark, source)
            of_latency = [
                *latencies.ground_truth(spark, source, histogram),
                *latencies.thesis_ground_truth(spark, source),
                *(a for s in source.steps for a in latencies.complete(s)),
                *(a for run in source.runs for a in capacity.throughput(run)),
                *(a for run in source.runs for a in capacity.sustainable_rate(run)),
            ]
            counted.result()
        silent = counters.silent_tasks(source, totals)
        checked = tuple(_checks(run, of_run(histogram, run.place), silent) for run in source.runs)
        unusable = {
            run.place * STEP_NUMBERS + step: why
            for run, results in zip(source.runs, checked, strict=True)
            for step, why in checks.unusable(results, run.steps).items()
        }
        measured = errors.actuals(spark, source, of_latency, measures).persist()
        pairs = errors.pairs(spark, source, measured, unusable).persist()
        kept += [measured, pairs]
        actuals = tables.collect_frame(measured, "what was measured")
        yield AllJudged(source, checked, histogram, actuals, pairs)
    finally:
        for cached in kept:
            cached.unpersist()


def _checks(
    run: RunRecord, histogram: pd.DataFrame, silent: dict[int, tuple[int, ...]]
) -> tuple[CheckResult, ...]:
    """Carry out a run's checks, with its own numbers of its steps."""
    own = run.numbered(0)
    counted = dict(iter(histogram.groupby("step")))
    nothing = histogram.iloc[:0]
    samples = {
        mine.index: Samples.of(
            counted.get(mine.index, nothing), mine.index, silent[s.index], *raw_steps.evidence(mine)
        )
        for mine, s in zip(own.steps, run.steps, strict=True)
    }
    return checks.run_checks(own, samples)
