"""What the wrapped components counted and timed: rates, service and ack times, routing, I/O ratios.

Each is a ratio of two sums over the interval's metric buckets, by executor and by component:

======================  ==========================  =================================
measure                 numerator                   denominator
======================  ==========================  =================================
arrival_rate_tps        tuples received             seconds covered by the buckets
service_time_ms         wall time in execute        tuples executed
routing_probability     tuples sent to an executor  tuples sent to its whole component
io_ratio                calls of emit on a stream   tuples received on all inputs
ack_latency_ms          time from emit to ack       tuples acked
======================  ==========================  =================================

A bucket belongs to the interval when it ended in it; the seconds that it covers are those since the same
task's bucket before it, so nothing is assumed of the length of a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.distribution import PERCENTILES
from harness.analysis.inputs import RunRecord
from harness.analysis.noise import ratio

BATCHES = 10
"""Batches of neighbouring buckets; each holds whole buckets."""
KEYS = ["step", "measure", "subject"]
EXECUTOR_LEVEL, COMPONENT_LEVEL, TOPOLOGY_LEVEL = "executor", "component", ""


@dataclass(frozen=True)
class Counters:
    """The interval's buckets, prepared once for all measures.

    Attributes
    ----------
    rows : DataFrame
        Metric rows of the query plan's components whose bucket ended in the interval, with the executor
        and the batch they belong to.
    seconds : DataFrame
        Seconds that each task's buckets cover, by batch.
    """

    rows: DataFrame
    seconds: DataFrame
    tasks: DataFrame
    connections: DataFrame


def prepare(spark: SparkSession, run: RunRecord) -> Counters:
    """Assign every bucket of the measured intervals to its executor and batch."""
    tasks = tables.tasks(spark, run).drop("node")
    when = tables.intervals(spark, run).select("step", "start_epoch_ms", "end_epoch_ms")
    rows = tables.metrics(spark, run).drop("component", "worker").join(sf.broadcast(tasks), ["step", "task"])
    of_task = Window.partitionBy("step", "task").orderBy("bucket_end_ms")
    number, count = sf.row_number().over(of_task), sf.count("*").over(Window.partitionBy("step", "task"))
    buckets = (
        rows.where(sf.col("measurement").isin("received", "emitted", "ack"))
        .select("step", "task", "bucket_end_ms")
        .distinct()
        .withColumn("seconds", (sf.col("bucket_end_ms") - sf.lag("bucket_end_ms").over(of_task)) / 1000.0)
        .join(sf.broadcast(when), "step")
        .where("bucket_end_ms > start_epoch_ms AND bucket_end_ms <= end_epoch_ms")
        .withColumn("batch", sf.floor((number - 1) * BATCHES / count).cast("int"))
        .select("step", "task", "bucket_end_ms", "seconds", "batch")
    )
    return Counters(
        rows=rows.join(sf.broadcast(buckets.drop("seconds")), ["step", "task", "bucket_end_ms"]),
        seconds=buckets.groupBy("step", "task", "batch")
        .agg(sf.sum("seconds").alias("seconds"))
        .join(sf.broadcast(tasks), ["step", "task"]),
        tasks=tasks,
        connections=tables.connections(spark, run),
    )
