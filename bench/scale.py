"""How long the analysis takes for millions of samples: the queries on raw tables in Spark, and in DuckDB.

    python bench/scale.py make DIR/50 --samples 50 --metrics 10 --repeats 5      # millions of rows, 25 steps
    python bench/scale.py measure DIR/50
    python bench/scale.py predict DIR/50
    python bench/scale.py archive --runs 100 reports/runs/*/*

``measure`` carries out every query that reads raw tables by the analysis' own functions, and the same
queries in SQL in DuckDB (``scale_sql``), on as many threads; it prints both times side by side, and whether
both found the same. A query that one engine cannot carry out says why, and the rest stays. It also times the
whole way from raw tables to error matrices. Times are without Spark's start.
``predict`` carries out ``harness predict``, whose tables are those of one source step at a time, and fails
where its processes take more than 4 GiB.
``archive`` analyses many small runs in one job.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pandas as pd
from large_runs import CHAINS, Size, make
from process_memory import carry_out, peak_bytes
from pyspark import SparkContext
from pyspark.sql import SparkSession
from scale_figures import THREADS, WHOLE, Measured, Query, figures, lines
from scale_sql import (
    CHOSEN,
    COVERED,
    HISTOGRAM,
    KEPT,
    OUTPUTS,
    PACE,
    PERCENTILES,
    STAGES,
    SUMS,
    TIMELINE,
    database,
)

from harness.analysis.judge.computing import predicted
from harness.analysis.judge.judging import all_judged
from harness.analysis.judge.summary import matrices, summaries
from harness.analysis.spark import counters, distribution, latencies, stages, tables, timeline
from harness.analysis.spark.inputs import Archive, RunRecord, Source, read_run
from harness.analysis.spark.session import spark_session
from harness.schemas import PERCENTILES as FRACTION_OF

MEMORY = "2GB"
"""Of DuckDB, as much as Spark's driver may take."""
FRACTIONS = list(FRACTION_OF.values())


def _sums(spark: SparkSession, source: Source) -> pd.DataFrame:
    return tables.collect_frame(_total(spark, source).sums, "sums")


def _covered(spark: SparkSession, source: Source) -> pd.DataFrame:
    return tables.collect_frame(_total(spark, source).covered, "covered")


def _total(spark: SparkSession, source: Source) -> counters.Totals:
    """Return the sums, not kept: this is what is timed."""
    found = counters.total(spark, source)
    found.sums.unpersist()
    found.covered.unpersist()
    return found


class Percentiles:
    """Exact percentiles, which need the histogram."""

    def __init__(self) -> None:
        self.histogram = pd.DataFrame()

    def first(self, spark: SparkSession, source: Source) -> pd.DataFrame:
        """Count the latencies."""
        self.histogram = distribution.histogram(spark, source)
        return self.histogram

    def second(self, spark: SparkSession, source: Source) -> pd.DataFrame:
        """Find the order statistics."""
        found = distribution.exact_quantiles(spark, source, self.histogram, FRACTIONS)
        rows = [(step, fraction, ns) for (step, subject, fraction), ns in found.items() if subject == ""]
        return pd.DataFrame(rows, columns=["step", "fraction", "ns"])


def queries(windowed: bool) -> list[Query]:
    """Return all queries that read raw tables."""
    percentiles = Percentiles()
    thesis = OUTPUTS + (CHOSEN if windowed else "") + KEPT.format(outputs="chosen" if windowed else "members")
    return [
        Query("latency-histogram", percentiles.first, HISTOGRAM, ("step", "sink", "batch", "bin")),
        Query("exact-percentiles", percentiles.second, PERCENTILES, ("step", "fraction")),
        Query("thesis-outputs", latencies.thesis_counts, thesis, ("step", "batch")),
        Query("stages", stages.stages, STAGES, ("step", "component", "stage", "place", "batch", "bin")),
        Query("sketch-timeline", timeline.timeline, TIMELINE, ("step", "at_ns")),
        Query("metric-pace", _pace, PACE, ("step", "bucket")),
        Query(
            "metric-sums",
            _sums,
            SUMS,
            ("step", "executor", "worker", "measurement", "stream", "peer", "field", "batch"),
        ),
        Query("metric-cover", _covered, COVERED, ("step", "task", "batch")),
    ]


def _pace(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Return the pace with the bucket's number, which is what SQL gives."""
    found = timeline.pace(spark, source)
    offset_ns = {s.index: s.interval.start_ns - s.interval.start_epoch_ms * 1_000_000 for s in source.steps}
    width_ns = timeline.METRIC_BUCKETS * source.runs[0].bucket_s * 1e9
    at_ns = found["at_ns"] - found["step"].map(offset_ns)
    return found.assign(bucket=(at_ns // width_ns).astype("int64")).drop(columns="at_ns")


def warm(run: RunRecord) -> None:
    """Read every file once, so that neither engine waits for the disk where the memory holds them all."""
    for file in {p.stat().st_ino: p for s in run.steps for p in s.folder.glob("*.parquet")}.values():
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass


def driver_mb() -> float:
    """Return the most memory of Spark's JVM so far; 0 where it is another machine's."""
    gateway = SparkContext._gateway
    return peak_bytes(gateway.proc.pid) / 2**20 if gateway is not None else 0.0


def measure_spark(run: RunRecord, asked: Sequence[Query], master: str | None) -> Measured:
    """Time every query, then the whole analysis; note the memory of the driver."""
    measured = Measured()
    with spark_session(run.rows, master) as spark:
        spark.range(1).count()
        for query in asked:
            measured.add(query.name, lambda query=query: query.spark(spark, run))
        measured.add(WHOLE, lambda: _judge(spark, run))
        measured.memory_mb["driver"] = driver_mb()
    measured.memory_mb["python"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return measured


def _judge(spark: SparkSession, run: RunRecord) -> pd.DataFrame:
    """Return the error matrices, from raw tables."""
    with all_judged(spark, Archive.of([run])) as judged:
        summaries(judged.pairs)
        return matrices(judged.pairs)


def measure_duckdb(run: RunRecord, asked: Sequence[Query], memory: str = MEMORY) -> Measured:
    """Time every query, in so much memory; what has no place in it goes to a temporary folder."""
    measured = Measured()
    with tempfile.TemporaryDirectory(prefix="duckdb-") as folder:
        db = database(run, Path(folder), THREADS, memory)
        for query in asked:
            measured.add(query.name, lambda query=query: db.execute(query.sql).fetch_df())
        db.close()
    return measured


@click.group()
def main() -> None:
    """Measure how the analysis scales."""


@main.command("make")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--samples", default=50.0, show_default=True, help="Latency samples, in millions.")
@click.option("--metrics", default=10.0, show_default=True, help="Metric rows, in millions.")
@click.option("--repeats", default=1, show_default=True, help="Of every step, as links to the same files.")
@click.option("--topology", type=click.Choice(list(CHAINS)), default="fields-to-fields", show_default=True)
def make_run(path: Path, samples: float, metrics: float, repeats: int, topology: str) -> None:
    """Make a run directory of so many rows."""
    if path.exists():
        raise click.UsageError(f"{path}: is there already")
    begun = time.perf_counter()
    run = read_run(make(path, Size(round(samples * 1e6), round(metrics * 1e6), repeats, topology)))
    stored = sum({p.stat().st_ino: p.stat().st_size for p in path.rglob("*.parquet")}.values())
    rows = [sum(getattr(s, k) for s in run.steps) for k in ("latency_rows", "metrics_rows")]
    click.echo(
        f"{rows[0]:,} samples and {rows[1]:,} metric rows in {len(run.steps)} steps,"
        f" {stored / 1e9:.2f} GB, made in {time.perf_counter() - begun:.0f} s"
    )


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--master", help="A Spark master instead of local[2].")
@click.option("--duckdb/--no-duckdb", "compared", default=True, help="Whether to do the same in DuckDB.")
@click.option("--duckdb-memory", default=MEMORY, show_default=True, help="Beyond it DuckDB uses the disk.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Write the figures there, too.")
def measure(path: Path, master: str | None, compared: bool, duckdb_memory: str, out: Path | None) -> None:
    """Time every query on a run's raw tables, and the whole analysis."""
    run = read_run(path)
    warm(run)
    query_plan = run.steps[0].plan.start.query_plan
    asked = queries(any(c.window is not None for c in query_plan.components))
    ours = measure_spark(run, asked, master)
    theirs = Measured()
    found = figures(run, asked, ours, theirs, duckdb_memory)
    if compared:
        _write(out, found)  # whatever becomes of DuckDB
        theirs = measure_duckdb(run, asked, duckdb_memory)
        found = figures(run, asked, ours, theirs, duckdb_memory)
    _write(out, found)
    click.echo("\n".join(lines(found)))


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--model", "models", multiple=True, help="Only this model (repeatable); all by default.")
@click.option("--most-gib", default=4.0, show_default=True, help="More memory than this fails.")
def predict(path: Path, models: tuple[str, ...], most_gib: float) -> None:
    """Carry out harness predict on a run; say its time, and the most memory that its processes took."""
    begun = time.perf_counter()
    named = [word for model in models for word in ("--model", model)]
    status, most_bytes = carry_out([sys.executable, "-m", "harness", "predict", str(path), *named])
    click.echo(
        f"harness predict with {', '.join(models) or 'all models'}: {time.perf_counter() - begun:.1f} s,"
        f" at most {most_bytes / 2**30:.2f} GiB resident, {most_gib:g} allowed"
    )
    sys.exit(status or int(most_bytes > most_gib * 2**30))


def _write(out: Path | None, found: dict[str, Any]) -> None:
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--runs", "count", default=100, show_default=True, help="So many, of those given in turn.")
@click.option("--master", help="A Spark master instead of local[2].")
def archive(paths: tuple[Path, ...], count: int, master: str | None) -> None:
    """Analyse many archived runs in one job."""
    with tempfile.TemporaryDirectory(prefix="archive-") as folder:
        predictions = {}
        for path in paths:
            with predicted(path) as ready:
                predictions[path] = (ready / "predictions.parquet").read_bytes()
        records = []
        for i in range(count):
            of = paths[i % len(paths)]
            own = Path(folder) / f"{i:03d}"
            own.mkdir()
            for name in ("experiment.yaml", "environment.json"):
                (own / name).write_bytes((of / name).read_bytes())
            (own / "steps").symlink_to(of.resolve() / "steps", target_is_directory=True)
            (own / "predictions.parquet").write_bytes(predictions[of])
            records.append(read_run(own))
        rows = sum(r.rows for r in records)
        begun = time.perf_counter()
        with spark_session(rows, master) as spark:
            started = time.perf_counter()
            with all_judged(spark, Archive.of(records)) as found:
                errors, cells = summaries(found.pairs), matrices(found.pairs)
            ended = time.perf_counter()
            java_mb = driver_mb()
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(
        f"{count} runs, {sum(len(r.steps) for r in records)} steps, {rows:,} raw rows,"
        f" {sum(r.predictions_rows for r in records):,} predictions:"
        f" {sum(len(r.actuals) for r in found.runs):,} measured values,"
        f" {len(cells):,} cells of matrices, {sum(map(len, errors.values())):,} lines of summaries"
    )
    click.echo(
        f"{ended - started:.1f} s ({(ended - started) / count:.2f} s a run), and Spark's start"
        f" {started - begun:.1f} s; driver's JVM {java_mb:.0f} MB, Python {python:.0f} MB at their peaks"
    )


if __name__ == "__main__":
    sys.exit(main())
