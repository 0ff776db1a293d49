"""Latency distributions of every step: one pass into fine log-scale bins, one for exact percentiles.

No group's samples are ever held together. The first pass counts samples in bins of 1/64 octave
(1.1 %) by step, sink and batch; it gives counts, sums, the figures' distributions and the batches'
percentiles. The second reads the few bins that hold the wanted ranks and sorts only those, so the percentiles
are order statistics of all samples, exact to the nanosecond, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis import tables
from harness.analysis.inputs import RunRecord

BINS_PER_OCTAVE = 64
BATCHES = 20
"""Batches of equal time into which an interval is cut for batch means and batch percentiles."""
MISSING, NOT_A_NUMBER, NEGATIVE, ZERO = -4, -3, -2, -1
"""Bins of the values that have no logarithm; ordered as the values are. The first two hold no value."""

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def nanoseconds(milliseconds: Column) -> Column:
    """Return whole nanoseconds of a column in ms; null where it is null, infinite or not a number."""
    return sf.when(_finite(milliseconds), sf.round(milliseconds * 1e6).cast("bigint"))


def _finite(column: Column) -> Column:
    """Whether a value is finite (Spark orders NaN above infinity); null where it is null."""
    return sf.abs(column) < sf.lit(float("inf"))


def bin_of(milliseconds: Column) -> Column:
    """Return the bin of a column in ms: the floor of 64 log2(ns), or one of the special bins."""
    ns = nanoseconds(milliseconds)
    return (
        sf.when(milliseconds.isNull(), MISSING)
        .when(~_finite(milliseconds), NOT_A_NUMBER)
        .when(ns < 0, NEGATIVE)
        .when(ns == 0, ZERO)
        .otherwise(sf.floor(sf.log2(ns.cast("double")) * BINS_PER_OCTAVE).cast("int"))
    )


def batch_of(time: Column, start: Column, end: Column, batches: int = BATCHES) -> Column:
    """Return which of the interval's equal parts a time lies in (outside 0..batches-1 when it is not)."""
    return sf.floor((time - start) * sf.lit(float(batches)) / (end - start)).cast("int")


def measured(spark: SparkSession, run: RunRecord) -> DataFrame:
    """Rows scheduled within the measured intervals, with ``ns``, ``bin`` and ``batch``."""
    ms = sf.col("ground_truth_ms")
    when = sf.broadcast(tables.intervals(spark, run))
    return (
        tables.latency(spark, run)
        .where("in_interval")
        .join(when, "step")
        .withColumn("ns", nanoseconds(ms))
        .withColumn("bin", bin_of(ms))
        .withColumn("batch", batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns")))
    )


def histogram(spark: SparkSession, run: RunRecord) -> pd.DataFrame:
    """Count the ground-truth latencies of the intervals.

    Returns
    -------
    DataFrame
        Columns step, sink, batch, bin, n and sum_ns (exact, of the bin's samples).
    """
    counted = (
        measured(spark, run)
        .groupBy("step", "sink", "batch", "bin")
        .agg(sf.count("*").alias("n"), sf.sum("ns").alias("sum_ns"))
    )
    frame = tables.collect_frame(counted, "latency histogram")
    return frame.fillna({"sum_ns": 0}).astype({"sum_ns": "int64"})


def groups(histogram: pd.DataFrame) -> Iterator[tuple[int, str, pd.DataFrame]]:
    """Yield step, subject and the bins with values: the whole topology (``""``), then each sink."""
    values = histogram[histogram["bin"] >= NEGATIVE]
    for step, of_step in values.groupby("step"):
        yield int(str(step)), "", of_step
        for sink, of_sink in of_step.groupby("sink"):
            yield int(str(step)), str(sink), of_sink


def exact_quantiles(
    spark: SparkSession, run: RunRecord, histogram: pd.DataFrame, fractions: Sequence[float]
) -> dict[tuple[int, str, float], float]:
    """Return exact quantiles in ns, interpolated linearly between the two neighbouring order statistics.

    Returns
    -------
    dict
        By step, subject (``""`` or a sink) and fraction.
    """
    places: dict[tuple[int, str, float], tuple[int, int, float]] = {}
    wanted: set[tuple[int, str, int, int]] = set()
    starts: dict[tuple[int, str], tuple[pd.Index, np.ndarray]] = {}
    for step, subject, found in groups(histogram):
        counts = found.groupby("bin")["n"].sum()
        ends = counts.to_numpy().cumsum()
        starts[step, subject] = counts.index, ends - counts.to_numpy()
        for fraction in fractions:
            place = fraction * (int(ends[-1]) - 1)
            low = int(np.floor(place))
            high = min(low + 1, int(ends[-1]) - 1)
            places[step, subject, fraction] = low, high, place - low
            for rank in (low, high):
                at = int(np.searchsorted(ends, rank, side="right"))
                wanted.add((step, subject, int(counts.index[at]), rank - int(ends[at] - counts.iloc[at])))
    values = _order_statistics(spark, run, wanted)
    out: dict[tuple[int, str, float], float] = {}
    for (step, subject, fraction), (low, high, part) in places.items():
        bins, first = starts[step, subject]
        pair = []
        for rank in (low, high):
            at = int(np.searchsorted(first, rank, side="right")) - 1
            pair.append(values[step, subject, int(bins[at]), rank - int(first[at])])
        out[step, subject, fraction] = pair[0] + (pair[1] - pair[0]) * part
    return out


def _order_statistics(
    spark: SparkSession, run: RunRecord, wanted: set[tuple[int, str, int, int]]
) -> dict[tuple[int, str, int, int], int]:
    """Return the values at some ranks within some bins, by step, subject, bin and rank."""
    if not wanted:
        return {}
    names = ("step", "subject", "bin", "rank")
    rows: list[dict[str, object]] = [dict(zip(names, key, strict=True)) for key in sorted(wanted)]
    kinds = pa.schema(
        [("step", pa.int32()), ("subject", pa.string()), ("bin", pa.int32()), ("rank", pa.int32())]
    )
    places = tables.from_rows(spark, rows, kinds)
    key = ["step", "subject", "bin"]
    candidates = (
        measured(spark, run)
        .select("step", "bin", "ns", sf.explode(sf.array(sf.lit(""), "sink")).alias("subject"))
        .join(sf.broadcast(places.select(*key).distinct()), key)
    )
    ranked = candidates.withColumn(
        "rank", sf.row_number().over(Window.partitionBy(*key).orderBy("ns")) - sf.lit(1)
    )
    found = tables.collect_frame(ranked.join(sf.broadcast(places), [*key, "rank"]), "order statistics")
    return {(r["step"], r["subject"], r["bin"], r["rank"]): r["ns"] for r in found.to_dict("records")}


def binned_quantile(bins: np.ndarray, counts: np.ndarray, fraction: float) -> float:
    """Return a quantile in ns read from bins, interpolated within its bin (half a bin: 0.5 %).

    For batches and figures; what is judged is exact.

    Examples
    --------
    >>> round(binned_quantile(np.array([640]), np.array([100]), 0.5))  # 2**10 to 2**(10 + 1/64)
    1030
    """
    ends = counts.cumsum()
    at = int(np.searchsorted(ends, fraction * ends[-1]))
    if bins[at] <= ZERO:
        return 0.0 if bins[at] == ZERO else float("nan")
    inside = (fraction * ends[-1] - (ends[at] - counts[at])) / counts[at]
    return float(2 ** ((bins[at] + inside) / BINS_PER_OCTAVE))
