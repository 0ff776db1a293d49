"""From raw tables to judged pairs: Spark's sums, the checks, what was measured, and every error.

One job analyses one run or many: the steps of all runs are read and counted together, told apart by their
numbers (``inputs.STEP_NUMBERS``). What is left after that is small, and judged run by run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from harness.analysis.judge import capacity, checks, raw_steps
from harness.analysis.judge.arithmetic import StepStates
from harness.analysis.judge.pairs import actuals, pairs
from harness.analysis.judge.samples import Samples
from harness.analysis.spark import counters, distribution, latencies, tables
from harness.analysis.spark.inputs import STEP_NUMBERS, Archive, RunRecord, Source
from harness.protocols import CheckResult
from harness.runs import read_table
from harness.schemas import PREDICTIONS


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
        What was measured, with noise (``pairs.actuals``).
    pairs : Table
        Every prediction beside what was measured (``pairs.pairs``).
    """

    checks: tuple[CheckResult, ...]
    histogram: pd.DataFrame
    actuals: pd.DataFrame
    pairs: pa.Table


@dataclass(frozen=True)
class AllJudged:
    """Judgement of the raw tables of a job's runs.

    Attributes
    ----------
    runs : tuple of Judged
        Each with the run's own numbers of its steps.
    pairs : Spark DataFrame
        The pair tables of all, with the job's numbers of the steps, kept while the block lasts.
    """

    runs: tuple[Judged, ...]
    pairs: DataFrame


def of_run(rows: pd.DataFrame, place: int, *columns: str) -> pd.DataFrame:
    """Return a run's part of a table of several runs, with the run's own numbers in the columns of steps."""
    steps = columns or ("step",)
    mine = rows[rows[steps[0]] // STEP_NUMBERS == place]
    return mine.assign(**{k: mine[k] % STEP_NUMBERS for k in steps}).reset_index(drop=True)


@contextmanager
def judged(spark: SparkSession, run: RunRecord) -> Iterator[Judged]:
    """Give what a run's raw tables say; Spark's copies of it go when the block ends."""
    with all_judged(spark, Archive.of([run])) as found:
        yield found.runs[0]


@contextmanager
def all_judged(spark: SparkSession, source: Source) -> Iterator[AllJudged]:
    """Give the judgement of a job's raw tables; Spark's copies of it go when the block ends."""
    totals = counters.total(spark, source)
    kept = [totals.sums, totals.covered]
    try:
        # Spark plans a query on one core: what the metrics say is counted beside what the latencies say.
        with ThreadPoolExecutor(max_workers=1) as beside:
            measures = counters.measures(spark, source, totals)
            counting = beside.submit(tables.collect_frame, measures, "what was counted")
            histogram = distribution.histogram(spark, source)
            of_latency = pd.DataFrame(
                [
                    *latencies.ground_truth(spark, source, histogram),
                    *latencies.thesis_ground_truth(spark, source),
                    *(a for s in source.steps for a in latencies.complete(s)),
                    *(a for run in source.runs for a in capacity.throughput(run)),
                    *(a for run in source.runs for a in capacity.sustainable_rate(run)),
                ]
            )
            counted = counting.result()
        silent = counters.silent_tasks(source, totals)
        runs = tuple(
            _judged(
                run.numbered(0),
                of_run(histogram, run.place),
                of_run(of_latency, run.place),
                of_run(counted, run.place),
                {s.index % STEP_NUMBERS: silent[s.index] for s in run.steps},
            )
            for run in source.runs
        )
        every = pa.concat_tables(_numbered(run.pairs, place) for place, run in enumerate(runs))
        kept.append(spark.createDataFrame(every).persist())
        yield AllJudged(runs, kept[-1])
    finally:
        for cached in kept:
            cached.unpersist()


def _judged(
    run: RunRecord,
    histogram: pd.DataFrame,
    of_latency: pd.DataFrame,
    counted: pd.DataFrame,
    silent: Mapping[int, tuple[int, ...]],
) -> Judged:
    """Judge a run by its sums, with its own numbers of its steps."""
    by_step = dict(iter(histogram.groupby("step")))
    nothing = histogram.iloc[:0]
    checked = checks.run_checks(
        run,
        {
            s.index: Samples.of(
                by_step.get(s.index, nothing), s.index, silent[s.index], *raw_steps.evidence(s)
            )
            for s in run.steps
        },
    )
    measured = actuals(run, of_latency, counted)
    states = StepStates.of(run.steps, checks.unusable(checked, run.steps))
    predicted = read_table(run.path / "predictions.parquet", PREDICTIONS.names).cast(PREDICTIONS)
    return Judged(checked, histogram, measured, pairs(predicted.to_pandas(), measured, states))


def _numbered(of_run: pa.Table, place: int) -> pa.Table:
    """Return a run's pair table with the job's numbers of the steps."""
    for name in ("source_step", "proposed_step"):
        at = of_run.schema.get_field_index(name)
        numbers = pc.add(of_run[name], pa.scalar(place * STEP_NUMBERS, pa.int32()))
        of_run = of_run.set_column(at, of_run.schema.field(name), numbers)
    return of_run
