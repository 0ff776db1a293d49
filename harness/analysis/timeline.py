"""Every step over time, burn-in included: tuples and latencies in buckets, for the timeline figure.

Archived runs keep the latencies of the measured intervals only, but all metrics; so the rate and the
emit-to-ack latency over the whole step come from the metrics.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.distribution import nanoseconds
from harness.analysis.inputs import RunRecord

RANK_ACCURACY = 200
"""The buckets' percentiles are sketches, right to 1/200 of the ranks: they are drawn, never judged."""


def timeline(spark: SparkSession, run: RunRecord, bucket_s: float) -> pd.DataFrame:
    """Return tuples that reached a sink, and their latency, by step and bucket of time.

    Returns
    -------
    DataFrame
        Columns step, at_ns (the bucket's middle), tuples_tps, p50_ms and p95_ms.
    """
    width_ns = int(bucket_s * 1e9)
    bucket = sf.floor(sf.col("left_ns") / width_ns).cast("bigint")
    ms = nanoseconds(sf.col("ground_truth_ms")) / 1e6
    quantiles = sf.percentile_approx(ms, [0.5, 0.95], RANK_ACCURACY)
    counted = (
        tables.latency(spark, run)
        .groupBy("step", bucket.alias("bucket"))
        .agg(sf.count("*").alias("tuples"), quantiles.alias("q"))
        .select(
            "step",
            ((sf.col("bucket") + 0.5) * width_ns).alias("at_ns"),
            (sf.col("tuples") / bucket_s).alias("tuples_tps"),
            sf.col("q")[0].alias("p50_ms"),
            sf.col("q")[1].alias("p95_ms"),
        )
        .orderBy("step", "at_ns")
    )
    return tables.collect_frame(counted, "timeline")


METRIC_BUCKETS = 2
"""Metric buckets of one point: tasks have buckets of their own phase, and a point needs one of each."""


def pace(spark: SparkSession, run: RunRecord, bucket_s: float) -> pd.DataFrame:
    """Return what the metrics say over time: tuples at the sinks, and emit-to-ack latency at the spouts.

    Returns
    -------
    DataFrame
        Columns step, at_ns (the point's middle on the clock of ``timeline``), tuples_tps and ack_ms.
    """
    query = run.steps[0].plan.start.query_plan
    width_ms = int(METRIC_BUCKETS * bucket_s * 1000)
    bucket = sf.floor((sf.col("bucket_end_ms") - sf.lit(int(bucket_s * 500))) / width_ms).cast("bigint")
    arrived = (sf.col("measurement") == "received") & sf.col("component").isin(*query.sinks)
    acked = sf.col("measurement") == "ack"
    own = ~sf.coalesce(sf.col("stream").startswith("__"), sf.lit(False))
    by_task = (
        tables.metrics(spark, run)
        .where((arrived & own) | (acked & sf.col("field").isin("count", "sum_ns")))
        .groupBy("step", bucket.alias("bucket"), "task", "measurement")
        .agg(
            sf.sum(sf.when(arrived, sf.col("value"))).alias("tuples"),
            sf.count_distinct(sf.when(arrived, sf.col("bucket_end_ms"))).alias("buckets"),
            sf.sum(sf.when(acked & (sf.col("field") == "count"), sf.col("value"))).alias("acked"),
            sf.sum(sf.when(acked & (sf.col("field") == "sum_ns"), sf.col("value"))).alias("ack_ns"),
        )
        .groupBy("step", "bucket")
        .agg(
            sf.sum(sf.try_divide("tuples", sf.col("buckets") * bucket_s)).alias("tuples_tps"),
            (sf.try_divide(sf.sum("ack_ns"), sf.sum("acked")) / 1e6).alias("ack_ms"),
        )
        .orderBy("step", "bucket")
    )
    found = tables.collect_frame(by_task, "pace")
    offset_ns = {s.index: s.interval.start_ns - s.interval.start_epoch_ms * 1_000_000 for s in run.steps}
    middle_ns = ((found["bucket"] + 0.5) * width_ms * 1e6).astype("int64")
    return found.assign(at_ns=middle_ns + found["step"].map(offset_ns)).drop(columns="bucket")
