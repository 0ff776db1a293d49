"""Noise: against numpy on the same cells, and the textbook error of independent samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from harness.analysis.spark.noise import batches_for, borrowed, combined, quantile_error, ratio


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


def actuals(spark: SparkSession, rows: Sequence[tuple[str, float, float | None]]) -> object:
    return spark.createDataFrame(
        pa.table(
            {
                "configuration": [r[0] for r in rows],
                "value": pa.array([r[1] for r in rows], pa.float64()),
                "within": pa.array([r[2] for r in rows], pa.float64()),
                **{k: [k] * len(rows) for k in ("protocol", "measure", "subject", "statistic")},
            }
        )
    )


def test_repeats_add_the_spread_that_the_intervals_do_not_explain(spark: SparkSession) -> None:
    """By hand: repeats 9, 10, 11 vary by 1; intervals explain 0.25; share = sqrt(0.75 / 100)."""
    rows = [("a", 9.0, 0.5), ("a", 10.0, 0.5), ("a", 11.0, 0.5), ("b", 20.0, 0.5)]
    found = combined(actuals(spark, rows), repeated=True).orderBy("value").toArrow().to_pylist()  # type: ignore[arg-type]
    assert [r["between_share"] for r in found] == pytest.approx([np.sqrt(0.0075)] * 4)
    assert found[1]["noise"] == pytest.approx(1.0)
    assert found[3]["noise"] == pytest.approx(np.sqrt(0.25 + 400 * 0.0075))


def test_repeats_that_agree_better_than_their_intervals_add_nothing(spark: SparkSession) -> None:
    rows = [("a", 10.0, 2.0), ("a", 10.1, 2.0)]
    found = combined(actuals(spark, rows), repeated=True).toArrow().to_pylist()  # type: ignore[arg-type]
    assert [r["noise"] for r in found] == pytest.approx([2.0, 2.0])


def test_without_repeats_and_batches_there_is_no_noise_to_state(spark: SparkSession) -> None:
    found = combined(actuals(spark, [("a", 10.0, None)]), repeated=False).toArrow().to_pylist()  # type: ignore[arg-type]
    assert found[0]["noise"] is None


def test_a_mean_without_batches_is_as_uncertain_as_that_of_the_same_tuples(spark: SparkSession) -> None:
    """5 % of 200 is 10; the other step lends nothing, a percentile lends nothing, and what is known stays."""
    rows = [
        (0, "ack", "mean", 100.0, 5.0),
        (0, "ack", "p99", 100.0, 90.0),
        (0, "complete", "mean", 200.0, None),
        (0, "other", "mean", 200.0, None),
        (1, "complete", "mean", 300.0, None),
        (0, "complete", "median", 50.0, 1.0),
    ]
    names = ("step", "measure", "statistic", "value", "within")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    frame = spark.createDataFrame(table.append_column("subject", pa.array([""] * len(rows))))
    found = borrowed(frame, borrower="complete", lender="ack").toArrow().to_pylist()
    within = {(r["step"], r["measure"], r["statistic"]): r["within"] for r in found}
    assert [within[r[:3]] for r in rows] == [5.0, 90.0, 10.0, None, None, 1.0]


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
