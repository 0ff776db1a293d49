"""Each forecaster on histories whose future is known exactly, and what holds for any history."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traffic import seasonal_trace
from scipy import stats

from harness.errors import UsageError
from harness.forecasts import DEFAULT, FORECASTERS, NOTES, resolve_forecaster
from harness.forecasts.answers import LEVELS, count_buckets
from harness.forecasts.fourier_ar import fourier_ar
from harness.forecasts.prophet import prophet, prophet_with_trend
from harness.forecasts.seasonal_naive import seasonal_naive
from harness.forecasts.stats_summary import stats_summary
from harness.protocols import Forecaster, RateForecast, RateHistory

PURE = ("fourier-ar", "seasonal-naive", "stats-summary")
EXTRA = {"mstl": "statsforecast", "prophet": "prophet"}
CENTRAL = (0.05, 0.5, 0.95)


def history(rates: Sequence[float] | np.ndarray, bucket_s: float = 1.0, start_s: float = 0.0) -> RateHistory:
    return RateHistory(np.asarray(rates, dtype=float), bucket_s, start_s)


def medians(forecast: RateForecast) -> np.ndarray:
    return forecast.rate_tps[:, forecast.levels.index(0.5)]


@st.composite
def histories(draw: st.DrawFn) -> RateHistory:
    """Draw 24 to 60 counts, in buckets of some length."""
    counts = draw(st.lists(st.integers(0, 2000), min_size=24, max_size=60))
    return history(np.array(counts) / 2, 2.0, draw(st.floats(-1e3, 1e3)))


@pytest.mark.parametrize("name", PURE)
@settings(max_examples=budget(60))
@given(past=histories(), ahead=st.integers(1, 30), scale=st.sampled_from([0.001, 0.5, 3.0, 1e4]))
def test_quantiles_rise_repeat_and_follow_the_scale(
    name: str, past: RateHistory, ahead: int, scale: float
) -> None:
    forecaster = FORECASTERS[name]
    first = forecaster(past, 2.0 * ahead, (16.0,), LEVELS)
    assert first.status == "ok"
    assert first.rate_tps.shape == (ahead, len(LEVELS))
    assert (np.diff(first.rate_tps, axis=1) >= 0).all()
    assert (first.rate_tps >= 0).all()
    end_s = past.time_s[-1]
    assert first.time_s == pytest.approx(end_s + 2.0 * np.arange(1, ahead + 1))
    again = forecaster(past, 2.0 * ahead, (16.0,), LEVELS)
    assert (again.rate_tps == first.rate_tps).all()
    scaled = forecaster(
        history(past.rate_tps * scale, 2.0, past.start_s), 2.0 * ahead, (16.0,), LEVELS
    ).rate_tps
    most = first.rate_tps.max(initial=1e-9)
    assert scaled / scale == pytest.approx(first.rate_tps, rel=1e-6, abs=1e-6 * most)


@pytest.mark.parametrize("name", EXTRA)
def test_an_extra_forecaster_follows_a_seasonal_trace_or_names_the_extra(name: str) -> None:
    past = seasonal_trace(seed=3, days=5)
    forecaster: Forecaster = FORECASTERS[name]
    first = forecaster(past, 120.0, (120.0,), LEVELS)
    if importlib.util.find_spec(EXTRA[name]) is None:
        assert (first.status, len(first.time_s)) == ("declined", 0)
        assert first.reason == f"{EXTRA[name]} is missing: install the extra forecast-rivals"
        return
    assert first.status == "ok"
    assert (np.diff(first.rate_tps, axis=1) >= 0).all()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    again = forecaster(past, 120.0, (120.0,), LEVELS)
    assert (again.rate_tps == first.rate_tps).all()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    thrice = forecaster(history(past.rate_tps * 3, 2.0), 120.0, (120.0,), LEVELS)
    assert thrice.rate_tps / 3 == pytest.approx(first.rate_tps, rel=1e-6)
    # the day's shape is exact in the generator: 1 - 0.5 cos - 0.3 cos; a mean of 200
    angle = 2 * np.pi * (np.arange(60) + 0.5) / 60
    shape = 200 * (1 - 0.5 * np.cos(angle) - 0.3 * np.cos(2 * angle - 0.4))
    assert np.abs(medians(first) / shape - 1).mean() < 0.1


def test_prophet_has_caladriuss_trend_too() -> None:
    """A line of slope 1 from 100 to 199: the trend runs on, the flat level stays near the mean of 149.5."""
    pytest.importorskip("prophet")
    past = history(np.arange(100.0) + 100)
    assert medians(prophet_with_trend(past, 10.0, (), CENTRAL))[-1] == pytest.approx(209, rel=0.03)
    assert medians(prophet(past, 10.0, (), CENTRAL))[-1] == pytest.approx(149.5, rel=0.03)


def test_seasonal_naive_repeats_a_sinusoid_of_its_season_without_error() -> None:
    season = 24
    rates = 100 + 50 * np.sin(2 * np.pi * np.arange(5 * season) / season)
    made = seasonal_naive(history(rates[: 3 * season]), 2.0 * season, (float(season),), CENTRAL)
    for column in made.rate_tps.T:
        assert column == pytest.approx(rates[3 * season :], abs=1e-9)


def test_seasonal_naive_errs_by_twice_a_sinusoid_of_double_its_season() -> None:
    """sin(x - pi) = -sin x: the error is 2 A sin x, the mean square of the differences 2 A squared."""
    amplitude, period = 50.0, 24
    rates = 500 + amplitude * np.sin(2 * np.pi * np.arange(5 * period) / period)
    made = seasonal_naive(history(rates[: 4 * period]), float(period // 2), (float(period // 2),), CENTRAL)
    ahead = rates[4 * period :][: period // 2]
    error = ahead - medians(made)
    assert error == pytest.approx(
        2 * amplitude * np.sin(2 * np.pi * np.arange(period // 2) / period), abs=1e-9
    )
    half_width = (made.rate_tps[:, 2] - made.rate_tps[:, 0]) / 2
    assert half_width[0] == pytest.approx(stats.norm.ppf(0.95) * np.sqrt(2) * amplitude)


def test_seasonal_naive_is_behind_a_line_by_a_season_and_doubts_more_from_season_to_season() -> None:
    """A slope of 2 a bucket and a season of 5: behind by 10, then 20; spread 10, then 10 sqrt 2."""
    made = seasonal_naive(history(2.0 * np.arange(30) + 100), 10.0, (5.0,), CENTRAL)
    actual = 2.0 * np.arange(30, 40) + 100
    assert actual - medians(made) == pytest.approx([10.0] * 5 + [20.0] * 5)
    half_width = made.rate_tps[:, 2] - medians(made)
    assert half_width / stats.norm.ppf(0.95) == pytest.approx([10.0] * 5 + [10 * np.sqrt(2)] * 5)


def test_stats_summary_is_the_quantiles_of_the_past() -> None:
    """0, 1, ..., 100: the quantile q is 100 q."""
    made = stats_summary(history(np.arange(101.0)), 3.0, (), (0.1, 0.25, 0.9))
    assert made.rate_tps == pytest.approx(np.tile([10.0, 25.0, 90.0], (3, 1)))


def test_fourier_ar_finds_harmonics_of_a_season_that_is_no_multiple_of_the_bucket() -> None:
    at = np.arange(90)
    rates = 300 + 80 * np.sin(2 * np.pi * at / 12.5) + 30 * np.cos(4 * np.pi * at / 12.5)
    made = fourier_ar(history(rates[:60]), 30.0, (12.5,), CENTRAL)
    assert medians(made) == pytest.approx(rates[60:], rel=1e-6)
    assert made.rate_tps[:, 2] - made.rate_tps[:, 0] == pytest.approx(0, abs=1e-3)


def test_fourier_ar_without_a_season_is_an_autoregression() -> None:
    """Phi = 0.8, sigma = 5: h ahead the deviation is phi^h of it, the variance sigma^2 (1-phi^2h)/(1-phi^2).

    5,000 buckets: phi is known to within about 0.0085 (its standard error, sqrt((1 - phi^2) / n)).
    """
    rng = np.random.default_rng(5)
    deviations = np.zeros(5000)
    for i in range(1, 5000):
        deviations[i] = 0.8 * deviations[i - 1] + rng.normal(0, 5)
    made = fourier_ar(history(1000 + deviations), 20.0, (), CENTRAL)
    h = np.arange(1, 21)
    assert medians(made) == pytest.approx(1000 + deviations[-1] * 0.8**h, abs=2.0)
    spread = (made.rate_tps[:, 2] - made.rate_tps[:, 0]) / 2 / stats.norm.ppf(0.95)
    assert spread == pytest.approx(5 * np.sqrt((1 - 0.8 ** (2 * h)) / (1 - 0.64)), rel=0.05)


def test_fourier_ar_doubts_more_where_more_comes() -> None:
    """Noise of 10 % of the rate: at the peak, five times the trough, the interval is five times as wide."""
    at = np.arange(480)
    shape = 300 + 200 * np.sin(2 * np.pi * at / 48)
    rates = shape * np.exp(np.random.default_rng(2).normal(0, 0.1, len(at)))
    made = fourier_ar(history(rates), 48.0, (48.0,), CENTRAL)
    width = made.rate_tps[:, 2] - made.rate_tps[:, 0]
    assert 3.5 < width[12] / width[36] < 6.5


@pytest.mark.parametrize("rate", [0.0, 7.0])
@pytest.mark.parametrize("name", PURE)
def test_a_rate_that_never_changes_goes_on(name: str, rate: float) -> None:
    made = FORECASTERS[name](history([rate] * 40), 5.0, (8.0,), CENTRAL)
    assert made.rate_tps == pytest.approx(np.full((5, 3), rate), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "rates", "season_s", "reason"),
    [
        ("fourier-ar", 5, (), "the history has 5 buckets, 12 are needed"),
        ("stats-summary", 5, (), "the history has 5 buckets, 8 are needed"),
        ("seasonal-naive", 30, (), "there is no season to look back by"),
        ("fourier-ar", 30, (20.0,), "the history of 30 s is too short for a season of 20 s (2 seasons"),
        ("seasonal-naive", 30, (20.0,), "the history of 30 s is too short for a season of 20 s (2 seasons"),
        ("seasonal-naive", 30, (7.5,), "a season of 7.5 s is no multiple of buckets of 1 s"),
        ("fourier-ar", 30, (1.5,), "a season of 1.5 s has less than two buckets"),
    ],
)
def test_declined_with_the_reason(name: str, rates: int, season_s: tuple[float, ...], reason: str) -> None:
    made = FORECASTERS[name](history(np.arange(rates) + 1.0), 5.0, season_s, CENTRAL)
    assert (made.status, made.time_s.shape, made.rate_tps.shape) == ("declined", (0,), (0, 3))
    assert made.reason.startswith(reason)


@pytest.mark.parametrize("levels", [(), (0.5, 0.5), (0.9, 0.1), (0.0, 0.5), (0.5, 1.0)])
def test_levels_that_are_none_are_refused(levels: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="rising levels between 0 and 1"):
        stats_summary(history(np.ones(20)), 5.0, (), levels)


@pytest.mark.parametrize("horizon_s", [0.0, -1.0, float("nan"), 1e9])
def test_horizons_that_are_none_are_refused(horizon_s: float) -> None:
    with pytest.raises(UsageError, match="horizon of"):
        count_buckets(history(np.ones(3)), horizon_s)


@pytest.mark.parametrize("rates", [[1.0, -1.0], [1.0, float("nan")], [[1.0], [2.0]]])
def test_histories_that_are_none_are_refused(rates: list[float]) -> None:
    with pytest.raises(UsageError, match="something else than rates"):
        history(rates)


def test_forecasters_go_by_name() -> None:
    assert resolve_forecaster(DEFAULT) is fourier_ar
    assert resolve_forecaster("harness.forecasts.stats_summary:stats_summary") is stats_summary
    assert NOTES.keys() == FORECASTERS.keys()
    with pytest.raises(UsageError, match=r"unknown forecaster 'profet': use one of fourier-ar, .*prophet"):
        resolve_forecaster("profet")
    for wrong, said in (("no.such:thing", "cannot be loaded"), ("harness.plans:ACKER", "is not callable")):
        with pytest.raises(UsageError, match=said):
            resolve_forecaster(wrong)
