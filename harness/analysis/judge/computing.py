"""The results of one or many runs, computed in one Spark job; nothing of the runs is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from harness.analysis.judge import checks
from harness.analysis.judge.judging import all_judged, of_run
from harness.analysis.judge.predicting import predict
from harness.analysis.judge.relief import relief_points
from harness.analysis.judge.rescoring import linked_copy
from harness.analysis.judge.results import Results
from harness.analysis.judge.summary import matrices, summaries, summary
from harness.analysis.spark.inputs import Archive, RunRecord, read_raw, read_run
from harness.analysis.spark.placed_steps import latency_points, traffic_points
from harness.analysis.spark.session import spark_session
from harness.analysis.spark.stages import stages
from harness.analysis.spark.timeline import pace, timeline
from harness.runs import Run

Progress = Callable[[str], None]


def compute(spark: SparkSession, run: RunRecord) -> Results:
    """Return all that is drawn and written of a run, from its raw tables."""
    (found,) = compute_all(spark, [run])
    return found


def compute_all(spark: SparkSession, runs: Sequence[RunRecord]) -> Iterator[Results]:
    """Yield all that is drawn and written of runs, computed in one job."""
    source = Archive.of(runs)
    # Spark plans a query on one core; what needs nothing of the others is planned and run beside them.
    with ThreadPoolExecutor(max_workers=1) as beside:
        parts = beside.submit(stages, spark, source)
        over_time = beside.submit(timeline, spark, source)
        of_metrics = beside.submit(pace, spark, source)
        of_ten = beside.submit(latency_points, spark, source)
        crossing = beside.submit(traffic_points, spark, source)
        with all_judged(spark, source) as found:
            of_pairs = beside.submit(matrices, found.pairs)
            errors = summaries(found.pairs)
            cells = of_pairs.result()
            for place, run in enumerate(runs):
                own = found.runs[place]
                yield Results(
                    run=run,
                    summary=summary(run, checks.verdict(own.checks), errors.get(place, [])),
                    checks=own.checks,
                    pairs=own.pairs,
                    actuals=own.actuals,
                    matrices=of_run(cells, place, "source_step", "proposed_step"),
                    histogram=own.histogram,
                    stages=of_run(parts.result(), place),
                    timeline=of_run(over_time.result(), place),
                    pace=of_run(of_metrics.result(), place),
                    latency_points=of_run(of_ten.result(), place),
                    traffic_points=of_run(crossing.result(), place),
                    relief_points=relief_points(run),
                )


def results(
    paths: Sequence[Path], progress: Progress = lambda _: None, master: str | None = None
) -> list[Results]:
    """Return the results of runs, all computed in one Spark job; nothing is written.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable, foreign or of a newer schema.
    """
    rows = sum(read_raw(path).rows for path in paths)  # every mistake is found before Spark is started
    with (
        ThreadPoolExecutor(max_workers=1) as aside,
        spark_session(rows, master, remember_classes=True, aside=aside) as spark,
        ExitStack() as copies,
    ):
        ready = [copies.enter_context(predicted(path, progress)) for path in paths]
        progress(f"computing {len(ready)} run{'s' * (len(ready) > 1)} with Spark")
        return list(compute_all(spark, [read_run(path) for path in ready]))


@contextmanager
def predicted(path: Path, progress: Progress = lambda _: None) -> Iterator[Path]:
    """Give the run, or where it has no predictions a copy of it that has."""
    if (path / "predictions.parquet").is_file():
        yield path
        return
    with linked_copy(path) as copy:
        progress(f"{path}: predicting")
        predict(Run(copy))
        yield copy
