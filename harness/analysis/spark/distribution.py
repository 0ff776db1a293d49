"""Latency distributions of every step: one pass into fine log-scale bins, one for exact percentiles.

No group's samples are ever held together. The first pass counts samples in bins of 1/64 octave
(1.1 %) by step, sink and batch; it gives counts, sums, the figures' distributions and the batches'
percentiles. The second reads the few bins that hold the wanted ranks and sorts only those. So the percentiles
are order statistics of all samples, exact to the nanosecond, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from harness.analysis.spark import tables
from harness.analysis.spark.inputs import Source

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BINS_PER_OCTAVE = 64
BATCHES = 20
"""Batches of equal time into which an interval is cut for batch means and batch percentiles."""
MISSING, NOT_A_NUMBER, NEGATIVE, ZERO = -4, -3, -2, -1
"""Bins of the values that have no logarithm; ordered as the values are. The first two hold no value."""
MOST_BINS = 20_000
"""A step's bins of all batches, on average over the steps of many runs: the archived ones have 3,500."""

Integers = npt.NDArray[np.int64]


def nanoseconds(milliseconds: Column) -> Column:
    """Return whole nanoseconds of a column in ms; null where it is null, infinite or not a number."""
    # Not `round`, which goes through decimal text and costs more than all the rest of a row.
    return sf.when(_finite(milliseconds), sf.rint(milliseconds * 1e6).cast("bigint"))


def _finite(column: Column) -> Column:
    """Return a column: True where a value is finite (Spark orders NaN above infinity), null where null."""
    return sf.abs(column) < sf.lit(float("inf"))


def log_bin(ns: Column, bins_per_octave: int) -> Column:
    """Return the bin of a column in whole ns that is not null: the floor of n log2(ns), or a special bin."""
    return (
        sf.when(ns < 0, NEGATIVE)
        .when(ns == 0, ZERO)
        .otherwise(sf.floor(sf.ln(ns.cast("double")) * (bins_per_octave / math.log(2))).cast("int"))
    )


def bin_of(milliseconds: Column, ns: Column | None = None) -> Column:
    """Return the bin of a column in ms: the floor of 64 log2(ns), or one of the special bins.

    ``ns`` is the column in whole ns, where there is one already.
    """
    ns = nanoseconds(milliseconds) if ns is None else ns
    return (
        sf.when(ns.isNotNull(), log_bin(ns, BINS_PER_OCTAVE))
        .when(milliseconds.isNull(), MISSING)
        .otherwise(NOT_A_NUMBER)
    )


def batch_of(time: Column, start: Column, end: Column, batches: int = BATCHES) -> Column:
    """Return which of the interval's equal parts a time lies in (outside 0..batches-1 when it is not)."""
    return sf.floor((time - start) * sf.lit(float(batches)) / (end - start)).cast("int")


def measured(spark: SparkSession, source: Source) -> DataFrame:
    """Rows scheduled within the measured intervals, with ``ns``, ``bin`` and ``batch``."""
    ms = sf.col("ground_truth_ms")
    return (
        tables.latency(spark, source)
        .where("in_interval")
        .withColumn("ns", nanoseconds(ms))
        .withColumn("bin", bin_of(ms, sf.col("ns")))
        .withColumn("batch", batch_of(sf.col("scheduled_ns"), sf.col("start_ns"), sf.col("end_ns")))
    )


def histogram(spark: SparkSession, source: Source) -> pd.DataFrame:
    """Count the ground-truth latencies of the intervals.

    Returns
    -------
    DataFrame
        Columns step, sink, batch, bin, n and sum_ns (exact, of the bin's samples).
    """
    counted = (
        measured(spark, source)
        .groupBy("step", "sink", "batch", "bin")
        .agg(sf.count("*").alias("n"), sf.sum("ns").alias("sum_ns"))
    )
    most = max(tables.MOST_ROWS, MOST_BINS * len(source.steps))
    frame = tables.collect_frame(counted, "latency histogram", most)
    return frame.fillna({"sum_ns": 0}).astype({"sum_ns": "int64"})


@dataclass(frozen=True)
class Counts:
    """The latencies of one step, of the whole topology (subject ``""``) or of a sink, counted.

    Attributes
    ----------
    bins : array (bins)
        Those that hold a value, rising.
    n : array (batches, bins)
        Samples.
    sums_ns : array (batches)
    batches : array (batches)
        The batches' numbers.
    only_sink : bool
        Whether it is a sink that all of the step's latencies are of.
    """

    step: int
    subject: str
    bins: Integers
    n: Integers
    sums_ns: Integers
    batches: Integers
    only_sink: bool = False

    @cached_property
    def ends(self) -> Integers:
        """Samples up to each bin's end."""
        return np.asarray(self.n.sum(axis=0).cumsum(), dtype=np.int64)

    @property
    def samples(self) -> int:
        """Their number."""
        return int(self.ends[-1])

    def place(self, rank: int) -> tuple[int, int]:
        """Return the bin that holds a rank (from 0), and the rank within it."""
        at = int(np.searchsorted(self.ends, rank, side="right"))
        return int(self.bins[at]), rank - int(self.ends[at - 1] if at else 0)

    def batch_quantiles(self, fraction: float, batches: int) -> tuple[Floats, Ints]:
        """Return the quantile in ns, and the samples, of so many batches (a divisor of ``BATCHES``)."""
        _, into = np.unique(self.batches * batches // BATCHES, return_inverse=True)
        n = np.zeros((into.max() + 1, len(self.bins)), dtype=np.int64)
        np.add.at(n, into, self.n)
        counts = n.sum(axis=1)
        return np.array([binned_quantile(self.bins, row, fraction) for row in n]), counts


def groups(histogram: pd.DataFrame) -> Iterator[Counts]:
    """Yield each step's values, those of the whole topology first, then of each sink."""
    values = histogram[histogram["bin"] >= NEGATIVE]
    for step, of_step in values.groupby("step"):
        yield _counts(int(str(step)), "", of_step)
        by_sink = list(of_step.groupby("sink"))
        for sink, of_sink in by_sink:
            yield _counts(int(str(step)), str(sink), of_sink, only_sink=len(by_sink) == 1)


def _counts(step: int, subject: str, rows: pd.DataFrame, only_sink: bool = False) -> Counts:
    batches, row = np.unique(rows["batch"].to_numpy(), return_inverse=True)
    bins, column = np.unique(rows["bin"].to_numpy(), return_inverse=True)
    n = np.zeros((len(batches), len(bins)), dtype=np.int64)
    np.add.at(n, (row, column), rows["n"].to_numpy())
    sums_ns = np.zeros(len(batches), dtype=np.int64)
    np.add.at(sums_ns, row, rows["sum_ns"].to_numpy())
    return Counts(step, subject, bins, n, sums_ns, batches, only_sink)


def exact_quantiles(
    spark: SparkSession, source: Source, histogram: pd.DataFrame, fractions: Sequence[float]
) -> dict[tuple[int, str, float], float]:
    """Return exact quantiles in ns, interpolated linearly between the two neighbouring order statistics.

    Returns
    -------
    dict
        By step, subject (``""`` or a sink) and fraction.
    """
    found = list(groups(histogram))
    between: dict[tuple[int, str, float], tuple[Rank, Rank, float]] = {}
    for counts in found:
        subject = "" if counts.only_sink else counts.subject
        for fraction in fractions:
            place = fraction * (counts.samples - 1)
            low = math.floor(place)
            ends = (low, min(low + 1, counts.samples - 1))
            first, second = ((counts.step, subject, *counts.place(rank)) for rank in ends)
            between[counts.step, counts.subject, fraction] = first, second, place - low
    ns = _order_statistics(spark, source, {rank for *ranks, _ in between.values() for rank in ranks})
    return {
        key: ns[first] + (ns[second] - ns[first]) * part for key, (first, second, part) in between.items()
    }


Rank = tuple[int, str, int, int]
"""Step, subject, bin and the rank within it."""


def _order_statistics(spark: SparkSession, source: Source, wanted: set[Rank]) -> dict[Rank, int]:
    """Return the values at some ranks within some bins."""
    if not wanted:
        return {}
    names = ("step", "subject", "bin", "rank")
    rows: list[dict[str, object]] = [dict(zip(names, key, strict=True)) for key in sorted(wanted)]
    kinds = pa.schema(
        [("step", pa.int32()), ("subject", pa.string()), ("bin", pa.int32()), ("rank", pa.int64())]
    )
    places = tables.from_rows(spark, rows, kinds)
    of_bin, of_subject = ["step", "bin"], ["step", "subject", "bin"]
    # Most rows are in no wanted bin, and go before anything is done with them; equal values are one row.
    candidates = (
        measured(spark, source)
        .select(*of_bin, "sink", "ns")
        .join(sf.broadcast(places.select(*of_bin).distinct()), of_bin)
        .select(*of_bin, "ns", sf.explode(sf.array(sf.lit(""), "sink")).alias("subject"))
        .join(sf.broadcast(places.select(*of_subject).distinct()), of_subject)
        .groupBy(*of_subject, "ns")
        .agg(sf.count("*").alias("n"))
    )
    ends = sf.sum("n").over(Window.partitionBy(*of_subject).orderBy("ns"))
    ranked = (
        candidates.withColumn("ends", ends)
        .join(sf.broadcast(places), of_subject)
        .where((sf.col("rank") < sf.col("ends")) & (sf.col("rank") >= sf.col("ends") - sf.col("n")))
        .select(*names, "ns")
    )
    found = tables.collect_frame(ranked, "order statistics")
    return {(r["step"], r["subject"], r["bin"], r["rank"]): r["ns"] for r in found.to_dict("records")}


def quantile_in_bin(lower: Column, inside: Column, bins_per_octave: int = BINS_PER_OCTAVE) -> Column:
    """Return the value in ns at a share ``inside`` of a bin; 0 for that of zeros, null below.

    The sketch of Masson, Rim and Lee (2019): whatever the distribution, it is within a bin of the true one.
    """
    return sf.when(lower >= 0, sf.pow(sf.lit(2.0), (lower + inside) / bins_per_octave)).when(
        lower == ZERO, 0.0
    )


def binned_quantile(bins: Floats | Ints, counts: Floats | Ints, fraction: float) -> float:
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
