"""Predictions say which models and measurements they are of, and are made anew when these are others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.judge import predicted_with, predicting
from harness.analysis.judge.predicting import ensure_predicted, predict
from harness.runs import Run

MODELS = ("no-change", "jackson")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    steps = [FakeStep(e, seconds=4, burn_in_s=2) for e in (1, 2)]
    made = Run(build(tmp_path / "a" / "run", FakeRun(steps=steps, models=MODELS)))
    (made.path / "predictions.parquet").unlink()
    predict(made, MODELS)
    return made


def asked(run: Run) -> list[str]:
    said: list[str] = []
    ensure_predicted(run, said.append)
    return said


def test_predictions_of_todays_models_are_kept(run: Run) -> None:
    before = (run.path / "predictions.parquet").read_bytes()
    assert asked(run) == []
    assert (run.path / "predictions.parquet").read_bytes() == before


def test_other_models_predict_anew(
    run: Run, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(predicted_with, "models_digest", lambda: "another")
    (again,) = asked(run)
    assert again == "jackson, no-change"
    assert asked(run) == []
    figure(f"{again} asked once more")


def test_other_measurements_are_predicted_from_anew(run: Run) -> None:
    quality = run.step_path(1) / "quality.json"
    quality.write_text(quality.read_text() + "\n")
    assert asked(run) == ["jackson, no-change"]


def test_a_long_prediction_says_how_far_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "SAYING_S", 0.0)
    said: list[str] = []
    predict(run, ["no-change"], said.append)
    assert said == ["no-change", *(f"no-change, from {read} of 2 steps so far" for read in (0, 1))]


def test_one_model_asked_again_leaves_the_others_as_they_were(run: Run) -> None:
    before = predicted_with.stamped(run.path / "predictions.parquet")
    predict(run, ["jackson"])
    assert predicted_with.stamped(run.path / "predictions.parquet") == before
    assert asked(run) == []


def test_predictions_from_before_they_said_so_are_made_anew(run: Run) -> None:
    path = run.path / "predictions.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert asked(run) == ["jackson, no-change"]


def test_old_predictions_of_a_model_that_is_not_here_are_left_out(run: Run) -> None:
    path = run.path / "predictions.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("model")
    renamed = ["gone.models:one" if m == "jackson" else m for m in table["model"].to_pylist()]
    table = table.set_column(at, table.schema.field(at), [renamed]).replace_schema_metadata(None)
    pq.write_table(table, path)
    said = asked(run)
    assert said[:-1] == ["no-change"]
    assert "gone.models:one is not here" in said[-1]
    assert set(pq.read_table(path)["model"].to_pylist()) == {"no-change"}
