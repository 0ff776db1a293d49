"""Whatever a user's model answers, every pair gets a prediction or a gap with a name."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.predicting import predict
from harness.protocols import Estimate, Prediction
from harness.runs import Run

MEAN = ("ground_truth_latency_ms", "mean")


def nothing(*_: object) -> None:
    """Forgets to return."""


def text(*_: object) -> Prediction:
    """Answers a number as text."""
    return Prediction((Estimate(*MEAN, "12 ms"),))  # type: ignore[arg-type]


def bare(*_: object) -> Prediction:
    """Answers numbers where estimates belong."""
    return Prediction((12.0,))  # type: ignore[arg-type]


def endless(*_: object) -> Prediction:
    """Is sure of the value, and its interval has no end."""
    return Prediction((Estimate(*MEAN, 12.0, low=1.0, high=float("inf")),))


def crashing(*_: object) -> Prediction:
    """Divides by zero."""
    raise ZeroDivisionError("of nothing")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = [FakeStep(1, seconds=4, burn_in_s=2), FakeStep(2, seconds=4, burn_in_s=2)]
    return build(tmp_path_factory.mktemp("runs") / "run", FakeRun(steps=steps))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("nothing", "declined: the model failed with TypeError: it answered NoneType, not a Prediction"),
        ("text", "its ground_truth_latency_ms is '12 ms', not a number"),
        ("bare", "its prediction holds float, not Estimate"),
        ("endless", "declined: the model answered inf"),
        ("crashing", "declined: the model failed with ZeroDivisionError: of nothing"),
    ],
)
def test_a_wrong_answer_is_a_gap_and_ends_nothing(run_folder: Path, model: str, reason: str) -> None:
    table = predict(Run(run_folder), (f"{__name__}:{model}", "no-change"))
    of_model = table.filter(pc.not_equal(table["model"], "no-change"))
    assert of_model.num_rows == 4  # a gap for each pair of the two steps
    assert all(reason in r for r in of_model["reason"].to_pylist())
    for column in ("value", "low", "high"):
        assert of_model[column].null_count == 4
    others = table.filter(pc.equal(table["model"], "no-change"))
    assert pc.all(others.filter(pc.equal(others["statistic"], "mean"))["value"].is_valid()).as_py()


def test_what_other_models_predicted_before_stays(run_folder: Path) -> None:
    predict(Run(run_folder), ("no-change", "linear"))
    predict(Run(run_folder), ("no-change", f"{__name__}:crashing"))
    kept = pq.read_table(run_folder / "predictions.parquet").to_pandas()
    assert {"no-change", "linear", f"{__name__}:crashing"} <= set(kept["model"])
    keys = ["model", "source_step", "proposed_step", "measure", "subject", "statistic"]
    assert not kept.duplicated(keys).any()
