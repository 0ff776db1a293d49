"""Percentiles of latencies: against numpy on the same values, and small cases by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis import distribution
from harness.analysis.distribution import BINS_PER_OCTAVE, binned_quantile, exact_quantiles, histogram
from harness.analysis.inputs import RunRecord, read_run

FRACTIONS = (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0)


def interval_ns(run: RunRecord, step: int) -> np.ndarray:
    """The interval's latencies in ns, sorted, read with pyarrow alone."""
    table = pq.read_table(run.path / "steps" / f"{step:02d}" / "latency.parquet")
    kept = table.filter(table["in_interval"])
    return np.sort(kept["left_ns"].to_numpy() - kept["entered_ns"].to_numpy())


def interpolated(values: np.ndarray, fraction: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan's type 7), written out."""
    place = fraction * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return int(values[low]) + (int(values[high]) - int(values[low])) * (place - low)


def test_quantiles_equal_those_of_the_sorted_values_to_the_last_bit(
    spark: SparkSession, run: RunRecord
) -> None:
    found = exact_quantiles(spark, run, histogram(spark, run), FRACTIONS)
    for s in run.steps:
        values = interval_ns(run, s.index)
        for fraction in FRACTIONS:
            expected = interpolated(values, fraction)
            assert found[s.index, "", fraction] == expected
            assert found[s.index, "sender", fraction] == expected
            assert expected == pytest.approx(np.quantile(values, fraction), rel=1e-12)


def test_counts_and_sums_equal_those_of_the_values(spark: SparkSession, run: RunRecord) -> None:
    counted = histogram(spark, run)
    for s in run.steps:
        values = interval_ns(run, s.index)
        mine = counted[counted["step"] == s.index]
        assert mine["n"].sum() == len(values)
        assert mine["sum_ns"].sum() == values.sum()
        assert mine["batch"].between(0, distribution.BATCHES - 1).all()


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng, n: np.full(n, 3.0), id="all equal"),
        pytest.param(
            lambda rng, n: np.where(np.arange(n) == 0, 60_000.0, 1e-6), id="one of a minute, 1 ns else"
        ),
        pytest.param(lambda rng, n: rng.pareto(0.8, n) + 0.001, id="no mean"),
        pytest.param(lambda rng, n: rng.choice([1.0, 1000.0], n), id="two points"),
    ],
)
def test_quantiles_are_exact_for_skewed_values(spark: SparkSession, tmp_path: Path, draw: object) -> None:
    run = read_run(build(tmp_path / "r", FakeRun(steps=[FakeStep(1, seconds=20, latency_ms=draw)])))  # type: ignore[arg-type]
    found = exact_quantiles(spark, run, histogram(spark, run), FRACTIONS)
    values = interval_ns(run, 0)
    assert [found[0, "", f] for f in FRACTIONS] == [interpolated(values, f) for f in FRACTIONS]


def rewritten(run: RunRecord, values: list[float | None]) -> RunRecord:
    """The run with these ground truths in its first step, all in the interval."""
    path = run.path / "steps" / "00" / "latency.parquet"
    table = pq.read_table(path)
    first = int(np.argmax(table["in_interval"].to_numpy()))
    kept = table.slice(first, len(values))
    at = kept.schema.get_field_index("ground_truth_ms")
    pq.write_table(kept.set_column(at, "ground_truth_ms", pa.array(values, pa.float64())), path)
    return read_run(run.path)


@pytest.fixture
def one_step(tmp_path: Path) -> RunRecord:
    return read_run(build(tmp_path / "one", FakeRun(steps=[FakeStep(1, seconds=20)])))


def test_one_row_is_every_quantile(spark: SparkSession, one_step: RunRecord) -> None:
    run = rewritten(one_step, [2.5])
    found = exact_quantiles(spark, run, histogram(spark, run), FRACTIONS)
    assert {found[0, "", f] for f in FRACTIONS} == {2_500_000.0}


def test_an_empty_step_has_no_quantile(spark: SparkSession, one_step: RunRecord) -> None:
    run = rewritten(one_step, [])
    assert exact_quantiles(spark, run, histogram(spark, run), FRACTIONS) == {}


def test_missing_and_odd_values_are_counted_and_negative_ones_kept(
    spark: SparkSession, one_step: RunRecord
) -> None:
    run = rewritten(one_step, [None, math.nan, math.inf, -1.0, 0.0, 4.0, 1.0])
    counted = histogram(spark, run)
    by_bin = counted.groupby("bin")["n"].sum().to_dict()
    assert by_bin.pop(distribution.MISSING) == 1
    assert by_bin.pop(distribution.NOT_A_NUMBER) == 2
    assert by_bin.pop(distribution.NEGATIVE) == 1
    assert by_bin.pop(distribution.ZERO) == 1
    assert sum(by_bin.values()) == 2
    found = exact_quantiles(spark, run, counted, (0.0, 0.5, 1.0))
    assert [found[0, "", f] for f in (0.0, 0.5, 1.0)] == [-1e6, 0.5e6, 4e6]


def test_bins_rise_with_the_value(spark: SparkSession) -> None:
    values = np.unique(
        np.concatenate([np.arange(1, 2000), 2 ** np.arange(63), np.logspace(0, 17, 3000).astype(int)])
    )
    frame = spark.createDataFrame(pa.table({"ms": values / 1e6}))
    bins = frame.select(distribution.bin_of(sf.col("ms")).alias("bin")).toArrow()["bin"].to_numpy()
    assert (np.diff(bins) >= 0).all()
    assert bins[0] == 0


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=300), st.floats(0, 1))
def test_a_quantile_from_bins_is_within_a_bin_of_the_true_one(values: list[int], fraction: float) -> None:
    bins, counts = np.unique(np.floor(np.log2(values) * BINS_PER_OCTAVE), return_counts=True)
    found = binned_quantile(bins, counts, fraction)
    ordered = sorted(values)
    below = ordered[max(math.ceil(fraction * len(values)) - 1, 0)]
    width = 2 ** (1 / BINS_PER_OCTAVE)
    assert below / width * (1 - 1e-9) <= found <= below * width * (1 + 1e-9)


def test_lognormal_percentiles_come_out_as_drawn(spark: SparkSession, tmp_path: Path) -> None:
    """The median of median * exp(sigma Z) is the median; its 99th percentile median * exp(2.326 sigma)."""
    step = FakeStep(1, seconds=200, rate_tps=100, latency_ms=lognormal(20.0, 0.5))
    run = read_run(build(tmp_path / "r", FakeRun(steps=[step])))
    found = exact_quantiles(spark, run, histogram(spark, run), (0.5, 0.99))
    assert found[0, "", 0.5] / 1e6 == pytest.approx(20.0, rel=0.03)
    assert found[0, "", 0.99] / 1e6 == pytest.approx(20.0 * math.exp(2.3263 * 0.5), rel=0.06)
