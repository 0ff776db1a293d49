"""Percentiles of latencies: against numpy on the same values, and small cases by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from synthetic_run import FakeRun, FakeStep, build, lognormal

from harness.analysis.spark import distribution
from harness.analysis.spark.distribution import BINS_PER_OCTAVE, binned_quantile, exact_quantiles, histogram
from harness.analysis.spark.inputs import RunRecord, read_run

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


DRAWN: dict[str, FakeStep] = {
    "all equal": FakeStep(1, seconds=20, latency_ms=lambda _, n: np.full(n, 3.0)),
    "one of a minute, 1 ns else": FakeStep(
        1, seconds=20, latency_ms=lambda _, n: np.where(np.arange(n) == 0, 60_000.0, 1e-6)
    ),
    "no mean": FakeStep(1, seconds=20, latency_ms=lambda rng, n: rng.pareto(0.8, n) + 0.001),
    "two points": FakeStep(1, seconds=20, latency_ms=lambda rng, n: rng.choice([1.0, 1000.0], n)),
    "lognormal": FakeStep(1, seconds=200, rate_tps=100, latency_ms=lognormal(20.0, 0.5)),
}
GIVEN: dict[str, list[float | None]] = {
    "one row": [2.5],
    "nothing": [],
    "odd": [None, math.nan, math.inf, -1.0, 0.0, 4.0, 1.0],
}
STEP = {name: i for i, name in enumerate((*DRAWN, *GIVEN))}


@dataclass(frozen=True)
class Counted:
    """A run whose steps are those of ``STEP``, and what one job finds in it."""

    run: RunRecord
    histogram: pd.DataFrame
    quantiles: dict[tuple[int, str, float], float]

    def of(self, name: str) -> list[float | None]:
        """The quantiles of a step, of all sinks together."""
        return [self.quantiles.get((STEP[name], "", f)) for f in FRACTIONS]


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    steps = [*DRAWN.values(), *([FakeStep(1, seconds=20)] * len(GIVEN))]
    path = build(tmp_path_factory.mktemp("runs") / "run", FakeRun(steps=steps))
    for name, values in GIVEN.items():
        file = path / "steps" / f"{STEP[name]:02d}" / "latency.parquet"
        table = pq.read_table(file)
        kept = table.slice(int(np.argmax(table["in_interval"].to_numpy())), len(values))
        at = kept.schema.get_field_index("ground_truth_ms")
        pq.write_table(kept.set_column(at, "ground_truth_ms", pa.array(values, pa.float64())), file)
    run = read_run(path)
    found = histogram(spark, run)
    return Counted(run, found, exact_quantiles(spark, run, found, FRACTIONS))


@pytest.mark.parametrize("name", DRAWN)
def test_quantiles_are_exact_for_skewed_values(counted: Counted, name: str) -> None:
    values = interval_ns(counted.run, STEP[name])
    assert counted.of(name) == [interpolated(values, f) for f in FRACTIONS]


def test_one_row_is_every_quantile(counted: Counted) -> None:
    assert set(counted.of("one row")) == {2_500_000.0}


def test_an_empty_step_has_no_quantile(counted: Counted) -> None:
    assert set(counted.of("nothing")) == {None}
    assert STEP["nothing"] not in set(counted.histogram["step"])


def test_missing_and_odd_values_are_counted_and_negative_ones_kept(counted: Counted) -> None:
    mine = counted.histogram[counted.histogram["step"] == STEP["odd"]]
    by_bin = mine.groupby("bin")["n"].sum().to_dict()
    assert by_bin.pop(distribution.MISSING) == 1
    assert by_bin.pop(distribution.NOT_A_NUMBER) == 2
    assert by_bin.pop(distribution.NEGATIVE) == 1
    assert by_bin.pop(distribution.ZERO) == 1
    assert sum(by_bin.values()) == 2
    found = dict(zip(FRACTIONS, counted.of("odd"), strict=True))
    assert [found[f] for f in (0.0, 0.5, 1.0)] == [-1e6, 0.5e6, 4e6]


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


def test_lognormal_percentiles_come_out_as_drawn(counted: Counted) -> None:
    """The median of median * exp(sigma Z) is the median; its 99th percentile median * exp(2.326 sigma)."""
    found = {f: (ns or 0) / 1e6 for f, ns in zip(FRACTIONS, counted.of("lognormal"), strict=True)}
    assert found[0.5] == pytest.approx(20.0, rel=0.03)
    assert found[0.99] == pytest.approx(20.0 * math.exp(2.3263 * 0.5), rel=0.06)
