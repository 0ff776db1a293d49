"""Counts and times of the wrapped components: rates, service and ack times, routing, I/O ratios.

Each is a ratio of two sums over the interval's metric buckets:

| measure | numerator | denominator | subject |
| --- | --- | --- | --- |
| arrival_rate_tps | tuples received | seconds that the buckets cover | executor, component |
| service_time_ms | wall time in execute | tuples executed | executor, component |
| io_ratio | calls of emit on a stream | tuples received on all inputs | ``<either>:<stream>`` |
| routing_probability | tuples sent to an executor | tuples sent to its component | connection |
| ack_latency_ms | time from emit to ack | tuples acked | executor, ``""`` |
| worker_cpu_cores | CPU time of the process | seconds that the buckets cover | worker |

A bucket belongs to the interval when it ended in the interval. The seconds that it covers are those since the
bucket before it of the same task, so nothing is assumed of a bucket's length. Service and ack times also have
percentiles, read from histograms whose bins are at most 1/16 (6.25 %) wide, linearly within a bin.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.inputs import Source
from harness.analysis.spark.noise import ratio
from harness.schemas import PERCENTILES, Clock, Measure, Metric, MetricField

BATCHES = 10
"""Parts of equal time of an interval, for the error within it."""
KEYS = ["step", "measure", "subject"]

_NS_TO_MS, _PER_MS_TO_PER_S = 1e-6, 1e3
"""Sums are of whole ns and ms, and so exact; the scale comes last."""


@dataclass(frozen=True)
class Totals:
    """The intervals' metrics added up: small, and all that the measures below need.

    Attributes
    ----------
    sums : DataFrame
        step, component, executor, worker, measurement, stream, peer, field, batch (of histograms: 0) and
        total.
    covered : DataFrame
        step, component, executor, worker, task, batch and the milliseconds that the task's buckets cover.
    """

    sums: DataFrame
    covered: DataFrame


def total(spark: SparkSession, source: Source) -> Totals:
    """Add up the measured intervals' metrics by executor and batch (one pass over the raw rows)."""
    tasks = sf.broadcast(tables.tasks(spark, source))
    inside = "bucket_end_ms > start_epoch_ms AND bucket_end_ms <= end_epoch_ms"
    since = sf.col("bucket_end_ms") - sf.col("start_epoch_ms") - 1
    batch = sf.floor(since * float(BATCHES) / (sf.col("end_epoch_ms") - sf.col("start_epoch_ms"))).cast("int")
    histograms = [m for m in Metric if m.histogram]  # most rows, and no error
    of_sums = sf.when(sf.col("measurement").isin(*histograms), 0).otherwise(batch)
    metrics = tables.metrics(spark, source).drop("component", "worker")
    sums = (
        metrics.join(tasks, ["step", "task"])
        .where(inside)
        .groupBy(
            *("step", "component", "executor", "worker", "measurement", "stream", "peer", "field"),
            of_sums.alias("batch"),
        )
        .agg(sf.sum("value").alias("total"))
    )
    before = sf.lag("bucket_end_ms").over(Window.partitionBy("step", "task").orderBy("bucket_end_ms"))
    covered = (
        metrics.where(sf.col("measurement").isin(Metric.RECEIVED, Metric.EMITTED, Metric.ACK))
        .select("step", "task", "bucket_end_ms")
        .distinct()
        .withColumn("before", before)
        .join(tasks, ["step", "task"])
        .where(inside)
        .groupBy("step", "component", "executor", "worker", "task", batch.alias("batch"))
        .agg(sf.sum(sf.col("bucket_end_ms") - sf.coalesce("before", "start_epoch_ms")).alias("ms"))
    )
    return Totals(sums.persist(), covered.persist())


def silent_tasks(source: Source, totals: Totals) -> dict[int, tuple[int, ...]]:
    """Return the tasks of each step that should have reported and have no bucket in the interval."""
    reported = tables.collect_frame(totals.covered.select("step", "task").distinct(), "reporting tasks")
    seen = set(zip(reported["step"], reported["task"], strict=True))
    return {s.index: tuple(t for t in s.reporting_tasks if (s.index, t) not in seen) for s in source.steps}


def measures(spark: SparkSession, source: Source, totals: Totals) -> DataFrame:
    """Return every measure's value with its error within the interval.

    Returns
    -------
    DataFrame
        step, measure, subject, statistic, value, within and n.
    """
    components = sf.broadcast(tables.components(spark, source).drop("sink"))
    peers = sf.broadcast(tables.peers(spark, source))
    shares = _shares(
        totals.sums.join(components, ["step", "component"]).join(peers, ["step", "peer"], "left")
    )
    cells = (
        shares.unionByName(_seconds(totals.covered.join(components, ["step", "component"])))
        .unionByName(_worker_seconds(totals))
        .groupBy(*KEYS, "batch")
        .agg(sf.sum("num").alias("num"), sf.sum("den").alias("den"))
    )
    scale = (
        sf.when(sf.col("measure") == Measure.ARRIVALS, _PER_MS_TO_PER_S)
        .when(sf.col("measure").isin(Measure.SERVICE, Measure.ACK, Measure.WORKER_CPU), _NS_TO_MS)
        .otherwise(1.0)
    )
    means = ratio(cells, KEYS, scale).withColumn("statistic", sf.lit("mean"))
    return means.unionByName(_percentiles(totals.sums))


def _share(measure: str, subject: Column, num: Column | float, den: Column | float) -> Column:
    """Return the addends of one row to the two sums of a subject's measure."""

    def number(value: Column | float) -> Column:
        return value if isinstance(value, Column) else sf.lit(value)

    return sf.struct(
        sf.lit(measure).alias("measure"),
        subject.alias("subject"),
        number(num).alias("num"),
        number(den).alias("den"),
    )


def _shares(sums: DataFrame) -> DataFrame:
    """Turn every sum into what it adds to numerators and denominators, by measure and subject."""
    value, field = sf.col("total"), sf.col("field")
    owners = (sf.col("executor"), sf.col("component"))
    colon, arrow = sf.lit(":"), sf.lit("->")

    def both(measure: str, num: Column | float, den: Column | float) -> Column:
        return sf.array(*(_share(measure, o, num, den) for o in owners))

    def io(stream: Column, num: Column | float, den: Column | float) -> Column:
        return sf.array(*(_share(Measure.IO_RATIO, sf.concat(o, colon, stream), num, den) for o in owners))

    def acked(num: Column | float, den: Column | float) -> Column:
        return sf.array(*(_share(Measure.ACK, o, num, den) for o in (sf.col("executor"), sf.lit(""))))

    def connection(target: Column) -> Column:
        return sf.concat(sf.col("executor"), arrow, target, colon, sf.col("stream"))

    # One emit on a stream that two components subscribe to is sent to both, so shares are by component.
    routed = sf.concat(
        sf.array(_share(Measure.ROUTING, connection(sf.col("to_executor")), value, 0.0)),
        sf.transform("to_executors", lambda target: _share(Measure.ROUTING, connection(target), 0.0, value)),
    )
    received = sf.concat(
        both(Measure.ARRIVALS, value, 0.0),
        sf.flatten(sf.transform("outputs", lambda stream: io(stream, 0.0, value))),
    )
    own = ~(
        sf.col("stream").startswith("__") | sf.col("stream").startswith("$")
    )  # not Storm's ticks and acks

    def is_(measurement: str, name: str = MetricField.COUNT) -> Column:
        return (sf.col("measurement") == measurement) & (field == name)

    shares = (
        sf.when(is_(Metric.RECEIVED) & own, received)
        .when(is_(Metric.EMITTED) & own & sf.col("downstream"), io(sf.col("stream"), value, 0.0))
        .when(is_(Metric.TRANSFERRED) & own, routed)
        .when(is_(Metric.SERVICE, MetricField.WALL_SUM_NS), both(Measure.SERVICE, value, 0.0))
        .when(is_(Metric.SERVICE), both(Measure.SERVICE, 0.0, value))
        .when(is_(Metric.ACK, MetricField.SUM_NS), acked(value, 0.0))
        .when(is_(Metric.ACK), acked(0.0, value))
        .when(
            is_(Metric.WORKER, MetricField.CPU_NS),
            sf.array(_share(Measure.WORKER_CPU, sf.col("worker"), value, 0.0)),
        )
    )
    used = sf.col("measurement").isin(
        Metric.RECEIVED, Metric.EMITTED, Metric.TRANSFERRED, Metric.SERVICE, Metric.ACK, Metric.WORKER
    )
    return (
        sums.where(used).select("step", "batch", sf.explode(shares).alias("s")).select("step", "batch", "s.*")
    )


def _seconds(covered: DataFrame) -> DataFrame:
    """Denominators of arrival rates: milliseconds covered, the mean over the subject's tasks."""
    return (
        covered.where("downstream")
        .select("step", "batch", "ms", sf.explode(sf.array("executor", "component")).alias("subject"))
        .groupBy("step", "subject", "batch")
        .agg(sf.avg("ms").alias("den"))
        .select(
            "step",
            "batch",
            sf.lit(Measure.ARRIVALS).alias("measure"),
            "subject",
            sf.lit(0.0).alias("num"),
            "den",
        )
    )


def _worker_seconds(totals: Totals) -> DataFrame:
    """Denominators of a worker's processor use: milliseconds covered, the mean over its tasks.

    Of workers that reported any: of another one nothing is known, and not that it used nothing.
    """
    reported = totals.sums.where(
        (sf.col("measurement") == Metric.WORKER) & (sf.col("field") == MetricField.CPU_NS)
    )
    return (
        totals.covered.join(reported.select("step", "worker").distinct(), ["step", "worker"], "left_semi")
        .groupBy("step", "worker", "batch")
        .agg(sf.avg("ms").alias("den"))
        .select(
            "step",
            "batch",
            sf.lit(Measure.WORKER_CPU).alias("measure"),
            sf.col("worker").alias("subject"),
            sf.lit(0.0).alias("num"),
            "den",
        )
    )


def _percentiles(sums: DataFrame) -> DataFrame:
    """Percentiles from histograms: a bin is named by its upper bound u and is 2^(floor(log2(u-1))-4) wide."""
    service = (sf.col("measurement") == Metric.SERVICE_HIST) & (sf.col("peer") == Clock.WALL)
    ack = sf.col("measurement") == Metric.ACK_HIST
    upper = sf.col("upper")
    width = sf.when(upper <= 32, 1.0).otherwise(sf.pow(sf.lit(2.0), sf.floor(sf.log2(upper - 1)) - 4))
    bins = (
        sums.where(service | ack)
        .select(
            "step",
            sf.when(ack, Measure.ACK).otherwise(Measure.SERVICE).alias("measure"),
            sf.explode(sf.array("executor", sf.when(ack, "").otherwise(sf.col("component")))).alias(
                "subject"
            ),
            sf.col("field").cast("double").alias("upper"),
            "total",
        )
        .groupBy(*KEYS, "upper")
        .agg(sf.sum("total").alias("in_bin"))
        .withColumn("ends", sf.sum("in_bin").over(Window.partitionBy(*KEYS).orderBy("upper")))
        .withColumn("n", sf.sum("in_bin").over(Window.partitionBy(*KEYS)))
    )
    wanted = sf.array(
        *(sf.struct(sf.lit(k).alias("statistic"), sf.lit(v).alias("q")) for k, v in PERCENTILES.items())
    )
    rank, starts = sf.col("w.q") * sf.col("n"), sf.col("ends") - sf.col("in_bin")
    return (
        bins.withColumn("w", sf.explode(wanted))
        .where((sf.col("ends") >= rank) & (starts < rank))
        .select(
            *KEYS,
            sf.col("w.statistic").alias("statistic"),
            ((upper - width + width * (rank - starts) / sf.col("in_bin")) * _NS_TO_MS).alias("value"),
            sf.lit(None).cast("double").alias("within"),
            "n",
        )
    )
