"""How long the analysis takes for millions of samples: the queries on raw tables in Spark, and in DuckDB.

    python bench/scale.py make DIR/50 --samples 50 --metrics 10      # millions of rows
    python bench/scale.py measure DIR/50
    python bench/scale.py archive --runs 100 reports/runs/*/*

``measure`` carries out every query that reads raw tables by the analysis' own functions, and the same
queries in SQL in DuckDB, on as many threads; it prints both times side by side, and whether both found the
same. Then it times the whole way from raw tables to error matrices. Times are without Spark's start.
``archive`` analyses many small runs in one job.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import duckdb
import numpy as np
import pandas as pd
from large_runs import CHAINS, Size, make
from pyspark import SparkContext
from pyspark.sql import SparkSession

from harness.analysis import counters, distribution, latencies, stages, tables, timeline
from harness.analysis.figure_files import predicted
from harness.analysis.inputs import Archive, RunRecord, Source, read_run
from harness.analysis.judging import all_judged
from harness.analysis.latencies import complete_mean_ms
from harness.analysis.session import spark_session
from harness.analysis.summary import matrices, summaries

THREADS = 2
ALLOWED = 3.0
"""Spark may take so many times as long as DuckDB."""
FRACTIONS = list(distribution.PERCENTILES.values())

VIEWS = """
CREATE VIEW measured AS
SELECT *, CAST(floor((scheduled_ns - start_ns) * 20e0 / (end_ns - start_ns)) AS INTEGER) AS batch,
    CASE WHEN isfinite(ground_truth_ms) THEN CAST(round_even(ground_truth_ms * 1e6, 0) AS BIGINT) END AS ns
FROM latency WHERE in_interval;
CREATE MACRO log_bin(ns, per_octave) AS
    CASE WHEN ns < 0 THEN -2 WHEN ns = 0 THEN -1
        ELSE CAST(floor(ln(ns) * (per_octave / ln(2))) AS INTEGER) END;
CREATE MACRO bin_of(ms, ns) AS
    CASE WHEN ns IS NOT NULL THEN log_bin(ns, 64) WHEN ms IS NULL THEN -4 ELSE -3 END;
"""
HISTOGRAM = """
SELECT step, sink, batch, bin_of(ground_truth_ms, ns) AS bin, count(*) AS n, coalesce(sum(ns), 0) AS sum_ns
FROM measured GROUP BY ALL
"""
PERCENTILES = """
SELECT step, unnest([0.5, 0.9, 0.95, 0.99]) AS fraction,
    unnest(quantile_cont(ns, [0.5, 0.9, 0.95, 0.99])) AS ns
FROM measured WHERE ns IS NOT NULL GROUP BY step
"""
OUTPUTS = """
WITH members AS (
    SELECT m.*, left_ns - entered_ns AS member_ns, coalesce(a.node = b.node, false) AS same,
        CAST(round_even(thesis_ground_truth_ms * 1e6, 0) AS BIGINT) AS thesis_ns
    FROM measured m
    LEFT JOIN tasks a ON m.step = a.step AND m.hops[1].task = a.task
    LEFT JOIN tasks b ON m.step = b.step AND m.hops[-1].task = b.task
)"""
CHOSEN = """, by_path AS (
    SELECT step, output_partition, output_offset, hash(path) AS path, min(batch) AS batch,
        min(thesis_ns) AS thesis_ns, bool_and(same) AS same, avg(member_ns) AS mean_ns
    FROM members GROUP BY ALL
), outputs AS (
    SELECT step, arg_min(batch, abs(mean_ns - thesis_ns)) AS batch, min(thesis_ns) AS thesis_ns,
        min(abs(mean_ns - thesis_ns)) FILTER (same) AS near_same,
        min(abs(mean_ns - thesis_ns)) FILTER (NOT same) AS near_other
    FROM by_path GROUP BY step, output_partition, output_offset
), chosen AS (
    SELECT step, batch, thesis_ns, coalesce(near_same <= near_other, near_same IS NOT NULL) AS same
    FROM outputs
)"""
KEPT = """
SELECT o.step, batch, count(thesis_ns) AS outputs, count(*) FILTER (same) AS same,
    count(*) FILTER (same AND thesis_ns <= cut_ns) AS kept,
    coalesce(sum(thesis_ns) FILTER (same AND thesis_ns <= cut_ns), 0) AS sum_ns
FROM {outputs} o JOIN steps USING (step) GROUP BY o.step, batch
"""
STAGES = """
WITH passed AS (
    SELECT step, CAST(floor((scheduled_ns - start_ns) * 10e0 / (end_ns - start_ns)) AS INTEGER) AS batch,
        unnest(hops[2:]) AS hop, unnest(hops[:len(hops) - 1]) AS previous
    FROM latency WHERE in_interval AND len(hops) >= 2
), placed AS (
    SELECT p.step, p.batch, t.component, hop.received_ns - previous.emitted_ns AS transfer_ns,
        hop.emitted_ns - hop.received_ns AS inside_ns, t.host = f.host AS known,
        CASE WHEN t.worker = f.worker THEN 'within a worker' WHEN t.node = f.node THEN 'between workers'
            ELSE 'between nodes' END AS place
    FROM passed p
    JOIN tasks t ON p.step = t.step AND p.hop.task = t.task
    JOIN tasks f ON p.step = f.step AND p.previous.task = f.task
), parts AS (
    SELECT step, component, stage, batch, CASE WHEN stage = 'transfer' THEN place ELSE '' END AS place,
        CASE WHEN stage = 'inside' THEN inside_ns WHEN known THEN transfer_ns END AS ns
    FROM placed CROSS JOIN (VALUES ('transfer'), ('inside')) s(stage)
)
SELECT step, component, stage, place, batch, CASE WHEN ns IS NULL THEN -4 ELSE log_bin(ns, 16) END AS bin,
    count(*) AS n, coalesce(sum(ns), 0) AS sum_ns
FROM parts GROUP BY ALL
"""
TIMELINE = """
WITH valued AS (
    SELECT step, bucket_ms, CAST(floor(left_ns / (bucket_ms * 1e6)) AS BIGINT) AS bucket,
        bin_of(ground_truth_ms,
            CASE WHEN isfinite(ground_truth_ms) THEN CAST(round_even(ground_truth_ms * 1e6, 0) AS BIGINT) END
        ) AS bin
    FROM latency
), counted AS (
    SELECT step, bucket_ms, bucket, bin, count(*) AS n FROM valued GROUP BY ALL
), ranked AS (
    SELECT *, sum(valued) OVER (PARTITION BY step, bucket ORDER BY bin) AS ends,
        sum(valued) OVER (PARTITION BY step, bucket) AS held
    FROM (SELECT *, CASE WHEN bin >= -2 THEN n ELSE 0 END AS valued FROM counted)
)
SELECT step, (bucket + 5e-1) * bucket_ms * 1e6 AS at_ns, sum(n) * 1e3 / bucket_ms AS tuples_tps,
    max(pow(2, (bin + (5e-1 * held - ends + n) / n) / 64) / 1e6)
        FILTER (ends >= 5e-1 * held AND ends - valued < 5e-1 * held) AS p50_ms,
    max(pow(2, (bin + (95e-2 * held - ends + n) / n) / 64) / 1e6)
        FILTER (ends >= 95e-2 * held AND ends - valued < 95e-2 * held) AS p95_ms
FROM ranked GROUP BY step, bucket_ms, bucket
"""
PACE = """
WITH chosen AS (
    SELECT step, bucket_ms, task, measurement, bucket_end_ms, field, value,
        CAST(floor((bucket_end_ms - bucket_ms / 2) / (2 * bucket_ms)) AS BIGINT) AS bucket,
        measurement = 'received' AS arrived
    FROM metrics SEMI JOIN (SELECT step, task FROM tasks WHERE sink OR spout) USING (step, task)
    WHERE (measurement = 'received' AND NOT coalesce(starts_with(stream, '__'), false))
        OR (measurement = 'ack' AND field IN ('count', 'sum_ns'))
), by_bucket AS (
    SELECT step, bucket_ms, bucket, task, measurement, bucket_end_ms, sum(value) FILTER (arrived) AS tuples,
        sum(value) FILTER (NOT arrived AND field = 'count') AS acked,
        sum(value) FILTER (NOT arrived AND field = 'sum_ns') AS ack_ns
    FROM chosen GROUP BY ALL
), by_task AS (
    SELECT step, bucket_ms, bucket, task, measurement, sum(tuples) AS tuples, count(tuples) AS buckets,
        sum(acked) AS acked, sum(ack_ns) AS ack_ns
    FROM by_bucket GROUP BY ALL
)
SELECT step, bucket, sum(tuples * 1000 / (buckets * bucket_ms)) AS tuples_tps,
    sum(ack_ns) / sum(acked) / 1e6 AS ack_ms
FROM by_task GROUP BY step, bucket
"""
SUMS = """
SELECT m.step, t.component, t.executor, t.worker, measurement, stream, peer, field,
    CASE WHEN measurement LIKE '%\\_hist' ESCAPE '\\' THEN 0 ELSE
        CAST(floor((bucket_end_ms - start_epoch_ms - 1) * 10e0 / (end_epoch_ms - start_epoch_ms)) AS INTEGER)
    END AS batch, sum(value) AS total
FROM metrics m JOIN tasks t ON m.step = t.step AND m.task = t.task JOIN steps s ON m.step = s.step
WHERE bucket_end_ms > start_epoch_ms AND bucket_end_ms <= end_epoch_ms
GROUP BY ALL
"""
COVERED = """
WITH ticks AS (
    SELECT DISTINCT step, task, bucket_end_ms FROM metrics WHERE measurement IN ('received', 'emitted', 'ack')
), spaced AS (
    SELECT *, lag(bucket_end_ms) OVER (PARTITION BY step, task ORDER BY bucket_end_ms) AS previous FROM ticks
)
SELECT x.step, t.component, t.executor, t.worker, x.task,
    CAST(floor((bucket_end_ms - start_epoch_ms - 1) * 10e0 / (end_epoch_ms - start_epoch_ms)) AS INTEGER)
        AS batch,
    sum(bucket_end_ms - coalesce(previous, start_epoch_ms)) AS ms
FROM spaced x JOIN tasks t ON x.step = t.step AND x.task = t.task JOIN steps s ON x.step = s.step
WHERE bucket_end_ms > start_epoch_ms AND bucket_end_ms <= end_epoch_ms
GROUP BY ALL
"""


@dataclass(frozen=True)
class Query:
    """One query on raw tables: in Spark, in DuckDB, and by what columns its rows are told apart."""

    name: str
    spark: Callable[[SparkSession, Source], pd.DataFrame]
    sql: str
    keys: tuple[str, ...]


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


def database(run: RunRecord, folder: Path) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the run's tables as views, on as many threads and in as much memory as Spark."""
    db = duckdb.connect()
    db.execute(f"SET threads = {THREADS}; SET memory_limit = '2GB'; SET temp_directory = '{folder}'")
    db.execute("SET preserve_insertion_order = false")
    for name in ("latency", "metrics"):
        parts = [
            f"SELECT {s.index} AS step, {s.interval.start_ns} AS start_ns, {s.interval.end_ns} AS end_ns,"
            f" {round(run.bucket_s * 1000)} AS bucket_ms, * FROM read_parquet('{s.folder / name}.parquet')"
            for s in run.steps
        ]
        db.execute(f"CREATE VIEW {name} AS {' UNION ALL '.join(parts)}")
    steps = [
        (
            s.index,
            s.interval.start_epoch_ms,
            s.interval.end_epoch_ms,
            None if (ms := complete_mean_ms(s)) is None else ms * 1e6,
        )
        for s in run.steps
    ]
    db.register(
        "steps_frame", pd.DataFrame(steps, columns=["step", "start_epoch_ms", "end_epoch_ms", "cut_ns"])
    )
    db.execute("CREATE TABLE steps AS FROM steps_frame")
    db.register("tasks_frame", pd.DataFrame(_tasks(run)))
    db.execute("CREATE TABLE tasks AS FROM tasks_frame")
    db.execute(VIEWS)
    return db


def _tasks(run: RunRecord) -> Iterator[dict[str, Any]]:
    for s in run.steps:
        plan = s.plan.start
        query = plan.query_plan
        names = {c.name for c in query.components}
        for task, e in plan.by_task.items():
            if e.component in names:
                yield {
                    "step": s.index,
                    "task": task,
                    "component": e.component,
                    "executor": e.label,
                    "worker": e.worker.label,
                    "node": e.worker.node,
                    "host": plan.node_names[e.worker.node].host,
                    "sink": e.component in query.sinks,
                    "spout": e.component in query.spouts,
                }


def differences(query: Query, spark: pd.DataFrame, duck: pd.DataFrame) -> str:
    """Say in how many rows two results differ by more than 1e-9 of their size."""
    keys = list(query.keys)
    ours, theirs = (
        f.assign(**{k: f[k].fillna("") for k in keys if f[k].dtype == object}) for f in (spark, duck)
    )
    both = ours.merge(theirs, on=keys, how="outer", suffixes=("", "_duck"), indicator=True)
    wrong = both["_merge"] != "both"
    for column in spark.columns.difference(keys):
        a, b = both[column], both[f"{column}_duck"]
        if a.dtype == object:
            wrong |= a != b
        else:
            wrong |= ~np.isclose(a.astype(float), b.astype(float), rtol=1e-9, atol=0, equal_nan=True)
    return f"same {len(both)} rows" if not wrong.any() else f"{int(wrong.sum())} of {len(both)} rows differ"


def rss_mb(process: int | str, peak: bool = True) -> float:
    """Return a process' memory in MB, at its peak."""
    field = "VmHWM:" if peak else "VmRSS:"
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    """Add the seconds that the block takes."""
    begun = time.perf_counter()
    yield
    times.append(time.perf_counter() - begun)


def warm(run: RunRecord) -> None:
    """Read every file once, so that neither engine waits for the disk where the memory holds them all."""
    for file in {p.stat().st_ino: p for s in run.steps for p in s.folder.glob("*.parquet")}.values():
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass


def measure_spark(run: RunRecord, asked: Sequence[Query], master: str | None) -> dict[str, Any]:
    """Return results and times of every query, of the whole analysis, and the driver's memory."""
    found, times, whole = {}, {}, []
    with spark_session(run.rows, master) as spark:
        spark.range(1).count()
        for query in asked:
            spent: list[float] = []
            with timed(spent):
                found[query.name] = query.spark(spark, run)
            times[query.name] = spent[0]
        with timed(whole), all_judged(spark, Archive.of([run])) as judged:
            summaries(judged.pairs)
            matrices(judged.pairs)
        gateway = SparkContext._gateway
        java = rss_mb(gateway.proc.pid) if gateway is not None else 0.0
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"found": found, "times": times, "whole": whole[0], "java_mb": java, "python_mb": python}


def measure_duckdb(run: RunRecord, asked: Sequence[Query]) -> dict[str, Any]:
    """Return results and times of every query."""
    found, times = {}, {}
    with tempfile.TemporaryDirectory(prefix="duckdb-") as folder:
        db = database(run, Path(folder))
        for query in asked:
            spent: list[float] = []
            with timed(spent):
                found[query.name] = db.execute(query.sql).fetch_df()
            times[query.name] = spent[0]
        db.close()
    return {"found": found, "times": times}


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
@click.option("--out", type=click.Path(path_type=Path), help="Write the figures as JSON too.")
def measure(path: Path, master: str | None, compared: bool, out: Path | None) -> None:
    """Time every query on a run's raw tables, and the whole analysis."""
    run = read_run(path)
    warm(run)
    query_plan = run.steps[0].plan.start.query_plan
    asked = queries(any(c.window is not None for c in query_plan.components))
    ours = measure_spark(run, asked, master)
    theirs = measure_duckdb(run, asked) if compared else {"found": {}, "times": {}}
    click.echo(f"{'query':<20}{'Spark s':>9}{'DuckDB s':>10}{'ratio':>7}  results")
    rows = []
    for query in asked:
        spark_s, duck_s = ours["times"][query.name], theirs["times"].get(query.name)
        same = differences(query, ours["found"][query.name], theirs["found"][query.name]) if duck_s else ""
        rows.append({"query": query.name, "spark_s": spark_s, "duckdb_s": duck_s, "results": same})
        click.echo(_line(query.name, spark_s, duck_s, same))
    total_s = sum(ours["times"].values())
    duck_total_s = sum(theirs["times"].values()) or None
    click.echo(_line("all queries", total_s, duck_total_s, f"at most {ALLOWED:g} is asked"))
    click.echo(f"raw tables to error matrices: {ours['whole']:.1f} s")
    click.echo(f"memory at its peak: driver {ours['java_mb']:.0f} MB, Python {ours['python_mb']:.0f} MB")
    if out is not None:
        rest = {k: ours[k] for k in ("whole", "java_mb", "python_mb")}
        said = {"rows": run.rows, "queries": rows, "spark_s": total_s, "duckdb_s": duck_total_s, **rest}
        out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _line(name: str, spark_s: float, duck_s: float | None, said: str) -> str:
    ratio = f"{duck_s:>10.1f}{spark_s / duck_s:>7.1f}" if duck_s else f"{'-':>10}{'-':>7}"
    return f"{name:<20}{spark_s:>9.1f}{ratio}  {said}"


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
            gateway = SparkContext._gateway
            java = rss_mb(gateway.proc.pid) if gateway is not None else 0.0
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(
        f"{count} runs, {sum(len(r.steps) for r in records)} steps, {rows:,} raw rows,"
        f" {sum(r.predictions_rows for r in records):,} predictions: {len(found.actuals):,} measured values,"
        f" {len(cells):,} cells of matrices, {sum(map(len, errors.values())):,} lines of summaries"
    )
    click.echo(
        f"{ended - started:.1f} s ({(ended - started) / count:.2f} s a run), and Spark's start"
        f" {started - begun:.1f} s; driver's JVM {java:.0f} MB, Python {python:.0f} MB at their peaks"
    )


if __name__ == "__main__":
    sys.exit(main())
