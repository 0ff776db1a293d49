"""The campaign over time: tuples and latency in buckets, burn-in included, for the timeline figure."""

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
