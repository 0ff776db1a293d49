"""How long an empty poll lasts, told from real runs whose time-out is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.judge.predicting import observation
from harness.experiments.loading import load
from harness.models.composite.proposal import examine, prepare
from harness.models.composite.source.inputs import BEYOND_MS, POLL_MS
from harness.runs import Run

RUNS = Path(__file__).resolve().parents[4] / "reports" / "runs"


@pytest.mark.parametrize(
    ("experiment", "steps", "time_out_ms"),
    [("fields-to-fields", (0, 2, 3), 5.0), ("loaded-waiting", (1, 2, 5), 1.0)],
)
def test_an_empty_poll_lasts_as_long_as_its_time_out_and_half_a_millisecond(
    experiment: str, steps: tuple[int, ...], time_out_ms: float
) -> None:
    """16, 4 and 2 tasks an executor, and rates from 120 to 210 messages/s with 8 and 4: always the same."""
    path = sorted((RUNS / experiment).iterdir())[0]
    run = Run(path)
    for step in steps:
        arrivals = examine(observation(run, load(run.path / "experiment.yaml"), step)).arrivals
        assert arrivals is not None
        assert arrivals.in_turn
        assert arrivals.poll_ms["spout"] == pytest.approx(time_out_ms + 0.5, abs=0.2)


def test_settings_say_how_long_an_empty_poll_lasts_where_bursts_do_not() -> None:
    """With 4 tasks an executor all-in-one's spouts show no bursts; its messages' waits ask for 3.9 ms."""
    path = sorted((RUNS / "all-in-one").iterdir())[0]
    run = Run(path)
    seen = observation(run, load(run.path / "experiment.yaml"), 2)
    assert seen.settings.poll_timeout_ms == 1.0
    assert prepare(seen).inputs.poll_ms["spout"] == 1.0 + BEYOND_MS
    unknown = replace(seen, settings=replace(seen.settings, poll_timeout_ms=None))
    assert prepare(unknown).inputs.poll_ms["spout"] > 2 * POLL_MS


def test_bursts_go_before_settings() -> None:
    path = sorted((RUNS / "fields-to-fields").iterdir())[0]
    run = Run(path)
    seen = observation(run, load(run.path / "experiment.yaml"), 0)
    wrong = replace(seen, settings=replace(seen.settings, poll_timeout_ms=50.0))
    assert prepare(wrong).inputs.poll_ms == prepare(seen).inputs.poll_ms
