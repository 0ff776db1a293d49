"""The analysis of one run: from its raw tables to errors, summary, verdict, figures and report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from harness.analysis import checks, tables
from harness.analysis.inputs import Archive, RunRecord, read_run
from harness.analysis.judging import all_judged, of_run
from harness.analysis.results import Results
from harness.analysis.session import spark_session
from harness.analysis.stages import stages
from harness.analysis.summary import Summary, matrices, summaries, summary
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
        write(results, run.path, pages.result().write)
    return results.summary


def write(results: Results, run_path: Path, write_pages: Callable[[Results, Path], None]) -> None:
    """Write a run's outputs, whole or not at all; ``write_pages`` is that of ``pages``."""
    with _all_or_nothing(run_path) as folder:
        pq.write_table(results.pairs, folder / "errors.parquet", compression="zstd")
        _write_json(folder / "summary.json", results.summary)
        _write_json(folder / "verdict.json", verdict_json(results.summary["verdict"], results.checks))
        write_pages(results, folder)


def compute(spark: SparkSession, run: RunRecord) -> Results:
    """Return all that is drawn and written of a run, from its raw tables."""
    (found,) = compute_all(spark, [run])
    return found


def compute_all(spark: SparkSession, runs: Sequence[RunRecord]) -> Iterator[Results]:
    """Yield all that is drawn and written of runs, computed in one job; pair tables come one at a time."""
    source = Archive.of(runs)
    # Spark plans a query on one core; what needs nothing of the others is planned and run beside them.
    with ThreadPoolExecutor(max_workers=1) as beside:
        parts = beside.submit(stages, spark, source)
        over_time = beside.submit(timeline, spark, source)
        of_metrics = beside.submit(pace, spark, source)
        with all_judged(spark, source) as found:
            of_pairs = beside.submit(matrices, found.pairs)
            errors = summaries(found.pairs)
            cells = of_pairs.result()
            for place, run in enumerate(runs):
                own = found.of(place)
                yield Results(
                    run=run,
                    summary=summary(run, checks.verdict(own.checks), errors.get(place, [])),
                    checks=own.checks,
                    pairs=tables.collect(own.pairs, "pair table").cast(ERRORS),
                    actuals=own.actuals,
                    matrices=of_run(cells, place, "source_step", "proposed_step"),
                    histogram=own.histogram,
                    stages=of_run(parts.result(), place),
                    timeline=of_run(over_time.result(), place),
                    pace=of_run(of_metrics.result(), place),
                )


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
