"""The rate that is planned for: by forecasters of the harness, on traffic whose future is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import placed

from harness.app.foreseeing import RatePlanner, require_forecasts
from harness.app.planning import check_placements
from harness.errors import UsageError
from harness.experiments.adapting import PeriodSeen
from harness.experiments.loading import expand_steps, load
from harness.experiments.planned_rates import DueRates, PlannedRate
from harness.experiments.schedule import BegunSchedule, Trace
from harness.experiments.step_settings import AdaptSpec
from harness.schemas import METRICS

S = 10**9
DAY = (10, 10, 20, 40, 60, 40, 20, 10)
"""Messages in each of the eight buckets of 5 s of a day of 40 s."""
QUICK = load("quick")
PERIOD = PeriodSeen(
    expand_steps(QUICK)[0], placed(QUICK.topology.query_plan(), 1), 7.0, 0, 10_000, METRICS.empty_table()
)


def days(number: int, *changed: tuple[int, int]) -> np.ndarray:
    """Send times in ns of some days, the messages of a bucket evenly; some buckets have other counts."""
    counts = list(DAY) * number
    for bucket, count in changed:
        counts[bucket] = count
    parts = [5.0 * i + 5.0 * (np.arange(count) + 0.5) / count for i, count in enumerate(counts) if count]
    return np.rint(np.concatenate(parts) * S).astype(np.int64)


def asked(tmp_path: Path | None = None, **others: object) -> AdaptSpec:
    """A step that foresees 15 s, which knows three days where it has a folder for them."""
    given = {"tuner": "ds2", "period_s": 10, "forecast": "seasonal-naive", "horizon_s": 15, "season_s": [40]}
    if tmp_path is not None:
        history = tmp_path / "days.txt"
        history.write_text("\n".join(f"{t / S:.9f}" for t in [*days(3), 120 * S]) + "\n")
        given["history"] = history
    return AdaptSpec.model_validate(given | others)


def planned(spec: AdaptSpec, offsets_ns: np.ndarray, now_s: float) -> PlannedRate:
    """Return the rate that is planned for after so many seconds of an interval with such traffic."""
    rates = DueRates(BegunSchedule(Trace(offsets_ns), 0, 0).due, 0, spec.bucket_s)
    return RatePlanner()(spec, PERIOD._replace(rates=rates.until(round(now_s * S))))


@pytest.mark.parametrize(
    ("now_s", "horizon_s", "rate_tps"),
    # by hand, of the day's buckets: from 0 s on 10, 10, 20; from 10 s on 20, 40, 60; from 25 s on 40, 20, 10
    [(0, 15, 4), (10, 15, 12), (12, 10, 12), (25, 15, 8), (30, 10, 4), (30, 20, 4), (30, 25.5, 8)],
)
def test_a_day_that_repeats_exactly_is_planned_for_exactly(
    tmp_path: Path, now_s: float, horizon_s: float, rate_tps: float
) -> None:
    """At any quantile: the naive forecaster has erred by nothing so far, but for the file's last message."""
    found = planned(asked(tmp_path, horizon_s=horizon_s), days(2), now_s)
    assert (found.forecast, found.declined) == ("seasonal-naive", "")
    assert found.rate_tps == pytest.approx(rate_tps, abs=0.2)


def test_the_default_forecaster_foresees_a_rise_that_the_last_period_has_not(tmp_path: Path) -> None:
    """After 10 s of the night a peak of 12/s comes within 15 s."""
    found = planned(asked(tmp_path, forecast="fourier-ar"), days(2), 10)
    assert found.declined == ""
    assert found.rate_tps == pytest.approx(12, abs=1.5)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({}, "the history of 45 s is too short for a season of 40 s (2 seasons are needed)"),
        ({"forecast": "made_forecasters:raising"}, "failed with ZeroDivisionError: no crystal"),
    ],
)
def test_without_a_forecast_the_last_period_s_rate_is_planned_for_and_the_reason_told(
    others: dict[str, object], words: str
) -> None:
    spec = asked(None, **others)
    assert spec.forecast is not None
    assert planned(spec, days(2), 45) == PlannedRate(7.0, spec.forecast, 0.95, 15.0, words)


def test_a_step_s_own_past_is_enough_after_two_days() -> None:
    assert planned(asked(), days(4), 79).declined
    assert planned(asked(), days(4), 90) == PlannedRate(12.0, "seasonal-naive", 0.95, 15.0)


def test_without_forecast_the_last_period_s_rate_is_planned_for() -> None:
    assert planned(AdaptSpec(tuner="ds2"), days(2), 10) == PlannedRate(7.0)


@settings(max_examples=30)
@given(
    now_s=st.floats(80, 150),
    later=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 90)), min_size=1, max_size=8),
    forecaster=st.sampled_from(["seasonal-naive", "stats-summary", "fourier-ar"]),
)
def test_no_message_after_the_decision_changes_what_is_planned_for(
    now_s: float, later: list[tuple[int, int]], forecaster: str
) -> None:
    """The same schedule with other counts in buckets that begin after the decision."""
    first = int(now_s // 5) + 1
    spec = asked(None, forecast=forecaster)
    before = planned(spec, days(8), now_s)
    assert before.declined == ""
    assert planned(spec, days(8, *((first + bucket, count) for bucket, count in later)), now_s) == before


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        ("{tuner: ds2, forecast: nobody, horizon_s: 40}", "unknown forecaster 'nobody'|nobody"),
        (
            "{tuner: ds2, forecast: seasonal-naive, horizon_s: 40}",
            "adapt.forecast: seasonal-naive never has a forecast: there is no season to look back by",
        ),
        (
            "{tuner: ds2, forecast: seasonal-naive, horizon_s: 40, season_s: [12]}",
            "never has a forecast: a season of 12 s is no multiple of buckets of 5 s",
        ),
        (
            "{tuner: ds2, forecast: 'made_forecasters:raising', horizon_s: 40}",
            "made_forecasters:raising failed with ZeroDivisionError: no crystal",
        ),
        ("{scheduler: even, forecast: fourier-ar, horizon_s: 40}", "adapt.forecast: even plans for no rate"),
        (
            "{scheduler: balance, nodes: [1, 3], forecast: fourier-ar, horizon_s: 40}",
            "adapt.forecast: balance plans for no rate",
        ),
    ],
)
def test_a_forecaster_that_is_of_no_use_is_named_before_anything_starts(adapt: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        check_placements(load("quick", [f"steps.plan=[{{executors: 1, adapt: {adapt}}}]"]))
    assert "\n" not in str(refused.value)


def test_earlier_traffic_that_is_no_trace_is_named_with_its_line(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    assert spec.history is not None
    for text, words in (("0\nlunch\n", "line 2: 'lunch' is no"), ("0\n1\n", "shorter than a bucket of 5 s")):
        spec.history.write_text(text)
        with pytest.raises(UsageError, match=words.replace("is no", "is not")):
            require_forecasts(spec)


def test_the_shipped_experiment_is_one() -> None:
    check_placements(load("adapt-foreseen"))
