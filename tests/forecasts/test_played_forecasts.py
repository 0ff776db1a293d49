"""The bench of played traffic: what it counts as back-pressure, and what its rules foresee."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import played_forecasts
from played_forecasts import PlayedTraffic, decisions, experiment_of, foreseen, paused_share, trace_of

from harness.experiments.config import Experiment
from harness.protocols import RateForecast, RateHistory
from harness.schemas import Metric, MetricField


def test_pauses_are_shared_among_buckets() -> None:
    """Reported each second; the spout paused from 2 to 3.5 s, three quarters of the second bucket of 2 s."""
    paused_ns = {1: 0.0, 2: 0.0, 3: 1e9, 4: 0.5e9, 5: 0.0, 6: 0.0}
    rows = [
        {"measurement": Metric.PAUSED, "field": name, "bucket_end_ms": 1000.0 * (100 + s), "value": value}
        for s, paused in paused_ns.items()
        for name, value in ((MetricField.PAUSED_NS, paused), (MetricField.WATCHED_NS, 1e9))
    ]
    share = paused_share(pd.DataFrame(rows), 100_000.0, np.array([2.0, 4.0, 6.0]))
    assert share == pytest.approx([0.0, 0.75, 0.0])


def constant(rate_tps: float) -> RateForecast:
    levels = played_forecasts.LEVELS
    ahead_s = np.arange(2.0, 62.0, 2.0)
    return RateForecast(ahead_s, levels, np.full((len(ahead_s), len(levels)), rate_tps))


def test_what_waits_is_foreseen_by_the_second_rule_only() -> None:
    """100 wait and 10 a second more go through than come: nothing waits after 10 s, and something before."""
    buckets = int(played_forecasts.FIRST_DAYS * played_forecasts.DAY_S / 2) + 30
    pressed = np.zeros(buckets, dtype=bool)
    pressed[-30:-25] = True  # the first 10 s after the only origin
    played = PlayedTraffic(RateHistory(np.full(buckets, 40.0), 2.0), np.full(buckets, 101.0), pressed, 50.0)
    rows = foreseen(played, lambda *_: constant(40.0), ())
    assert rows["rate"].tolist() == [False, False, False]
    assert rows["backlog"].tolist() == [True, False, False]
    assert decisions(rows, "rate", 10.0) == "0 / 1 / 0 / 0 (0 %, -)"
    assert decisions(rows, "backlog", 10.0) == "1 / 0 / 0 / 0 (100 %, 0 %)"
    assert decisions(rows, "backlog", 60.0) == "0 / 0 / 0 / 1 (-, -)"


@pytest.mark.parametrize("kind", list(played_forecasts.MEAN_TPS))
def test_its_experiment_is_one(kind: str) -> None:
    trace = trace_of(kind, days=5, seed=1)
    experiment = Experiment.model_validate(experiment_of(kind, trace))
    assert experiment.measure.interval.most_s == 5 * played_forecasts.DAY_S
    (step,) = experiment.steps.plan
    assert experiment.changes(step)[1].rate_tps == max(trace.rate_tps[1], 0.01)
