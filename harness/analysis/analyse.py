"""The analysis of one run: from its raw tables to errors, summary, verdict, figures and report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from harness.analysis import checks, tables
from harness.analysis.inputs import RunRecord, read_run
from harness.analysis.judging import judged
from harness.analysis.results import Results
from harness.analysis.session import spark_session
from harness.analysis.stages import stages
from harness.analysis.summary import Summary, matrices, summarise, summary
from harness.analysis.timeline import pace, timeline
from harness.protocols import CheckResult
from harness.schemas import ERRORS, SCHEMA_VERSION

OUTPUTS = ("errors.parquet", "summary.json", "verdict.json", "figures", "report.html")


def analyse(run_dir: Path, master: str | None = None) -> Summary:
    """Judge the run's predictions by what was measured; write all outputs, whole or not at all.

    Parameters
    ----------
    run_dir : Path
        A run directory with ``predictions.parquet``. Only its files are read.
    master : str, optional
        A Spark master; by default ``local[2]``, or what ``SPARK_REMOTE`` names.

    Returns
    -------
    Summary
        The contents of ``summary.json``.

    Raises
    ------
    UsageError
        When a file is missing, unreadable or not of the declared schema; nothing is written then.
    """
    run = read_run(run_dir)
    with ThreadPoolExecutor(max_workers=1) as aside:
        # Spark's JVM takes as long to start as the plotting libraries to import: neither waits for the other.
        pages = aside.submit(import_module, "harness.analysis.pages")
        with spark_session(run.rows, master, remember_classes=True, aside=aside) as spark:
            results = compute(spark, run)
        with _all_or_nothing(run.path) as folder:
            pq.write_table(results.pairs, folder / "errors.parquet", compression="zstd")
            _write_json(folder / "summary.json", results.summary)
            _write_json(folder / "verdict.json", verdict_json(results.summary["verdict"], results.checks))
            pages.result().write(results, folder)
    return results.summary


def compute(spark: SparkSession, run: RunRecord) -> Results:
    """Return all that is drawn and written of a run, from its raw tables."""
    # Spark plans a query on one core; what needs nothing of the others is planned and run beside them.
    with ThreadPoolExecutor(max_workers=1) as beside:
        parts = beside.submit(stages, spark, run)
        over_time = beside.submit(timeline, spark, run, bucket_s(run))
        of_metrics = beside.submit(pace, spark, run, bucket_s(run))
        with judged(spark, run) as found:
            return Results(
                run=run,
                summary=summary(run, checks.verdict(found.checks), summarise(found.pairs)),
                checks=found.checks,
                pairs=tables.collect(found.pairs, "pair table").cast(ERRORS),
                actuals=found.actuals,
                matrices=matrices(found.pairs),
                histogram=found.histogram,
                stages=parts.result(),
                timeline=over_time.result(),
                pace=of_metrics.result(),
            )


def bucket_s(run: RunRecord) -> float:
    """Return the length of the metric buckets, which the timeline's are drawn with; 2 s if not stated."""
    measure = run.experiment.get("measure")
    return float(measure["bucket_s"]) if isinstance(measure, Mapping) and "bucket_s" in measure else 2.0


def verdict_json(verdict: str, results: Sequence[CheckResult]) -> dict[str, object]:
    """Return the contents of ``verdict.json``."""
    return {"schema": SCHEMA_VERSION, "verdict": verdict, "checks": [asdict(r) for r in results]}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@contextmanager
def _all_or_nothing(run_path: Path) -> Iterator[Path]:
    """Give a folder whose contents replace the run's old outputs when the block ends well."""
    folder = run_path / ".analysis.partial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
        for name in OUTPUTS:
            target = run_path / name
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(folder / name, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
