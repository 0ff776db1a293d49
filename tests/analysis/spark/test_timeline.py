"""Rate and latency over time: against the same sums in pandas."""

from __future__ import annotations

import math

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from synthetic_run import BUCKET_MS

from harness.analysis.spark import timeline
from harness.analysis.spark.distribution import BINS_PER_OCTAVE
from harness.analysis.spark.inputs import RunRecord


def test_pace_is_the_rate_at_the_sinks_and_the_mean_ack(spark: SparkSession, run: RunRecord) -> None:
    bucket_s = BUCKET_MS / 1000
    found = timeline.pace(spark, run)
    s = run.steps[1]
    rows = pq.read_table(s.folder / "metrics.parquet").to_pandas()
    width = timeline.METRIC_BUCKETS * BUCKET_MS
    rows = rows.assign(at=(rows["bucket_end_ms"] - BUCKET_MS // 2) // width)
    arrived = rows[(rows["measurement"] == "received") & (rows["component"] == "sender")]
    by_task = arrived.groupby(["at", "task"]).agg(n=("value", "sum"), b=("bucket_end_ms", "nunique"))
    expected = (by_task["n"] / by_task["b"] / bucket_s).groupby("at").sum()
    acks = rows[rows["measurement"] == "ack"].pivot_table(
        index="at", columns="field", values="value", aggfunc="sum", observed=True
    )
    mine = found[found["step"] == 1]
    assert mine["tuples_tps"].to_numpy() == pytest.approx(expected.to_numpy())
    assert mine["ack_ms"].to_numpy() == pytest.approx((acks["sum_ns"] / acks["count"]).to_numpy() / 1e6)
    inside = mine["at_ns"].between(s.interval.start_ns, s.interval.end_ns)
    assert mine.loc[inside, "tuples_tps"].mean() == pytest.approx(50, rel=0.1), "50 messages/s were sent"


def test_the_points_lie_within_their_step(spark: SparkSession, run: RunRecord) -> None:
    found = timeline.pace(spark, run)
    for s in run.steps:
        mine: pd.Series[int] = found.loc[found["step"] == s.index, "at_ns"]
        slack = timeline.METRIC_BUCKETS * BUCKET_MS * 1_000_000
        assert mine.min() >= s.interval.up_ns - slack
        assert mine.max() <= s.interval.end_ns + slack


def test_a_points_rate_is_a_count_and_its_percentiles_are_right_to_a_bin(
    spark: SparkSession, run: RunRecord
) -> None:
    found = timeline.timeline(spark, run)
    width_ns = BUCKET_MS * 1_000_000
    bin_width = 2 ** (1 / BINS_PER_OCTAVE) * (1 + 1e-9)
    for s in run.steps:
        rows = pq.read_table(s.folder / "latency.parquet", columns=["left_ns", "entered_ns"]).to_pandas()
        ms = ((rows["left_ns"] - rows["entered_ns"]) / 1e6).groupby(rows["left_ns"] // width_ns)
        mine = found[found["step"] == s.index].set_index("at_ns")
        assert mine["tuples_tps"].to_dict() == {
            (bucket + 0.5) * width_ns: n * 1000 / BUCKET_MS for bucket, n in ms.size().items()
        }
        for bucket, values in ms:
            ordered = sorted(values)
            point = mine.loc[(bucket + 0.5) * width_ns]
            for name, fraction in (("p50_ms", 0.5), ("p95_ms", 0.95)):
                true = ordered[math.ceil(fraction * len(ordered)) - 1]
                assert true / bin_width <= point[name] <= true * bin_width
