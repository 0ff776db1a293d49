"""What was measured of latency: ground truth by both protocols, and Storm's own complete latency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.distribution import (
    BATCHES,
    PERCENTILES,
    batch_of,
    binned_quantile,
    exact_quantiles,
    groups,
    nanoseconds,
)
from harness.analysis.inputs import RunRecord, StepRecord
from harness.analysis.noise import batches_for, quantile_error

GROUND_TRUTH = "ground_truth_latency_ms"
COMPLETE = "complete_latency_ms"

Actual = dict[str, Any]
"""One measured number: step, protocol, measure, subject, statistic, value, within, n, note."""


def actual(
    step: int,
    measure: str,
    statistic: str,
    value: float | None,
    *,
    protocol: str = "ours",
    subject: str = "",
    within: float | None = None,
    n: float = 0.0,
    note: str = "",
) -> Actual:
    """Return one measured number; ``note`` says why where there is none."""
    return {
        "step": step,
        "protocol": protocol,
        "measure": measure,
        "subject": subject,
        "statistic": statistic,
        "value": value,
        "within": within,
        "n": float(n),
        "note": note,
    }


def ground_truth(spark: SparkSession, run: RunRecord, histogram: pd.DataFrame) -> Iterator[Actual]:
    """Mean and exact percentiles of all messages of the intervals, by step and by sink."""
    exact = exact_quantiles(spark, run, histogram, list(PERCENTILES.values()))
    for step, subject, found in groups(histogram):
        total, samples = int(found["sum_ns"].sum()), int(found["n"].sum())
        of_batch = found.groupby("batch")[["sum_ns", "n"]].sum()
        mean = total / samples / 1e6
        yield actual(
            step,
            GROUND_TRUTH,
            "mean",
            mean,
            subject=subject,
            within=quantile_error(
                of_batch["sum_ns"].to_numpy() / of_batch["n"].to_numpy() / 1e6, of_batch["n"].to_numpy(), mean
            ),
            n=samples,
        )
        for statistic, fraction in PERCENTILES.items():
            value_ns = exact[step, subject, fraction]
            yield actual(
                step,
                GROUND_TRUTH,
                statistic,
                value_ns / 1e6,
                subject=subject,
                within=_percentile_error(found, fraction, value_ns, samples),
                n=samples,
            )


def _percentile_error(found: pd.DataFrame, fraction: float, value_ns: float, samples: int) -> float | None:
    batches = batches_for(samples, fraction, BATCHES)
    if not batches:
        return None
    counted = found.assign(batch=found["batch"] * batches // BATCHES).groupby(["batch", "bin"])["n"].sum()
    values, counts = [], []
    for _, of_batch in counted.groupby(level="batch"):
        bins = of_batch.index.get_level_values("bin").to_numpy()
        values.append(binned_quantile(bins, of_batch.to_numpy(), fraction))
        counts.append(int(of_batch.sum()))
    error = quantile_error(np.array(values), np.array(counts), value_ns)
    return None if error is None else error / 1e6


def complete(step: StepRecord) -> Iterator[Actual]:
    """Storm's complete latency: the mean by spout executor, and over all weighted by what each acked.

    The thesis's protocol (5.7.2) takes the median of the metric buckets of each spout; Storm 2.x gives
    its complete latency for the whole interval only, which is then the one bucket there is. Of all spouts
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
            yield actual(
                step.index,
                COMPLETE,
                statistic,
                value,
                protocol=protocol,
                subject=executor.label,
                n=acked,
                note=note,
            )
    by_executor = list(found.values())
    yield actual(
        step.index,
        COMPLETE,
        "p90_paths",
        sum(by_executor) / len(by_executor) if by_executor else None,
        protocol="thesis",
        n=len(by_executor),
        note="" if by_executor else "Storm reported no complete latency in the interval",
    )
    mean = complete_mean_ms(step)
    note = "" if mean is not None else "Storm reported no complete latency in the interval"
    acked = sum(by_spout[k].acked for k in found)
    yield actual(step.index, COMPLETE, "mean", mean, n=acked, note=note)


def complete_mean_ms(step: StepRecord) -> float | None:
    """Return Storm's mean complete latency over all spout executors, or None where none was reported."""
    found = [v for v in step.interval.complete_latency_ms.values() if v.mean_ms is not None and v.acked > 0]
    acked = sum(v.acked for v in found)
    return sum(v.mean_ms * v.acked for v in found if v.mean_ms is not None) / acked if acked else None


def thesis_ground_truth(spark: SparkSession, run: RunRecord) -> Iterator[Actual]:
    """Yield the thesis's ground truth (5.7.2): outputs within one worker node, cut at the complete latency.

    The thesis names three cuts: the complete latency, its 90th percentile and its average (caption of
    figure 5.22). Here it is the average, which is what Storm measures; nothing is cut under our own
    protocol. Of a window's output it takes the one path that the window bolt chose at random (5.3.1).
    """
    cuts: list[dict[str, object]] = [
        {"step": s.index, "cut_ns": None if (ms := complete_mean_ms(s)) is None else ms * 1e6}
        for s in run.steps
    ]
    cut = tables.from_rows(spark, cuts, pa.schema([("step", pa.int32()), ("cut_ns", pa.float64())]))
    kept = sf.col("same") & (sf.col("ns") <= sf.col("cut_ns"))
    counted = (
        _thesis_outputs(spark, run)
        .join(sf.broadcast(cut), "step")
        .groupBy("step", "batch")
        .agg(
            sf.count("ns").alias("outputs"),
            sf.count_if("same").alias("same"),
            sf.count_if(kept).alias("kept"),
            sf.coalesce(sf.sum(sf.when(kept, sf.col("ns"))), sf.lit(0)).alias("sum_ns"),
        )
    )
    frame = tables.collect_frame(counted, "thesis protocol")
    for s in run.steps:
        of_step = frame[frame["step"] == s.index]
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
        yield actual(
            s.index,
            GROUND_TRUTH,
            "mean_same_node",
            value,
            protocol="thesis",
            within=within,
            n=samples,
            note=note,
        )


def _thesis_outputs(spark: SparkSession, run: RunRecord) -> DataFrame:
    """One row an output of a sink: step, batch, ns, and whether its path begins and ends on one node."""
    when = sf.broadcast(tables.intervals(spark, run))
    rows = (
        tables.latency(spark, run)
        .where("in_interval")
        .join(when, "step")
        .select(
            "step",
            batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns")).alias("batch"),
            nanoseconds(sf.col("thesis_ground_truth_ms")).alias("ns"),
            "left_ns",
            "entered_ns",
            "path",
            "output_partition",
            "output_offset",
            sf.try_element_at("hops", sf.lit(1))["task"].alias("first"),
            sf.try_element_at("hops", sf.lit(-1))["task"].alias("last"),
        )
    )
    windowed = any(c.window is not None for s in run.steps for c in s.plan.start.query_plan.components)
    if windowed:
        rows = _chosen_paths(rows)
    nodes = tables.tasks(spark, run).select("step", "task", "node")
    for end in ("first", "last"):
        named = nodes.select("step", sf.col("task").alias(end), sf.col("node").alias(f"{end}_node"))
        rows = rows.join(sf.broadcast(named), ["step", end], "left")
    return rows.withColumn("same", sf.coalesce(sf.col("first_node") == sf.col("last_node"), sf.lit(False)))


def _chosen_paths(members: DataFrame) -> DataFrame:
    """One row a window's output: of its members' paths the one that the output's latency belongs to.

    The window bolt reports only the mean entry time of the path it chose, so that path is the one whose
    members' mean entry time is nearest to it.
    """
    output = ["step", "output_partition", "output_offset"]
    by_path = members.groupBy(*output, "path").agg(
        *(sf.first(k).alias(k) for k in ("batch", "ns", "first", "last")),
        sf.avg(sf.col("left_ns") - sf.col("entered_ns")).alias("mean_ns"),
    )
    off = sf.abs(sf.col("mean_ns") - sf.col("ns"))
    row = sf.struct("batch", "ns", "first", "last")
    return (
        by_path.groupBy(*output)
        .agg(sf.min_by(row, sf.struct(off, "path")).alias("row"))
        .select("step", "row.*")
    )
