"""How long an empty poll lasts, told from real runs whose time-out is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.predicting import observation
from harness.experiments.loading import load
from harness.models.proposal import examine
from harness.runs import Run

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"


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
