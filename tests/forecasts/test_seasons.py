"""Seasons that a history shows, and buckets that are made of reported ones and that seasons are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.app.forecasting import seasons_of
from harness.experiments.loading import files, load
from harness.forecasts.seasonal_naive import seasonal_naive
from harness.forecasts.seasons import SEASONS_READ, bucket_length_s, known_seasons, past_needed_s
from harness.protocols import RateHistory

DAY_S = 86_400.0


@given(reported_s=st.integers(1, 60), least_s=st.floats(0.1, 5000), season_s=st.integers(2, 10**6))
def test_a_bucket_is_made_of_reported_ones_and_is_as_long_as_asked(
    reported_s: int, least_s: float, season_s: int
) -> None:
    """The least such multiple, or, up to four times that, one of which the season is a multiple."""
    length_s = bucket_length_s(reported_s, least_s, (season_s,))
    shortest_s = bucket_length_s(reported_s, least_s)
    assert shortest_s % reported_s == 0
    assert shortest_s - reported_s < least_s <= shortest_s * (1 + 1e-9) or shortest_s == reported_s
    fitting = [
        n * shortest_s
        for n in (1, 2, 3, 4)  # a part of those that are tried
        if season_s % (n * shortest_s) == 0
    ]
    assert length_s % reported_s == 0
    assert shortest_s <= length_s <= 4 * shortest_s
    assert season_s % length_s == 0 or not fitting


@pytest.mark.parametrize("hours", [30.0, 60.37, 72.0])
@pytest.mark.parametrize("reported_s", [1.0, 2.0, 5.0, 7.0])
def test_a_day_is_a_multiple_of_its_buckets_where_it_is_one_of_reported_ones(
    hours: float, reported_s: float
) -> None:
    """86,400 has the factors 2^7, 3^3 and 5^2, and no 7."""
    length_s = bucket_length_s(reported_s, hours, (DAY_S,))
    assert (DAY_S % length_s == 0) == (reported_s != 7)


@given(buckets=st.integers(1, 400), bucket_s=st.sampled_from([1.0, 6.0]), season_s=st.floats(0.5, 3000))
def test_a_known_season_is_one_that_a_forecaster_does_not_decline(
    buckets: int, bucket_s: float, season_s: float
) -> None:
    history = RateHistory(np.ones(buckets), bucket_s)
    known = known_seasons(history, (season_s,))
    declined = seasonal_naive(history, bucket_s, (season_s,), (0.5,))
    only_uneven = "no multiple" in declined.reason  # fourier-ar takes such a season
    assert known == ((season_s,) if declined.status == "ok" or only_uneven else ())


def test_three_of_the_longest_season_are_read() -> None:
    assert past_needed_s((3600.0, DAY_S)) == SEASONS_READ * DAY_S
    assert past_needed_s(()) == 0


@pytest.mark.parametrize(("experiment", "season_s"), [("adapt-foreseen", (120.0,)), ("quick", ())])
def test_a_run_s_own_season_is_the_one_that_its_experiment_plans_with(
    experiment: str, season_s: tuple[float, ...], tmp_path: Path
) -> None:
    for name, text in files(load(experiment)).items():
        (tmp_path / name).write_text(text)
    assert seasons_of(tmp_path) == season_s
    assert seasons_of(tmp_path / "experiment.yaml") == (), "a file is a trace, which names none"
