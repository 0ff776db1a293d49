"""What the wrapped components counted and timed: rates, service and ack times, routing, I/O ratios.

Each is a ratio of two sums over the interval's metric buckets:

======================  ==========================  =================================  ====================
measure                 numerator                   denominator                        subject
======================  ==========================  =================================  ====================
arrival_rate_tps        tuples received             seconds that the buckets cover     executor, component
service_time_ms         wall time in execute        tuples executed                    executor, component
io_ratio                calls of emit on a stream   tuples received on all inputs      ``<either>:<stream>``
routing_probability     tuples sent to an executor  tuples sent to its component       connection
ack_latency_ms          time from emit to ack       tuples acked                       executor, ``""``
======================  ==========================  =================================  ====================

A bucket belongs to the interval when it ended in it; the seconds that it covers are those since the
bucket before it of the same task, so nothing is assumed of a bucket's length. Service and ack times also
have percentiles, read from histograms whose bins are at most 1/16 (6.25 %) wide, linearly within a bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.distribution import PERCENTILES
from harness.analysis.inputs import RunRecord
from harness.analysis.noise import ratio

ARRIVALS, SERVICE, IO, ROUTING, ACK = (
    "arrival_rate_tps",
    "service_time_ms",
    "io_ratio",
    "routing_probability",
    "ack_latency_ms",
)
BATCHES = 10
"""Batches of neighbouring buckets, as equal as whole buckets allow."""
HISTOGRAM_RESOLUTION = 1 / 16
KEYS = ["step", "measure", "subject"]


@dataclass(frozen=True)
class Totals:
    """The intervals' metrics added up: small, and all that the measures below need.

    Attributes
    ----------
    sums : DataFrame
        step, component, executor, measurement, stream, peer, field, batch and total; ``peer`` of
        ``transferred`` is the executor that the tuples were sent to.
    seconds : DataFrame
        step, component, executor, task, batch and the seconds that the task's buckets cover.
    """

    sums: DataFrame
    seconds: DataFrame


def total(spark: SparkSession, run: RunRecord) -> Totals:
    """Add up the measured intervals' metrics by executor and batch (one pass over the raw rows)."""
    tasks = tables.tasks(spark, run).drop("node")
    when = tables.intervals(spark, run).select("step", "start_epoch_ms", "end_epoch_ms")
    rows = tables.metrics(spark, run).drop("component", "worker").join(sf.broadcast(tasks), ["step", "task"])
    by_task = Window.partitionBy("step", "task")
    in_order = by_task.orderBy("bucket_end_ms")
    buckets = (
        rows.where(sf.col("measurement").isin("received", "emitted", "ack"))
        .select("step", "component", "executor", "task", "bucket_end_ms")
        .distinct()
        .withColumn("before", sf.lag("bucket_end_ms").over(in_order))
        .join(sf.broadcast(when), "step")
        .where("bucket_end_ms > start_epoch_ms AND bucket_end_ms <= end_epoch_ms")
        .withColumn("seconds", (sf.col("bucket_end_ms") - sf.coalesce("before", "start_epoch_ms")) / 1000.0)
        .withColumn("number", sf.row_number().over(in_order) - 1)
        .withColumn("batch", sf.floor(sf.col("number") * BATCHES / sf.count("*").over(by_task)).cast("int"))
    )
    targets = tasks.select("step", sf.col("task").alias("to"), sf.col("executor").alias("to_executor"))
    sums = (
        rows.join(
            sf.broadcast(buckets.select("step", "task", "bucket_end_ms", "batch")),
            ["step", "task", "bucket_end_ms"],
        )
        .withColumn("to", sf.when(sf.col("measurement") == "transferred", sf.col("peer").try_cast("int")))
        .join(sf.broadcast(targets), ["step", "to"], "left")
        .withColumn("peer", sf.coalesce("to_executor", "peer"))
        .groupBy("step", "component", "executor", "measurement", "stream", "peer", "field", "batch")
        .agg(sf.sum("value").alias("total"))
    )
    seconds = buckets.groupBy("step", "component", "executor", "task", "batch").agg(
        sf.sum("seconds").alias("seconds")
    )
    return Totals(sums.persist(), seconds.persist())


def silent_tasks(run: RunRecord, totals: Totals) -> dict[int, tuple[int, ...]]:
    """Return the tasks of each step that reported no bucket in the interval."""
    reported = tables.collect_frame(totals.seconds.select("step", "task").distinct(), "reporting tasks")
    seen = set(zip(reported["step"], reported["task"], strict=True))
    out = {}
    for s in run.steps:
        names = {c.name for c in s.plan.start.query_plan.components}
        tasks = (t for t, e in s.plan.start.by_task.items() if e.component in names)
        out[s.index] = tuple(sorted(t for t in tasks if (s.index, t) not in seen))
    return out


def measures(spark: SparkSession, run: RunRecord, totals: Totals) -> DataFrame:
    """Return every measure's value with its error within the interval.

    Returns
    -------
    DataFrame
        step, measure, subject, statistic, value, within and n.
    """
    cells = _arrivals(totals)
    for part in (_service(totals), _ack(totals), _io(totals), _routing(spark, run, totals)):
        cells = cells.unionByName(part)
    means = ratio(cells, KEYS).withColumn("statistic", sf.lit("mean"))
    parts = [
        _percentiles(totals, "service_hist", SERVICE, ["executor", "component"], "wall"),
        _percentiles(totals, "ack_hist", ACK, ["executor", ""], None),
    ]
    for part in parts:
        means = means.unionByName(part)
    return means


def _subjects(rows: DataFrame, owners: Sequence[str], suffix: Column | None = None) -> DataFrame:
    """Repeat every row for each of its owners: its executor, its component, or the topology (``""``)."""
    named = [sf.col(o) if o else sf.lit("") for o in owners]
    labels = [sf.concat(n, sf.lit(":"), suffix) for n in named] if suffix is not None else named
    return rows.withColumn("subject", sf.explode(sf.array(*labels)))


def _of(totals: Totals, measurement: str, *fields: str) -> DataFrame:
    return totals.sums.where((sf.col("measurement") == measurement) & sf.col("field").isin(*fields))


def _data(rows: DataFrame) -> DataFrame:
    """Keep the topology's own streams: Storm's (ticks, acks, checkpoints) begin so."""
    return rows.where(~(sf.col("stream").startswith("__") | sf.col("stream").startswith("$")))


def _cells(rows: DataFrame, measure: str, num: Column, den: Column) -> DataFrame:
    grouped = rows.groupBy("step", "subject", "batch").agg(num.alias("num"), den.alias("den"))
    return grouped.select("step", sf.lit(measure).alias("measure"), "subject", "batch", "num", "den")


def _field(name: str) -> Column:
    return sf.sum(sf.when(sf.col("field") == name, sf.col("total")).otherwise(0.0))


def _arrivals(totals: Totals) -> DataFrame:
    owners = ["executor", "component"]
    counts = _subjects(_data(_of(totals, "received", "count")), owners)
    received = counts.groupBy("step", "subject", "batch").agg(sf.sum("total").alias("num"))
    covered = _subjects(totals.seconds, owners)
    tasks = covered.groupBy("step", "subject").agg(sf.count_distinct("task").alias("tasks"))
    seconds = covered.groupBy("step", "subject", "batch").agg(sf.sum("seconds").alias("all"))
    return (
        received.join(seconds, ["step", "subject", "batch"])
        .join(tasks, ["step", "subject"])
        .select(
            "step",
            sf.lit(ARRIVALS).alias("measure"),
            "subject",
            "batch",
            "num",
            (sf.col("all") / sf.col("tasks")).alias("den"),
        )
    )


def _service(totals: Totals) -> DataFrame:
    rows = _subjects(_of(totals, "service", "count", "wall_sum_ns"), ["executor", "component"])
    return _cells(rows, SERVICE, _field("wall_sum_ns") / 1e6, _field("count"))


def _ack(totals: Totals) -> DataFrame:
    rows = _subjects(_of(totals, "ack", "count", "sum_ns"), ["executor", ""])
    return _cells(rows, ACK, _field("sum_ns") / 1e6, _field("count"))


def _io(totals: Totals) -> DataFrame:
    """Divide emits on each output stream by tuples received, for the components that have an input."""
    emitted = _data(_of(totals, "emitted", "count"))
    where = ["step", "component", "executor", "batch"]
    received = _data(_of(totals, "received", "count")).groupBy(*where).agg(sf.sum("total").alias("received"))
    rows = emitted.groupBy(*where, "stream").agg(sf.sum("total").alias("sent")).join(received, where)
    rows = _subjects(rows, ["executor", "component"], sf.col("stream"))
    return _cells(rows, IO, sf.sum("sent"), sf.sum("received"))


def _routing(spark: SparkSession, run: RunRecord, totals: Totals) -> DataFrame:
    """Share of a connection in what its source executor sent on the stream to that component."""
    plan = sf.broadcast(tables.connections(spark, run))
    sent = _of(totals, "transferred", "count").select(
        "step", sf.col("executor").alias("source"), "stream", sf.col("peer").alias("target"), "batch", "total"
    )
    components = tables.connections(spark, run).select("step", "target", "target_component").distinct()
    whole = (
        sent.join(sf.broadcast(components), ["step", "target"])
        .groupBy("step", "source", "stream", "target_component", "batch")
        .agg(sf.sum("total").alias("den"))
    )
    every = whole.join(plan, ["step", "source", "stream", "target_component"])
    found = every.join(sent, ["step", "source", "stream", "target", "batch"], "left")
    return found.select(
        "step",
        sf.lit(ROUTING).alias("measure"),
        sf.col("label").alias("subject"),
        "batch",
        sf.coalesce("total", sf.lit(0.0)).alias("num"),
        "den",
    )


def _percentiles(
    totals: Totals, measurement: str, measure: str, owners: Sequence[str], clock: str | None
) -> DataFrame:
    """Percentiles from histograms: a bin is named by its upper bound u and is 2^(floor(log2(u-1))-4) wide."""
    rows = totals.sums.where(sf.col("measurement") == measurement)
    rows = rows if clock is None else rows.where(sf.col("peer") == clock)
    upper = sf.col("upper")
    width = sf.when(upper <= 32, 1.0).otherwise(sf.pow(sf.lit(2.0), sf.floor(sf.log2(upper - 1)) - 4))
    below = Window.partitionBy("step", "subject").orderBy("upper")
    bins = (
        _subjects(rows.withColumn("upper", sf.col("field").cast("double")), owners)
        .groupBy("step", "subject", "upper")
        .agg(sf.sum("total").alias("count"))
        .withColumn("ends", sf.sum("count").over(below))
        .withColumn("n", sf.sum("count").over(Window.partitionBy("step", "subject")))
    )
    wanted = sf.explode(
        sf.array(
            *(sf.struct(sf.lit(k).alias("statistic"), sf.lit(v).alias("q")) for k, v in PERCENTILES.items())
        )
    )
    rank = sf.col("w.q") * sf.col("n")
    inside = (rank - (sf.col("ends") - sf.col("count"))) / sf.col("count")
    return (
        bins.withColumn("w", wanted)
        .where((sf.col("ends") >= rank) & (sf.col("ends") - sf.col("count") < rank))
        .select(
            "step",
            sf.lit(measure).alias("measure"),
            "subject",
            sf.col("w.statistic").alias("statistic"),
            ((upper - width + width * inside) / 1e6).alias("value"),
            sf.lit(None).cast("double").alias("within"),
            sf.col("n"),
        )
    )
