"""What a message costs: throughputs out of buckets, sizes out of batches, and where a fit is found again.

Metrics are made by hand: whole buckets of one stream between buckets in which two streams took turns.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.app.message_costs import (
    NAME,
    SENDER,
    MeasuredStream,
    keep,
    lost_streams,
    measured_parameters,
    message_experiment,
    throughputs,
    tuple_bytes,
)
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump
from harness.plans import PhysicalPlan, QueryPlan
from harness.protocols import Observation, Settings
from harness.runs import Run
from harness.schemas import Metric, MetricField
from harness.tuning import make_tuner
from harness.tuning.message_fit import ThroughputRow, fit_message_cost

FIT = fit_message_cost(
    [ThroughputRow(b, t, 1e6 / (2 + 50 / b + 0.004 * t)) for b in (1, 10) for t in (8, 1000)]
)


def with_rows(rows: list[tuple[Metric, MetricField, str, int, float]]) -> Observation:
    names = ["measurement", "field", "stream", "bucket_end_ms", "value"]
    empty = QueryPlan(name="pair", components=(), streams=())
    return Observation(
        plan=PhysicalPlan(query_plan=empty, nodes=(), executors=()),
        settings=Settings(storm={}, version="2.8.3"),
        rate_tps=1.0,
        interval_s=12.0,
        metrics=pd.DataFrame(rows, columns=names).assign(component=SENDER),
        latency=pd.DataFrame(),
    )


def test_a_phase_is_its_buckets_that_lie_between_others_of_the_same_stream() -> None:
    """First 40 and 60 of two streams, then 900, 1000 and 1100 of one, whose middle bucket counts."""
    counts = [("b1-t8-w0", 1, 40.0), ("b10-t8-w0", 1, 60.0)]
    counts += [("b1-t8-w0", k, v) for k, v in ((2, 900.0), (3, 1000.0), (4, 1100.0))]
    counts += [("b1-t8-w0", 5, 5.0), ("b10-t8-w0", 5, 5.0)]
    counts += [("b10-t8-w0", k, v) for k, v in ((6, 10.0), (7, 2000.0), (8, 2200.0), (9, 10.0))]
    counts += [("b1-t8-w0", k, v) for k, v in ((10, 9.0), (11, 1500.0), (12, 9.0))]
    seen = with_rows([(Metric.TRANSFERRED, MetricField.COUNT, s, 1000 * k, v) for s, k, v in counts])
    assert throughputs(seen) == {(1, 8, 0): (1000.0, 1500.0), (10, 8, 0): (2100.0,)}


def test_the_largest_batches_say_what_a_tuple_has_in_bytes() -> None:
    rows = [
        (Metric.BATCH, field, stream, 1000, value)
        for stream, size, tuples in (
            ("b10-t8-w0", 120.0, 10.0),
            ("b100-t8-w0", 900.0, 100.0),
            ("b1-t100-w0", 0.0, 0.0),
        )
        for field, value in ((MetricField.BYTES, size), (MetricField.BYTES_TUPLES, tuples))
    ]
    assert tuple_bytes(with_rows(rows)) == {8: 9.0}


def made_run(folder: Path, experiment: Experiment, cpu: str) -> Run:
    environment = {
        "machine": {"cpu": cpu, "cores": 2},
        "cluster": {"storm": "2.8.3"},
        "started": "2026-11-25",
    }
    return Run.create(folder, NAME, {"experiment.yaml": dump(experiment)}, environment)


def test_a_fit_is_found_by_runs_of_its_machine_and_settings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    experiment = message_experiment((1, 10), (8, 100), (0,), 1, 4, {})
    run = made_run(tmp_path / "a", experiment, "of this kind")
    kept = keep(run, FIT)
    assert kept is not None
    assert json.loads(kept.read_text())["overhead_us"]["value"] == pytest.approx(50)
    settings = Settings(storm=experiment.storm_settings(), version="2.8.3")
    message = measured_parameters(run, settings)["aeolus"]
    tuner = make_tuner("aeolus", message)
    assert tuner.message.n_us == pytest.approx(50)  # type: ignore[attr-defined]
    assert "measured 2026-11-25 on the run's machine: n 50 to 50 us" in tuner.message.origin  # type: ignore[attr-defined]
    assert measured_parameters(made_run(tmp_path / "b", experiment, "of another kind"), settings) == {}
    plain = Settings(storm={"topology.disable.loadaware.messaging": True}, version="2.8.3")
    assert measured_parameters(run, plain) == measured_parameters(run, settings)
    untracked = replace(settings, storm={**settings.storm, "topology.acker.executors": 0})
    assert measured_parameters(run, untracked) == {}
    kept.write_text("{}")
    with pytest.raises(UsageError, match="not what harness measure-messages keeps"):
        measured_parameters(run, settings)


def test_a_fit_beside_user_code_does_not_take_the_place_of_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    worked = message_experiment((1, 10), (8, 100), (0, 50), 1, 4, {})
    assert keep(made_run(tmp_path / "a", worked, "of this kind"), FIT) is None
    assert not (tmp_path / "data").exists()


def test_streams_without_a_whole_bucket_are_named(tmp_path: Path) -> None:
    run = made_run(tmp_path, message_experiment((1, 10), (8, 100), (0,), 1, 4, {}), "of this kind")
    measured = [MeasuredStream(1, 8, 0, 10.0, (1000.0,)), MeasuredStream(10, 100, 0, 102.0, (9000.0,))]
    assert lost_streams(run, measured) == ("b1-t100-w0", "b10-t8-w0")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (((1,), (8, 100), (0,), 1, 4), "--batches 1: give two or more"),
        (((1, 10), (8, 0), (0,), 1, 4), "--sizes 8,0: give two or more, of at least 1"),
        (((1, 10), (8, 100), (0, -1), 1, 4), "--work-us 0,-1: give no times below 0"),
        (((1, 10), (8, 100), (0,), 1, 3), "a phase has 4 seconds at least"),
    ],
)
def test_sizes_that_tell_nothing_are_refused(
    asked: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        message_experiment(*asked, {})
