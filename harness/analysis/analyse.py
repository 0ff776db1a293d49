"""The analysis of one run: from its raw tables to errors, summary, verdict, figures and report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.analysis.judge.computing import compute
from harness.analysis.judge.predicted_with import KEY, stamped
from harness.analysis.judge.results import Results
from harness.analysis.judge.summary import Summary
from harness.analysis.spark.inputs import read_run
from harness.analysis.spark.session import spark_session
from harness.machine.whole_files import own_folder
from harness.protocols import CheckResult, CheckWritten, Verdict, VerdictWritten
from harness.runs import judged_alone
from harness.schemas import SCHEMA_VERSION

OUTPUTS = ("errors.parquet", "summary.json", "figures", "report.html", "verdict.json")
"""The verdict is the last: a run that has one has all of them, of the same analysis."""


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
        When a file is missing, unreadable or not of the declared schema, or another process judges the run;
        nothing is written then.
    """
    run = read_run(run_dir)
    with judged_alone(run.path), ThreadPoolExecutor(max_workers=1) as aside:
        # Spark's JVM takes as long to start as the plotting libraries to import: neither waits for the other.
        pages = aside.submit(import_module, "harness.analysis.report.writing")
        with spark_session(run.rows, master, remember_classes=True, aside=aside) as spark:
            results = compute(spark, run)
        write(results, run.path, pages.result().write)
    return results.summary


def write(results: Results, run_path: Path, write_pages: Callable[[Results, Path], None]) -> None:
    """Write a run's outputs, whole or not at all; ``write_pages`` is that of ``pages``."""
    with _all_or_nothing(run_path) as folder:
        _write_pairs(results.pairs, run_path / "predictions.parquet", folder / "errors.parquet")
        _write_json(folder / "summary.json", results.summary)
        _write_json(folder / "verdict.json", verdict_json(results.summary["verdict"], results.checks))
        write_pages(results, folder)


def _write_pairs(pairs: pa.Table, predictions: Path, target: Path) -> None:
    """Write judged pairs with the stamp of the predictions that they are of."""
    stamp = {KEY: json.dumps(stamped(predictions)).encode()}
    pairs = pairs.replace_schema_metadata({**(pairs.schema.metadata or {}), **stamp})
    pq.write_table(pairs, target, compression="zstd")


def verdict_json(verdict: Verdict, results: Sequence[CheckResult]) -> VerdictWritten:
    """Return the contents of ``verdict.json``."""
    checks: list[CheckWritten] = [
        {"check": r.check, "status": r.status, "step": r.step, "detail": r.detail} for r in results
    ]
    return {"schema": SCHEMA_VERSION, "verdict": verdict, "checks": checks}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@contextmanager
def _all_or_nothing(run_path: Path) -> Iterator[Path]:
    """Give a folder whose contents replace the run's old outputs when the block ends well."""
    with own_folder(run_path, "analysis") as folder:
        yield folder
        (run_path / "verdict.json").unlink(missing_ok=True)  # one killed from here on leaves none
        for name in OUTPUTS:
            target = run_path / name
            if target.is_dir():
                shutil.rmtree(target)
            os.replace(folder / name, target)
