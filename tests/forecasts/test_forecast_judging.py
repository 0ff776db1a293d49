"""Scores of forecasts, by hand and by formula; and the traces that forecasters are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from forecast_scores import RollingOrigin, judge_forecaster, pinball_loss, roll_origins, score_horizons
from hypothesis import given
from hypothesis import strategies as st
from made_traffic import Day, bursty_trace, seasonal_trace, send_times_s
from scipy import stats

from harness.errors import UsageError
from harness.experiments.schedule import Trace
from harness.forecasts.answers import LEVELS, count_buckets
from harness.forecasts.foreseeing import (
    RateLimit,
    exceeding_probability,
    foresee,
    waiting_after,
    waiting_ahead,
)
from harness.forecasts.seasonal_naive import seasonal_naive
from harness.protocols import RateForecast, RateHistory


def normal(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Forecast a normal distribution, mean 100 and deviation 10, whatever was."""
    del season_s
    ahead = count_buckets(history, horizon_s)
    time_s = history.time_s[-1] + history.bucket_s * np.arange(1, ahead + 1)
    return RateForecast(time_s, tuple(levels), np.tile(stats.norm.ppf(levels, 100, 10), (ahead, 1)))


def test_pinball_loss_by_hand() -> None:
    """Level 0.9: 3 too low costs 2.7, 3 too high 0.3, exact nothing; level 0.5 is half the distance."""
    actual = np.array([10.0, 10.0, 10.0])
    quantile = np.array([7.0, 13.0, 10.0])
    assert pinball_loss(actual, quantile, 0.9) == pytest.approx([2.7, 0.3, 0.0])
    assert pinball_loss(actual, quantile, 0.5) == pytest.approx([1.5, 1.5, 0.0])


def test_pinball_loss_of_the_true_quantile_of_a_normal_is_its_density_there() -> None:
    """E of the loss at the true quantile is sigma times the standard density at it (partial expectation).

    20,000 draws: the standard error is below 1 % of it.
    """
    actual = np.random.default_rng(1).normal(100, 10, 20_000)
    for level in (0.05, 0.5, 0.9):
        at = stats.norm.ppf(level)
        loss = pinball_loss(actual, np.full_like(actual, 100 + 10 * at), level).mean()
        assert loss == pytest.approx(10 * stats.norm.pdf(at), rel=0.03)
        for off in (-3, 3):
            assert pinball_loss(actual, np.full_like(actual, 100 + 10 * at + off), level).mean() > loss


def test_coverage_of_normal_noise_is_what_the_formula_says() -> None:
    """Rates of deviation 20 in a 90 % interval for deviation 10: P(|z| < 1.645 / 2) = 58.9 %; of 10: 90 %.

    2,000 origins: the standard error is 1.1 % and 0.7 %; three of them are allowed.
    """
    draws = np.random.default_rng(4).normal(0, 1, 2001)
    for deviation, within in ((20.0, 0.034), (10.0, 0.021)):
        judged = judge_forecaster(
            normal, RateHistory(100 + deviation * draws, 1.0), (1.0,), (), RollingOrigin(1.0, 1.0)
        )
        (score,) = score_horizons(judged)
        assert score.origins == 2000
        exact = 2 * stats.norm.cdf(stats.norm.ppf(0.95) * 10 / deviation) - 1
        assert score.covered_pct / 100 == pytest.approx(exact, abs=within)


def test_a_rolling_forecast_of_a_repeated_day_has_no_loss_and_misses_nothing() -> None:
    """Seasonal-naive on a sinusoid of its season is exact, so each rate above the limit is foreseen."""
    season = 12
    rates = 100 + 50 * np.sin(2 * np.pi * np.arange(10 * season) / season + 0.1)
    judged = judge_forecaster(
        seasonal_naive, RateHistory(rates, 1.0), (1.0, 6.0), (12.0,), RollingOrigin(24.0, 1.0), 120.0
    )
    for score in score_horizons(judged):
        assert score.pinball_tps == pytest.approx(0, abs=1e-9)
        above = int((rates[23 + int(score.horizon_s) :][: score.origins] > 120).sum())
        # 120 - 6 - 24 + 1 origins
        assert astuple(score)[5:] == (above, 0, 0, 91 - above)
        assert (score.hit_pct, score.false_alarm_pct) == (100, 0)


def test_hits_misses_and_false_alarms_by_hand() -> None:
    """Season of two: each forecast is the rate two buckets ago. Above 5: foreseen 9 9 1 1, came 9 1 9 1."""
    rates = np.array([9.0, 9.0, 9.0, 1.0, 1.0, 9.0, 1.0, 1.0])

    def echo(
        history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
    ) -> RateForecast:
        del horizon_s, season_s
        return RateForecast(
            np.array([history.time_s[-1] + 1]),
            tuple(levels),
            np.full((1, len(levels)), history.rate_tps[-2]) + np.linspace(-0.1, 0.1, len(levels)),
        )

    judged = judge_forecaster(echo, RateHistory(rates, 1.0), (1.0,), (), RollingOrigin(2.0, 1.0), 5.0)
    assert judged["actual_tps"].tolist() == [9, 1, 1, 9, 1, 1]
    assert judged["foreseen"].tolist() == [True, True, True, False, False, True]
    (score,) = score_horizons(judged)
    assert (score.hits, score.misses, score.false_alarms, score.quiet) == (1, 1, 3, 1)
    assert (score.hit_pct, score.false_alarm_pct) == (50, 75)


def test_a_forecaster_sees_nothing_after_the_origin_and_no_more_than_its_window() -> None:
    seen = []

    def watch(
        history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
    ) -> RateForecast:
        seen.append((history.start_s, history.rate_tps.tolist()))
        return normal(history, horizon_s, season_s, levels)

    past = RateHistory(np.arange(6.0), 2.0, start_s=100.0)
    judged = judge_forecaster(watch, past, (4.0,), (), RollingOrigin(4.0, 2.0, window_s=6.0))
    assert seen == [(100.0, [0, 1]), (100.0, [0, 1, 2]), (102.0, [1, 2, 3])]
    assert judged["origin_s"].tolist() == [104, 106, 108]
    assert judged["actual_tps"].tolist() == [3, 4, 5]


def test_forecasts_that_were_declined_are_counted_and_in_no_mean() -> None:
    judged = judge_forecaster(
        seasonal_naive, RateHistory(np.ones(40), 1.0), (1.0,), (12.0,), RollingOrigin(12.0, 4.0), 2.0
    )
    (score,) = score_horizons(judged)
    # origins 12, 16, ..., 36; seasonal-naive needs two seasons
    assert (score.declined, score.origins, score.quiet) == (3, 4, 4)
    assert score.pinball_tps == 0


def test_no_room_for_an_origin_is_said() -> None:
    with pytest.raises(UsageError, match="10 s of history have no room"):
        list(roll_origins(RateHistory(np.ones(10), 1.0), RollingOrigin(8.0, 1.0), 3.0))


@given(limit=st.floats(40, 160), other=st.floats(40, 160))
def test_the_probability_of_exceeding_a_normal_is_its_tail_and_falls_with_the_limit(
    limit: float, other: float
) -> None:
    """Interpolated between levels at most 5 % apart: right to 0.02 within, cut at 0.01 beyond."""
    forecast = normal(RateHistory(np.ones(3), 1.0), 1.0, (), LEVELS)
    chance = float(exceeding_probability(forecast, limit)[0])
    assert 0.01 - 1e-12 <= chance <= 0.99 + 1e-12
    assert chance == pytest.approx(stats.norm.sf(limit, 100, 10), abs=0.02)
    if other > limit:
        assert float(exceeding_probability(forecast, other)[0]) <= chance + 1e-12


def test_the_first_bucket_that_is_likely_enough_is_foreseen() -> None:
    levels = (0.25, 0.75)
    forecast = RateForecast(np.array([10.0, 20.0, 30.0]), levels, np.array([[0, 10], [10, 20], [20, 30.0]]))
    assert foresee(forecast, RateLimit(15.0), 10.0, 0.5) == (20.0, 0.5, "rate")
    assert foresee(forecast, RateLimit(15.0), 10.0, 0.6) == (30.0, 0.75, "rate")
    assert foresee(forecast, RateLimit(31.0), 10.0, 0.5) is None


def test_what_waits_is_foreseen_until_it_is_worked_off() -> None:
    """By the median, 5, 15 and 25 come of 30 a second: of 600 that wait 250, 150 and 50 go in 10 s each.

    Quantiles of 0.75 are 10, 20 and 30: 200, 100 and none of them go. Beyond that nothing is known to come.
    """
    levels = (0.25, 0.75)
    forecast = RateForecast(np.array([10.0, 20.0, 30.0]), levels, np.array([[0, 10], [10, 20], [20, 30.0]]))
    assert waiting_ahead(forecast, RateLimit(30.0, 600.0), 10.0).tolist() == [350, 200, 150]
    assert waiting_ahead(forecast, RateLimit(30.0, 600.0), 10.0, 0.75).tolist() == [400, 300, 300]
    assert waiting_ahead(forecast, RateLimit(30.0, 600.0), 10.0, 0.2).tolist() == [300, 0, 0]
    assert foresee(forecast, RateLimit(30.0, 260.0), 10.0, 0.5) == (10.0, 0.5, "backlog")
    assert foresee(forecast, RateLimit(30.0, 240.0), 10.0, 0.5) is None
    assert foresee(forecast, RateLimit(30.0, 240.0), 10.0, 0.3) == (10.0, 0.3, "backlog")
    assert foresee(forecast, RateLimit(30.0, 299.0), 10.0, 0.8) is None, "surer than the forecast ever is"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0, 100))
def test_what_waits_is_the_most_that_came_too_much_since_any_moment(rates: list[float], limit: float) -> None:
    """The solution of Lindley's recursion: the largest sum over a last part of the past, at least 0."""
    excess = 2.0 * (np.array(rates) - limit)
    largest = max(0.0, *(excess[first:].sum() for first in range(len(rates))))
    assert waiting_after(RateHistory(np.array(rates), 2.0), limit) == pytest.approx(largest, abs=1e-9)


@pytest.mark.parametrize("make", [seasonal_trace, bursty_trace])
def test_a_trace_repeats_by_its_seed_and_holds_whole_counts(make: object) -> None:
    assert callable(make)
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert (one.rate_tps == same.rate_tps).all()
    assert (one.rate_tps != other.rate_tps).any()
    counts = one.rate_tps * one.bucket_s
    assert counts == pytest.approx(np.rint(counts))


def test_a_seasonal_trace_has_its_mean_day_and_weekend() -> None:
    """The day's shape integrates to 1; a weekend of two days in seven at 0.75 makes it 1 - 2/7 * 0.25.

    28 days of 60 buckets, each of 400 tuples and 5 % of wandering: the mean is known to within 0.4 %.
    """
    assert seasonal_trace(seed=1, days=28).rate_tps.mean() == pytest.approx(200, rel=0.015)
    weekly = seasonal_trace(seed=1, days=28, day=Day(weekly=True)).rate_tps
    assert weekly.mean() == pytest.approx(200 * (1 - 0.5 / 7), rel=0.015)
    by_day = weekly.reshape(28, 60).mean(axis=1).reshape(4, 7)
    assert by_day[:, 5:].mean() / by_day[:, :5].mean() == pytest.approx(0.75, rel=0.03)
    noiseless = seasonal_trace(seed=1, days=2, noise=0.0, mean_tps=1e7).rate_tps
    angle = 2 * np.pi * (np.arange(120) + 0.5) / 60
    assert noiseless / 1e7 == pytest.approx(1 - 0.5 * np.cos(angle) - 0.3 * np.cos(2 * angle - 0.4), rel=0.01)


def test_a_steep_day_is_an_offices() -> None:
    """Half of the day at 1.75 and half at 0.25, ramps counted: a mean of 1; 1e7 tuples/s have no noise."""
    rates = seasonal_trace(seed=1, days=2, noise=0.0, mean_tps=1e7, day=Day(steep=True)).rate_tps / 1e7
    assert rates.mean() == pytest.approx(1, rel=0.001)
    assert rates[[0, 17, 59]] == pytest.approx(0.25, rel=0.01)
    assert rates[[21, 40, 47]] == pytest.approx(1.75, rel=0.01)


def test_a_bursty_trace_has_its_mean_and_no_season() -> None:
    """100,000 s hold 3,333 bursts; deviations of height and length make their half's mean sure to 4 %."""
    rates = bursty_trace(seed=1, length_s=100_000.0).rate_tps
    assert rates.mean() == pytest.approx(200, rel=0.06)
    assert np.median(rates) < 0.9 * rates.mean()
    days = rates[: 60 * 833].reshape(833, 60).mean(axis=0)
    assert days.std() / rates.mean() < 0.08
    calm = bursty_trace(seed=1, burst_share=0.0).rate_tps
    assert calm.var() == pytest.approx(200 / 2, rel=0.25)  # Poisson counts of 400 in 2 s


def test_send_times_are_a_trace_file_with_the_traces_counts(tmp_path) -> None:
    trace = seasonal_trace(seed=2, days=1)
    times = send_times_s(trace, seed=7)
    path = tmp_path / "day.txt"
    path.write_text("".join(f"{t:.9f}\n" for t in times))
    read = Trace.read(path).offsets_ns / 1e9
    counts, _ = np.histogram(read, np.arange(0, 121, 2.0))
    assert (counts == np.rint(trace.rate_tps * 2)).all()
    assert (np.diff(read) >= 0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: seasonal_trace(seed=1, days=0),
        lambda: seasonal_trace(seed=1, bucket_s=0.0),
        lambda: bursty_trace(seed=1, length_s=1.0, bucket_s=2.0),
        lambda: bursty_trace(seed=1, burst_share=1.5),
        lambda: send_times_s(RateHistory(np.array([0.3]), 1.0), seed=1),
    ],
)
def test_a_trace_that_cannot_be_made_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(UsageError):
        wrong()


def test_judged_rows_have_the_columns_that_are_promised() -> None:
    judged = judge_forecaster(normal, RateHistory(np.ones(5), 1.0), (1.0,), (), RollingOrigin(2.0, 1.0))
    assert isinstance(judged, pd.DataFrame)
    assert judged["probability"].isna().all()
    assert not judged[["above", "foreseen"]].to_numpy().any()
