"""Noise: against numpy on the same cells, and the textbook error of independent samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.analysis.spark.noise import batches_for, quantile_error, ratio


def ratio_of(spark: SparkSession, num: Sequence[float], den: Sequence[float]) -> dict[str, float | None]:
    cells = pa.table(
        {"key": ["k"] * len(num), "num": pa.array(num, pa.float64()), "den": pa.array(den, pa.float64())}
    )
    rows = ratio(spark.createDataFrame(cells), ["key"], sf.lit(1.0)).toArrow().to_pylist()
    return dict(rows[0])


def test_ratio_and_its_error_equal_the_formula(spark: SparkSession) -> None:
    rng = np.random.default_rng(3)
    den = rng.integers(50, 150, 10).astype(float)
    num = den * 2.5 + rng.normal(0, 5, 10)
    found = ratio_of(spark, list(num), list(den))
    value = num.sum() / den.sum()
    expected = (
        np.sqrt(((num - value * den) ** 2).sum() / 90) / den.mean()
    )  # Cochran, Sampling Techniques, 6.4
    assert found["value"] == pytest.approx(value, rel=1e-14)
    assert found["within"] == pytest.approx(expected, rel=1e-12)


def test_equal_weights_give_the_batch_means_error(spark: SparkSession) -> None:
    means = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = ratio_of(spark, means, [1.0] * 5)
    assert found["within"] == pytest.approx(np.std(means, ddof=1) / np.sqrt(5))


def test_a_constant_ratio_has_no_noise_at_all(spark: SparkSession) -> None:
    assert ratio_of(spark, [7.0, 3.0, 11.0, 5.0], [7.0, 3.0, 11.0, 5.0])["within"] == 0.0


def test_nothing_to_divide_by_is_not_a_number_made_up(spark: SparkSession) -> None:
    found = ratio_of(spark, [0.0] * 5, [0.0] * 5)
    assert found["value"] is None
    assert found["within"] is None


def test_three_batches_are_too_few_for_an_error(spark: SparkSession) -> None:
    assert ratio_of(spark, [1.0, 2.0, 3.0], [1.0] * 3)["within"] is None


def test_batch_error_of_independent_samples_is_the_standard_error() -> None:
    """Over many trials the batch estimate's mean square is sd^2 / n; 4000 trials put it within 5 %."""
    rng = np.random.default_rng(11)
    squares = []
    for _ in range(4000):
        means = rng.normal(0, 1, (20, 25)).mean(axis=1)
        error = quantile_error(means, np.full(20, 25), float(means.mean()))
        assert error is not None
        squares.append(error**2)
    assert np.mean(squares) == pytest.approx(1 / 500, rel=0.05)


@pytest.mark.parametrize(
    ("samples", "fraction", "expected"),
    [(2000, 0.5, 20), (200, 0.5, 20), (199, 0.5, 10), (40, 0.5, 0), (10_000, 0.99, 20), (2000, 0.99, 0)],
)
def test_batches_keep_five_samples_in_the_tail(samples: int, fraction: float, expected: int) -> None:
    assert batches_for(samples, fraction, 20) == expected
