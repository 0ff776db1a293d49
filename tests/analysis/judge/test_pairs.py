"""The pair table, row by row, from numbers that are easy to divide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from harness.analysis.judge import pairs, summary
from harness.analysis.judge.arithmetic import StepStates, quantile
from harness.analysis.spark.inputs import RunRecord
from harness.analysis.spark.latencies import Actual
from harness.schemas import ERRORS, PREDICTIONS, Measure

NONE = pd.DataFrame(columns=["step", "measure", "subject", "statistic", "value", "within", "n"])
"""What nothing counted gives."""


def prediction(
    source: int, proposed: int, value: float | None, model: str = "m", **other: Any
) -> dict[str, Any]:
    row = {
        "model": model,
        "source_step": source,
        "proposed_step": proposed,
        "measure": Measure.GROUND_TRUTH,
        "subject": "",
        "statistic": "mean",
        "value": value,
        "low": None,
        "high": None,
        "status": "ok",
        "reason": "",
    }
    return row | other


def pair_rows(
    run: RunRecord,
    predicted: list[dict[str, Any]],
    measured: list[Actual],
    unusable: dict[int, tuple[str, str]] | None = None,
) -> list[dict[str, Any]]:
    table = pairs.actuals(run, pd.DataFrame(measured), NONE)
    told = pa.Table.from_pylist(predicted, schema=PREDICTIONS).to_pandas()
    found = pairs.pairs(told, table, StepStates.of(run.steps, unusable or {}))
    assert found.schema.equals(ERRORS, check_metadata=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda r: (r["model"], r["source_step"], r["proposed_step"], r["protocol"]))


def test_errors_of_a_judged_pair(run: RunRecord) -> None:
    """By hand: P = 12, A = 10, noise 0.5."""
    measured = [Actual(1, Measure.GROUND_TRUTH, "mean", 10.0, within=0.5, n=100)]
    predicted = [prediction(0, 1, 12.0, low=9.0, high=13.0), prediction(2, 1, 8.0, low=7.0, high=9.0)]
    high, low = pair_rows(run, predicted, measured)
    assert high["verdict"] == low["verdict"] == "judged"
    assert high["relative_error"] == pytest.approx(0.2)
    assert high["abs_error_pct"] == pytest.approx(20)
    assert high["q_error"] == pytest.approx(1.2)
    assert high["error_over_noise"] == pytest.approx(4)
    assert high["covered"] is True
    assert low["relative_error"] == pytest.approx(-0.2)
    assert low["q_error"] == pytest.approx(1.25)
    assert low["covered"] is False
    assert high["actual"] == 10.0
    assert high["noise"] == 0.5


DECLINED: dict[str, Any] = {"status": "declined", "reason": "declined: cycle"}
SATURATED: dict[str, Any] = {"status": "saturated", "reason": "b[1-1]"}
UNUSABLE = {2: ("unsteady", "step 2: drift"), 3: ("invalid", "step 3: moved")}
NOT_JUDGED: dict[str, tuple[dict[str, Any], float | None, tuple[str, str]]] = {
    "declined": (prediction(0, 1, None, **DECLINED), 10.0, ("not-predicted", "declined: cycle")),
    "null": (prediction(0, 1, None), 10.0, ("not-predicted", "the model gave no number")),
    "nan": (prediction(0, 1, float("nan")), 10.0, ("not-predicted", "the model gave no number")),
    "saturated": (prediction(0, 1, None, **SATURATED), 10.0, ("saturated", "b[1-1]")),
    "not measured": (prediction(0, 1, 3.0), None, ("not-measured", "no path within a node")),
    "not known": (prediction(1, 0, 3.0), None, ("not-measured", "not measured in the proposed step")),
    "0": (prediction(0, 1, 3.0), 0.0, ("not-measured", "measured as 0: no relative error")),
    "unsteady": (prediction(0, 2, 3.0), 10.0, UNUSABLE[2]),
    "invalid": (prediction(3, 1, 3.0), 10.0, UNUSABLE[3]),
    "both": (prediction(2, 3, 3.0), 10.0, UNUSABLE[3]),
    "both, turned": (prediction(3, 2, 3.0), 10.0, UNUSABLE[3]),
}
"""What is predicted of a subject of this name, what is measured of it, and the verdict with its reason."""


def test_what_cannot_be_judged_says_why_and_has_no_error(run: RunRecord) -> None:
    predicted = [{**row, "subject": name} for name, (row, _, _) in NOT_JUDGED.items()]
    measured = [
        Actual(
            row["proposed_step"],
            Measure.GROUND_TRUTH,
            "mean",
            value,
            subject=name,
            within=0.5,
            note="no path within a node" if value is None else "",
        )
        for name, (row, value, _) in NOT_JUDGED.items()
        if name != "not known"
    ]
    rows = pair_rows(run, predicted, measured, UNUSABLE)
    assert {r["subject"]: (r["verdict"], r["reason"]) for r in rows} == {
        name: expected for name, (_, _, expected) in NOT_JUDGED.items()
    }
    errors_ = ("relative_error", "abs_error_pct", "q_error", "error_over_noise", "covered")
    assert [r[k] for r in rows for k in errors_] == [None] * len(rows) * len(errors_)
    assert len(rows) == len(NOT_JUDGED)


def test_a_negative_prediction_is_judged_and_has_no_q_error(run: RunRecord) -> None:
    (row,) = pair_rows(run, [prediction(0, 1, -5.0)], [Actual(1, Measure.GROUND_TRUTH, "mean", 10.0)])
    assert row["relative_error"] == pytest.approx(-1.5)
    assert row["q_error"] is None
    assert row["error_over_noise"] is None, "no noise is known"


def test_what_a_model_leaves_out_is_a_named_gap(run: RunRecord) -> None:
    measured = [
        Actual(1, Measure.GROUND_TRUTH, "mean", 10.0),
        Actual(2, Measure.GROUND_TRUTH, "mean", 10.0),
        Actual(1, Measure.GROUND_TRUTH, "mean_same_node", 9.0, protocol="thesis"),
        Actual(1, Measure.GROUND_TRUTH, "mean", 10.0, subject="sender"),
    ]
    rows = pair_rows(run, [prediction(0, 1, 11.0), prediction(0, 2, 11.0, statistic="p50")], measured)
    gaps = {
        (r["protocol"], r["proposed_step"], r["statistic"]): r["reason"] for r in rows if r["value"] is None
    }
    assert gaps == {
        ("thesis", 1, "mean_same_node"): "the model gives no mean_same_node",
        ("ours", 2, "mean"): "the model gives no mean",
    }
    assert {r["verdict"] for r in rows if r["value"] is None} == {"not-predicted"}


def summarised(spark: SparkSession, rows: list[dict[str, Any]]) -> dict[str, summary.ErrorSummary]:
    table = spark.createDataFrame(pa.Table.from_pylist(rows, schema=ERRORS))
    return {s["model"]: s for s in summary.summaries(table)[0]}


def test_summary_over_off_diagonal_pairs(spark: SparkSession, run: RunRecord) -> None:
    """By hand: errors 10, 20, 60 % (q 1.1, 1.25, 1.6); no-change errs 20, 40, 50 %; no diagonal."""
    measured = [Actual(s, Measure.GROUND_TRUTH, "mean", 10.0, within=1.0) for s in (1, 2, 3)]
    predicted = [
        prediction(0, 1, 11.0, low=9.0, high=13.2),
        prediction(0, 2, 8.0, low=7.0, high=9.0),
        prediction(0, 3, 16.0),
        prediction(1, 1, 99.0),
        prediction(1, 2, None, status="declined", reason="no"),
        *(prediction(0, p, v, model="no-change") for p, v in ((1, 12.0), (2, 14.0), (3, 15.0))),
        prediction(1, 2, 13.0, model="no-change"),
    ]
    found = summarised(spark, pair_rows(run, predicted, measured))
    m = found["m"]
    assert (m["pairs"], m["comparisons"], m["judged"], m["judged_share"]) == (4, 4, 3, 0.75)
    assert m["median_abs_error_pct"] == pytest.approx(20)
    assert m["p95_abs_error_pct"] == pytest.approx(20 + 0.9 * 40)
    for name, share in (("median_abs_error_pct", 0.5), ("p95_abs_error_pct", 0.95)):
        assert m[name] == pytest.approx(quantile([10, 20, 60], share)), "as pages without Spark have it"
    assert m["worst_abs_error_pct"] == pytest.approx(60)
    assert m["median_q_error"] == pytest.approx(1.25)
    assert m["coverage"] == 0.5
    assert m["median_width_pct"] == pytest.approx((4.2 / 11 + 2 / 8) / 2 * 100)
    assert m["median_error_over_noise"] == pytest.approx(2)
    assert m["skill"] == pytest.approx(1 - 20 / 40), "on the three pairs judged for both"
    assert found["no-change"]["skill"] == 0
    assert found["no-change"]["median_width_pct"] is None


def test_an_experiment_without_change_is_called_no_evidence(spark: SparkSession, run: RunRecord) -> None:
    measured = [Actual(s, Measure.GROUND_TRUTH, "mean", 10.0) for s in (1, 2)]
    predicted = [prediction(0, p, 10.9, model="no-change") for p in (1, 2)]
    found = summarised(spark, pair_rows(run, predicted, measured))
    (evidence,) = summary.evidence(list(found.values()))
    assert evidence["is_evidence"] is False
    assert evidence["no_change_median_abs_error_pct"] == pytest.approx(9.0)


def test_a_matrix_cell_is_the_median_over_its_subjects(spark: SparkSession, run: RunRecord) -> None:
    subjects = {"a[1-1]": 11.0, "a[2-2]": 12.0, "a[3-3]": 17.0, "a": 50.0}
    measured = [Actual(1, "arrival_rate_tps", "mean", 10.0, subject=k) for k in subjects]
    predicted = [prediction(0, 1, v, measure="arrival_rate_tps", subject=k) for k, v in subjects.items()]
    rows = pair_rows(run, predicted, measured)
    cells = summary.matrices(spark.createDataFrame(pa.Table.from_pylist(rows, schema=ERRORS)))
    (cell,) = cells.to_dict("records")
    assert cell["abs_error_pct"] == pytest.approx(20), "of the executors; the component has a row of its own"
    assert (cell["judged"], cell["comparisons"]) == (3, 3)


def measured_rows(rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    names = ["step", "configuration", "measure", "statistic", "value", "within"]
    return pd.DataFrame(rows, columns=names).assign(subject="", protocol="ours").astype({"within": float})


def test_repeats_add_the_spread_that_the_intervals_do_not_explain() -> None:
    """By hand: repeats 9, 10, 11 vary by 1; intervals explain 0.25; share = sqrt(0.75 / 100)."""
    rows = [(0, "a", "m", "s", 9.0, 0.5), (1, "a", "m", "s", 10.0, 0.5), (2, "a", "m", "s", 11.0, 0.5)]
    found = pairs.with_noise(measured_rows([*rows, (3, "b", "m", "s", 20.0, 0.5)]))
    assert found["between_share"].to_numpy() == pytest.approx(np.sqrt(0.0075))
    assert found["noise"][1] == pytest.approx(1.0)
    assert found["noise"][3] == pytest.approx(np.sqrt(0.25 + 400 * 0.0075))


def test_repeats_that_agree_better_than_their_intervals_add_nothing() -> None:
    found = pairs.with_noise(measured_rows([(0, "a", "m", "s", 10.0, 2.0), (1, "a", "m", "s", 10.1, 2.0)]))
    assert found["noise"].tolist() == [2.0, 2.0]


def test_without_repeats_and_batches_there_is_no_noise_to_state() -> None:
    assert pairs.with_noise(measured_rows([(0, "a", "m", "s", 10.0, None)]))["noise"].isna().all()


def test_a_mean_without_batches_is_as_uncertain_as_that_of_the_same_tuples() -> None:
    """5 % of 200 is 10; the other step lends nothing, a percentile lends nothing, and what is known stays."""
    rows = [
        (0, "c", "ack", "mean", 100.0, 5.0),
        (0, "c", "ack", "p99", 100.0, 90.0),
        (0, "c", "complete", "mean", 200.0, None),
        (0, "c", "other", "mean", 200.0, None),
        (1, "c", "complete", "mean", 300.0, None),
        (0, "c", "complete", "median", 50.0, 1.0),
    ]
    found = pairs.borrowed(measured_rows(rows), borrower="complete", lender="ack")
    assert found.tolist() == pytest.approx([5.0, 90.0, 10.0, np.nan, np.nan, 1.0], nan_ok=True)
