"""The queries of ``bench/scale.py`` in SQL, and DuckDB with a run's tables to carry them out on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from harness.analysis.spark.inputs import RunRecord
from harness.analysis.spark.latencies import complete_mean_ms

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


def database(run: RunRecord, folder: Path, threads: int, memory: str) -> duckdb.DuckDBPyConnection:
    """Return DuckDB with the run's tables as views, on so many threads and in so much memory.

    Beyond its memory it uses the folder, and it need not keep the order of rows, which takes some.
    """
    db = duckdb.connect()
    db.execute(f"SET threads = {threads}; SET memory_limit = '{memory}'; SET temp_directory = '{folder}'")
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
