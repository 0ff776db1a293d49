"""Measured latency: ground truth by both protocols, and Storm's own complete latency."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.distribution import (
    BATCHES,
    Counts,
    batch_of,
    exact_quantiles,
    groups,
    nanoseconds,
)
from harness.analysis.spark.inputs import Source, StepRecord
from harness.analysis.spark.noise import batches_for, quantile_error
from harness.schemas import PERCENTILES, Measure

OUTPUT = ["step", "output_partition", "output_offset"]
"""Columns that tell the outputs of sinks apart."""


class Actual(NamedTuple):
    """One measured number.

    Attributes
    ----------
    step : int
    measure, statistic : str
    value : float, optional
        None where it was not measured.
    protocol : {'ours', 'thesis'}
    subject : str
        Empty for the whole topology.
    within : float, optional
        Standard error within the interval.
    n : float
        Samples that the number is made of.
    note : str
        The reason why a number is missing.
    """

    step: int
    measure: str
    statistic: str
    value: float | None
    protocol: str = "ours"
    subject: str = ""
    within: float | None = None
    n: float = 0.0
    note: str = ""


def ground_truth(spark: SparkSession, source: Source, histogram: pd.DataFrame) -> Iterator[Actual]:
    """Mean and exact percentiles of all messages of the intervals, by step and by sink."""
    exact = exact_quantiles(spark, source, histogram, list(PERCENTILES.values()))
    for found in groups(histogram):
        of = partial(Actual, found.step, Measure.GROUND_TRUTH, subject=found.subject, n=found.samples)
        mean = int(found.sums_ns.sum()) / found.samples / 1e6
        per_batch = found.n.sum(axis=1)
        error = quantile_error(found.sums_ns / per_batch / 1e6, per_batch, mean)
        yield of("mean", mean, within=error)
        for statistic, fraction in PERCENTILES.items():
            value_ns = exact[found.step, found.subject, fraction]
            error = _percentile_error(found, fraction, value_ns)
            yield of(statistic, value_ns / 1e6, within=error)


def _percentile_error(found: Counts, fraction: float, value_ns: float) -> float | None:
    batches = batches_for(found.samples, fraction, BATCHES)
    if not batches:
        return None
    error = quantile_error(*found.batch_quantiles(fraction, batches), value_ns)
    return None if error is None else error / 1e6


def complete(step: StepRecord) -> Iterator[Actual]:
    """Storm's complete latency: the mean by spout executor, and over all weighted by what each acked.

    The thesis's protocol (5.7.2) takes the median of the metric buckets of each spout. Storm 2.x gives its
    complete latency for the whole interval only, which is then the one bucket there is. Of all spouts
    together the thesis's protocol takes the mean.
    """
    by_spout = step.interval.complete_latency_ms
    found = {k: v.mean_ms for k, v in by_spout.items() if v.mean_ms is not None and v.acked > 0}
    plan = step.plan.start
    for executor in (e for spout in plan.query_plan.spouts for e in plan.of(spout)):
        value = found.get(executor.label)
        acked = by_spout[executor.label].acked if executor.label in by_spout else 0
        note = "" if value is not None else "no tuple of this executor was acked in the interval"
        for protocol, statistic in (("ours", "mean"), ("thesis", "p90_paths")):
            yield Actual(
                step.index,
                Measure.COMPLETE,
                statistic,
                value,
                protocol=protocol,
                subject=executor.label,
                n=acked,
                note=note,
            )
    by_executor = list(found.values())
    yield Actual(
        step.index,
        Measure.COMPLETE,
        "p90_paths",
        sum(by_executor) / len(by_executor) if by_executor else None,
        protocol="thesis",
        n=len(by_executor),
        note="" if by_executor else "Storm reported no complete latency in the interval",
    )
    mean = complete_mean_ms(step)
    note = "" if mean is not None else "Storm reported no complete latency in the interval"
    acked = sum(by_spout[k].acked for k in found)
    yield Actual(step.index, Measure.COMPLETE, "mean", mean, n=acked, note=note)


def complete_mean_ms(step: StepRecord) -> float | None:
    """Return Storm's mean complete latency over all spout executors, or None where none was reported."""
    found = [v for v in step.interval.complete_latency_ms.values() if v.mean_ms is not None and v.acked > 0]
    acked = sum(v.acked for v in found)
    return sum(v.mean_ms * v.acked for v in found if v.mean_ms is not None) / acked if acked else None


def thesis_ground_truth(spark: SparkSession, source: Source) -> Iterator[Actual]:
    """Yield the thesis's ground truth (5.7.2): outputs within one worker node, cut at the complete latency.

    The thesis names three cuts: the complete latency, its 90th percentile and its average (caption of
    figure 5.22). Here it is the average, which is what Storm measures; nothing is cut under our own
    protocol. Of a window's output it takes the one path that the window bolt chose at random (5.3.1).
    """
    frame = thesis_counts(spark, source)
    by_step = dict(iter(frame.groupby("step")))
    for s in source.steps:
        of_step = by_step.get(s.index, frame.iloc[:0])
        outputs, same, samples = (int(of_step[k].sum()) for k in ("outputs", "same", "kept"))
        note = f"{outputs} outputs, {same} within one worker node, {samples} of them below the cut"
        value = within = None
        if complete_mean_ms(s) is None:
            note = "not cut and so not measured: Storm reported no complete latency"
        elif samples:
            value = int(of_step["sum_ns"].sum()) / samples / 1e6
            some = of_step[of_step["kept"] > 0]
            means = some["sum_ns"].to_numpy() / some["kept"].to_numpy() / 1e6
            within = quantile_error(means, some["kept"].to_numpy(), value)
        yield Actual(
            s.index,
            Measure.GROUND_TRUTH,
            "mean_same_node",
            value,
            protocol="thesis",
            within=within,
            n=samples,
            note=note,
        )


def thesis_counts(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Count the outputs of the intervals as the thesis's protocol sees them.

    Returns
    -------
    DataFrame
        Columns step, batch, outputs, same (within one worker node), kept (of them below the cut) and
        sum_ns (of what is kept), in order.
    """
    cuts: list[dict[str, object]] = [
        {"step": s.index, "cut_ns": None if (ms := complete_mean_ms(s)) is None else ms * 1e6}
        for s in source.steps
    ]
    cut = tables.from_rows(spark, cuts, pa.schema([("step", pa.int32()), ("cut_ns", pa.float64())]))
    kept = sf.col("same") & (sf.col("ns") <= sf.col("cut_ns"))
    counted = (
        _thesis_outputs(spark, source)
        .join(sf.broadcast(cut), "step")
        .groupBy("step", "batch")
        .agg(
            sf.count("ns").alias("outputs"),
            sf.count_if("same").alias("same"),
            sf.count_if(kept).alias("kept"),
            sf.coalesce(sf.sum(sf.when(kept, sf.col("ns"))), sf.lit(0)).alias("sum_ns"),
        )
    )
    found = tables.collect_frame(counted, "thesis protocol")
    return found.sort_values(["step", "batch"], ignore_index=True)


def _thesis_outputs(spark: SparkSession, source: Source) -> DataFrame:
    """One row an output of a sink: step, batch, ns, and whether its path begins and ends on one node."""
    first, last = (sf.try_element_at("hops", sf.lit(end)) for end in (1, -1))
    rows = (
        tables.latency(spark, source)
        .where("in_interval")
        .select(
            "step",
            batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns")).alias("batch"),
            nanoseconds(sf.col("thesis_ground_truth_ms")).alias("ns"),
            (last["emitted_ns"] - first["emitted_ns"]).alias("member_ns"),
            "path",
            *OUTPUT[1:],
            first["task"].alias("first"),
            last["task"].alias("last"),
        )
    )
    nodes = tables.tasks(spark, source).select("step", "task", "node")
    for end in ("first", "last"):
        named = nodes.select("step", sf.col("task").alias(end), sf.col("node").alias(f"{end}_node"))
        rows = rows.join(sf.broadcast(named), ["step", end], "left")
    same = sf.coalesce(sf.col("first_node") == sf.col("last_node"), sf.lit(False))
    rows = rows.withColumn("same", same & sf.col("ns").isNotNull())
    windowed = any(c.window is not None for s in source.steps for c in s.plan.start.query_plan.components)
    return _chosen_paths(rows) if windowed else rows.select("step", "batch", "ns", "same")


def _chosen_paths(members: DataFrame) -> DataFrame:
    """One row a window's output: of its members' paths the one that the output's latency belongs to.

    The window bolt reports only the mean entry time of the path it chose. So that path is the one whose
    members' mean entry time is nearest to it (of two that are equally near, one within a node).
    """
    # An output's members are brought together once; their paths, long texts, only have to be told apart.
    together = members.withColumn("path", sf.xxhash64("path")).repartition(*OUTPUT)
    by_path = together.groupBy(*OUTPUT, "path").agg(
        sf.min("batch").alias("batch"),
        sf.min("ns").alias("ns"),
        sf.min("same").alias("same"),
        sf.avg("member_ns").alias("mean_ns"),
    )
    off = sf.abs(sf.col("mean_ns") - sf.col("ns"))
    nearest = by_path.groupBy(*OUTPUT).agg(
        sf.min_by("batch", off).alias("batch"),
        sf.min("ns").alias("ns"),
        sf.min(sf.when(sf.col("same"), off)).alias("within"),
        sf.min(sf.when(~sf.col("same"), off)).alias("between"),
    )
    same = sf.coalesce(sf.col("within") <= sf.col("between"), sf.col("within").isNotNull())
    return nearest.select("step", "batch", "ns", same.alias("same"))
