"""Whatever a user's model answers, every pair gets a prediction or a gap with a name."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.judge import predicting
from harness.analysis.judge.predicting import predict, rate_tps
from harness.experiments.loading import load
from harness.plans import Backpressure, Relief
from harness.protocols import Estimate, Observation, Prediction
from harness.runs import Run, read_latency
from harness.schemas import HOP
from harness.topologies.jar import JarTopology

MEAN = ("ground_truth_latency_ms", "mean")
ARCHIVED = Path(__file__).resolve().parents[3] / "reports" / "runs" / "noise-floor"


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


def test_one_source_step_at_a_time_is_in_memory(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of all steps together are gigabytes: those of a step are gone when the next one's are read."""
    alive: list[weakref.ref[Observation]] = []
    read = predicting.observation

    def watched(*asked: Any) -> Observation:
        gc.collect()
        assert [ref for ref in alive if ref() is not None] == []
        seen = read(*asked)
        alive.append(weakref.ref(seen))
        return seen

    monkeypatch.setattr(predicting, "observation", watched)
    models = ("no-change", "jackson")
    table = predict(Run(run_folder), models)
    assert len(alive) == 2
    order = list(zip(*(table[c].to_pylist() for c in ("model", "source_step", "proposed_step")), strict=True))
    assert list(dict.fromkeys(order)) == [(m, s, p) for m in models for s in (0, 1) for p in (0, 1)]


def test_what_other_models_predicted_before_stays(run_folder: Path) -> None:
    predict(Run(run_folder), ("no-change", "linear"))
    predict(Run(run_folder), ("no-change", f"{__name__}:crashing"))
    kept = pq.read_table(run_folder / "predictions.parquet").to_pandas()
    assert {"no-change", "linear", f"{__name__}:crashing"} <= set(kept["model"])
    keys = ["model", "source_step", "proposed_step", "measure", "subject", "statistic"]
    assert not kept.duplicated(keys).any()


def test_steps_with_relief_are_declined_but_by_the_guess_that_nothing_changes(
    tmp_path: Path,
) -> None:
    steps = [FakeStep(1, seconds=4, burn_in_s=2), FakeStep(2, seconds=4, burn_in_s=2)]
    run = Run(build(tmp_path / "run", FakeRun(steps=steps)))
    pausing = Relief(backpressure=Backpressure(kind="heron", high_pct=50, low_pct=10))
    changed = run.plan(1).model_copy(update={"relief": pausing})
    (run.step_path(1) / "plan.json").write_text(changed.model_dump_json())
    rows = predict(run, ("composite", "jackson", "no-change")).to_pandas()
    relieved = (rows["source_step"] == 1) | (rows["proposed_step"] == 1)
    models = rows["model"] != "no-change"
    assert not rows[models & ~relieved & (rows["status"] == "ok")].empty
    assert set(rows[models & relieved]["status"]) == {"declined"}
    assert rows[models & relieved]["reason"].str.contains("step has topology.backpressure, whose worth").all()
    assert (rows[~models & (rows["statistic"] == "mean")]["status"] == "ok").any()


def test_hop_times_of_several_clocks_are_shown_to_no_model(tmp_path: Path) -> None:
    """As of workers with clocks of their own: whatever the hops say, predictions are the same.

    The run was measured; tasks of odd numbers are moved to a clock that is five hours ahead.
    """
    (measured,) = ARCHIVED.iterdir()
    found = []
    for hours in (0, 5):
        path = Path(shutil.copytree(measured, tmp_path / str(hours)))
        for folder in (path / "steps").iterdir():
            interval = json.loads((folder / "interval.json").read_text())
            (folder / "interval.json").write_text(json.dumps(interval | {"latency": "topics"}))
            table = read_latency(folder)  # whole: what is left out would follow the clocks
            hops = table["hops"].combine_chunks()
            passed = hops.flatten()
            ahead_ns = pc.multiply(pc.bit_wise_and(passed.field("task"), 1), pa.scalar(hours * 3600 * 10**9))
            times = [pc.add(passed.field(name), ahead_ns) for name in ("received_ns", "emitted_ns")]
            moved = pa.StructArray.from_arrays([passed.field("task"), *times], fields=list(HOP))
            at, field = table.schema.get_field_index("hops"), table.schema.field("hops")
            column = pa.ListArray.from_arrays(hops.offsets, moved, type=field.type)
            pq.write_table(table.set_column(at, field, column), folder / "latency.parquet")
        found.append(predict(Run(path), ("composite", "no-change")).to_pandas())
    pd.testing.assert_frame_equal(*found, check_exact=True)
    means = found[0][(found[0]["measure"] == MEAN[0]) & (found[0]["statistic"] == MEAN[1])]
    assert set(means["status"]) == {"ok"}
    assert set(means["model"]) == {"composite", "no-change"}


def test_a_model_is_given_the_asked_rate_or_else_the_source_s() -> None:
    """Of messages that a topology makes itself the proposed step's rate is a measurement."""
    sends = load("quick")
    jar = JarTopology.model_validate({"jar": Path("some.jar"), "main": "org.somebody.Topology"})
    assert rate_tps(sends, 3.0, 5.0) == 5.0
    assert rate_tps(sends.model_copy(update={"topology": jar}), 3.0, 5.0) == 3.0
