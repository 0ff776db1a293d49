"""Every step over time, burn-in included: tuples and latencies in buckets, for the timeline figure.

Archived runs keep the latencies of the measured intervals only, but all metrics; so the rate and the
emit-to-ack latency over the whole step come from the metrics.
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.distribution import NEGATIVE, bin_of, nanoseconds, quantile_in_bin
from harness.analysis.spark.inputs import Source
from harness.analysis.spark.noise import ordered_sum
from harness.schemas import Metric, MetricField


def timeline(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Return tuples that reached a sink, and their latency, by step and bucket of time.

    The percentiles are sketches, right to a bin of 1.1 % of the latency: they are drawn, never judged.

    Returns
    -------
    DataFrame
        Columns step, at_ns (the bucket's middle), tuples_tps, p50_ms and p95_ms.
    """
    width_ns = sf.col("bucket_ms") * 1_000_000
    ms = sf.col("ground_truth_ms")
    keys = ["step", "bucket_ms", "bucket"]
    counted = (
        tables.latency(spark, source)
        .withColumn("ns", nanoseconds(ms))
        .groupBy(
            "step",
            "bucket_ms",
            sf.floor(sf.col("left_ns") / width_ns).cast("bigint").alias("bucket"),
            bin_of(ms, sf.col("ns")).alias("bin"),
        )
        .agg(sf.count("*").alias("n"))
    )
    whole = Window.partitionBy(*keys)
    valued = counted.withColumn("valued", sf.when(sf.col("bin") >= NEGATIVE, sf.col("n")).otherwise(0))
    ranked = valued.withColumns(
        {
            "ends": sf.sum("valued").over(whole.orderBy("bin")),
            "values": sf.sum("valued").over(whole),
        }
    )

    def quantile(fraction: float) -> Column:
        rank, start = sf.col("values") * fraction, sf.col("ends") - sf.col("valued")
        here = (sf.col("ends") >= rank) & (start < rank)
        return sf.max(sf.when(here, quantile_in_bin(sf.col("bin"), (rank - start) / sf.col("valued")) / 1e6))

    points = (
        ranked.groupBy(*keys)
        .agg(sf.sum("n").alias("tuples"), quantile(0.5).alias("p50_ms"), quantile(0.95).alias("p95_ms"))
        .select(
            "step",
            ((sf.col("bucket") + 0.5) * width_ns).alias("at_ns"),
            (sf.col("tuples") * 1000 / sf.col("bucket_ms")).alias("tuples_tps"),
            "p50_ms",
            "p95_ms",
        )
        .orderBy("step", "at_ns")
    )
    return tables.collect_frame(points, "timeline")


METRIC_BUCKETS = 2
"""Metric buckets of one point: tasks have buckets of their own phase, and a point needs one of each."""


def pace(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Return what the metrics say over time: tuples at the sinks, and emit-to-ack latency at the spouts.

    Returns
    -------
    DataFrame
        Columns step, at_ns (the point's middle on the clock of ``timeline``), tuples_tps and ack_ms.
    """
    width_ms = sf.col("bucket_ms") * METRIC_BUCKETS
    bucket = sf.floor((sf.col("bucket_end_ms") - sf.col("bucket_ms") / 2) / width_ms).cast("bigint")
    sinks = tables.components(spark, source).where("sink").select("step", "component", "sink")
    arrived = (sf.col("measurement") == Metric.RECEIVED) & sf.col("sink").isNotNull()
    acked = sf.col("measurement") == Metric.ACK
    own = ~sf.coalesce(sf.col("stream").startswith("__"), sf.lit(False))
    value, field = sf.col("value"), sf.col("field")
    of_task = sf.try_divide(sf.col("tuples") * 1000, sf.col("buckets") * sf.col("bucket_ms"))
    points = (
        tables.metrics(spark, source)
        .where(sf.col("measurement").isin(Metric.RECEIVED, Metric.ACK))
        .join(sf.broadcast(sinks), ["step", "component"], "left")
        .where((arrived & own) | (acked & field.isin(MetricField.COUNT, MetricField.SUM_NS)))
        # First by bucket, then over buckets: a count of different buckets would need every row twice.
        .groupBy("step", "bucket_ms", bucket.alias("bucket"), "task", "measurement", "bucket_end_ms")
        .agg(
            sf.sum(sf.when(arrived, value)).alias("tuples"),
            sf.sum(sf.when(acked & (field == MetricField.COUNT), value)).alias("acks"),
            sf.sum(sf.when(acked & (field == MetricField.SUM_NS), value)).alias("ack_ns"),
        )
        .groupBy("step", "bucket_ms", "bucket", "task", "measurement")
        .agg(
            sf.sum("tuples").alias("tuples"),
            sf.count("tuples").alias("buckets"),
            sf.sum("acks").alias("acks"),
            sf.sum("ack_ns").alias("ack_ns"),
        )
        .groupBy("step", "bucket_ms", "bucket")
        .agg(
            ordered_sum(sf.collect_list(of_task)).alias("tuples_tps"),
            (sf.try_divide(sf.sum("ack_ns"), sf.sum("acks")) / 1e6).alias("ack_ms"),
        )
        .orderBy("step", "bucket")
    )
    found = tables.collect_frame(points, "pace")
    offset_ns = {s.index: s.interval.start_ns - s.interval.start_epoch_ms * 1_000_000 for s in source.steps}
    middle_ns = ((found["bucket"] + 0.5) * METRIC_BUCKETS * found["bucket_ms"] * 1e6).astype("int64")
    at_ns = middle_ns + found["step"].map(offset_ns)
    return found.assign(at_ns=at_ns).drop(columns=["bucket", "bucket_ms"])
