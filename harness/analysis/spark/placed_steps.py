"""Steps that differ by who placed their executors: latency, and traffic between nodes, over time.

As in the evaluation of Aniello, Baldoni and Querzoni (Adaptive Online Scheduling in Storm, slides 41 to 49),
a point of the latency is the mean of ten messages. Times count from the begin of the measured interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.distribution import nanoseconds
from harness.analysis.spark.inputs import Archive, RunRecord, Source, StepRecord
from harness.analysis.spark.noise import ordered_sum
from harness.analysis.spark.timeline import METRIC_BUCKETS
from harness.schemas import Metric, MetricField

MESSAGES = 10
"""Messages of one point (slide 43)."""
ADAPTING = ", adapting"
MOST_POINTS = 1000
"""Points of a step; where there are more, every n-th is kept."""


class ComparedSteps(NamedTuple):
    """Steps that begin with the same counts at the same rate, and differ by who placed their executors.

    Attributes
    ----------
    by : mapping of str to tuple of StepRecord
        Steps by who placed them, repeats in their order.
    """

    by: Mapping[str, tuple[StepRecord, ...]]

    @property
    def rounds(self) -> tuple[Mapping[str, StepRecord], ...]:
        """The n-th step of each."""
        most = max(len(steps) for steps in self.by.values())
        return tuple({who: steps[n] for who, steps in self.by.items() if n < len(steps)} for n in range(most))


def compared_steps(run: RunRecord) -> tuple[ComparedSteps, ...]:
    """Return the groups of a run's steps with at least two who placed executors."""
    groups: dict[tuple[object, ...], dict[str, tuple[StepRecord, ...]]] = {}
    for step in run.steps:
        counts = step.plan.start.configuration().executors
        key = (step.interval.rate_tps, step.asked_workers, *sorted(counts.items()))
        of = groups.setdefault(key, {})
        who = step.asked_by + (ADAPTING if step.adaptation is not None else "")
        of[who] = (*of.get(who, ()), step)
    return tuple(ComparedSteps(by) for by in groups.values() if len(by) > 1)


def _compared(source: Source) -> Archive | None:
    """Return the runs with their compared steps alone; None where no run has any."""
    runs = []
    for run in source.runs:
        found = [s for group in compared_steps(run) for of in group.by.values() for s in of]
        if found:
            runs.append(replace(run, steps=tuple(sorted(found, key=lambda s: s.index))))
    return Archive(tuple(runs)) if runs else None


def latency_points(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Return means of ten messages that were due one after the other, of compared steps.

    Of a topology with several outputs a message, ten outputs are a point.

    Returns
    -------
    DataFrame
        Columns step, time_s (the mean of when the ten were due) and latency_ms.
    """
    chosen = _compared(source)
    if chosen is None:
        return _nothing("latency_ms")
    due_ns, latency_ns = sf.coalesce("scheduled_ns", "entered_ns"), nanoseconds(sf.col("ground_truth_ms"))
    of_step = Window.partitionBy("step")
    place = sf.row_number().over(of_step.orderBy("due_ns", "message_id", "child", "sink")) - 1
    every = sf.ceil(sf.count("*").over(of_step) / (MESSAGES * MOST_POINTS))
    points = (
        tables.latency(spark, chosen)
        .where("in_interval")
        .select(
            "step", "message_id", "child", "sink", "start_ns", due_ns.alias("due_ns"), latency_ns.alias("ns")
        )
        .where(sf.col("ns").isNotNull() & sf.col("due_ns").isNotNull())
        .select(
            "step",
            "start_ns",
            "due_ns",
            "ns",
            sf.floor(place / MESSAGES).alias("point"),
            every.alias("every"),
        )
        .where(sf.col("point") % sf.col("every") == 0)
        .groupBy("step", "point")
        .agg(
            sf.count("*").alias("n"),
            (sf.sum(sf.col("due_ns") - sf.col("start_ns")) / (MESSAGES * 1e9)).alias("time_s"),
            (sf.sum("ns") / (MESSAGES * 1e6)).alias("latency_ms"),
        )
        .where(sf.col("n") == MESSAGES)
        .select("step", "time_s", "latency_ms")
        .orderBy("step", "time_s")
    )
    return tables.collect_frame(points, "means of ten messages")


def traffic_points(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Return the tuples a second that left their node over time, of compared steps.

    A task is where its own metrics say, as plans may change inside a step. In a point in which a task reports
    from its old and its new worker, tuples to it from either node stay. A point has as many metric buckets as
    one of ``timeline.pace``, and a task's rate is over the time that its buckets cover. Tuples to a task that
    reports nothing meanwhile are left out, and so are acks.

    Returns
    -------
    DataFrame
        Columns step, time_s (the point's middle) and between_nodes_tps.
    """
    chosen = _compared(source)
    if chosen is None:
        return _nothing("between_nodes_tps")
    width_ms = sf.col("bucket_ms") * METRIC_BUCKETS
    since_ms = sf.col("bucket_end_ms") - sf.col("start_epoch_ms")
    length_ms = sf.col("end_epoch_ms") - sf.col("start_epoch_ms")
    ends = tables.tasks(spark, chosen).select("step", "task", "start_epoch_ms", "end_epoch_ms")
    rows = (
        tables.metrics(spark, chosen)
        .where(sf.col("measurement").isin(Metric.RECEIVED, Metric.EMITTED, Metric.TRANSFERRED))
        .join(sf.broadcast(ends), ["step", "task"])
        .withColumn("point", sf.floor((since_ms - 1) / width_ms).cast("bigint"))
        .withColumn("bucket", sf.floor((since_ms - 1) / sf.col("bucket_ms")).cast("bigint"))
        .where((since_ms > 0) & ((sf.col("point") + 1) * width_ms <= length_ms))
        .withColumn("node", sf.regexp_replace("worker", ":[^:]*$", ""))
    )
    reports = rows.where(sf.col("measurement") != Metric.TRANSFERRED)
    of_worker = reports.groupBy("step", "point", "bucket_ms", "task", "worker").agg(
        sf.countDistinct("bucket_end_ms").alias("ends"),
        sf.collect_set("bucket").alias("in_buckets"),
        sf.first("node").alias("node"),
    )
    several = sf.size(sf.array_distinct(sf.flatten(sf.collect_list("in_buckets"))))
    reporting = of_worker.groupBy("step", "point", "bucket_ms", "task").agg(
        sf.greatest(sf.max("ends"), several).alias("buckets"), sf.collect_set("node").alias("nodes")
    )
    peer = sf.col("task").cast("string").alias("peer")
    sent = (sf.col("measurement") == Metric.TRANSFERRED) & (sf.col("field") == MetricField.COUNT)
    own = ~sf.coalesce(sf.col("stream").startswith("__"), sf.lit(False))
    task_tps = sf.col("value") * 1000 / (sf.col("buckets") * sf.col("bucket_ms"))
    crossing = (
        rows.where(sent & own)
        .join(reporting.select("step", "point", peer, "nodes"), ["step", "point", "peer"])
        .where(~sf.array_contains("nodes", sf.col("node")))
        .join(reporting.select("step", "point", "task", "buckets"), ["step", "point", "task"])
        .groupBy("step", "point")
        .agg(ordered_sum(sf.collect_list(task_tps)).alias("tps"))
    )
    middle_ms = (sf.col("point") + 0.5) * width_ms - sf.col("bucket_ms") / 2
    points = (
        reporting.select("step", "point", "bucket_ms")
        .distinct()
        .join(crossing, ["step", "point"], "left")
        .select(
            "step",
            (middle_ms / 1000).alias("time_s"),
            sf.coalesce("tps", sf.lit(0.0)).alias("between_nodes_tps"),
        )
        .orderBy("step", "time_s")
    )
    return tables.collect_frame(points, "traffic between nodes")


def _nothing(column: str) -> pd.DataFrame:
    """Return a table of no points."""
    return pd.DataFrame({"step": pd.Series(dtype="int64"), "time_s": [], column: []})
