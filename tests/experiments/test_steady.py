"""Burn-in and drift, on exact cases and on simulated streams that are steady, settle, drift or saturate.

Shares asserted are those of the module's docstring, with exact binomial limits (`processes`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import EVEN_SHARES, RARE_SHARES, Floats, at_least, at_most, correlated, independent, windowed
from scipy.stats import t as student

from harness.errors import StepInvalid
from harness.experiments.steady import (
    DETECTION_ALPHA,
    INDEPENDENT_SHAPES,
    Arrivals,
    Steadiness,
    burn_in,
    drift,
    interval,
    truncation,
)

Change = Callable[[Floats], Floats]
LENGTH_S = 60.0
DRIFTS: dict[str, Change] = {
    "trend of 50 %": lambda x: 0.75 + 0.5 * x,
    "30 % more from the middle on": lambda x: 1 + 0.3 * (x > 0.5),
    "50 % more in the last tenth": lambda x: 1 + 0.5 * (x > 0.9),
    "settling from three times the level": lambda x: 1 + 2 * np.exp(-x / 0.2),
    "growth to six times the level": lambda x: 1 + 5 * x,
}


def plain(seed: int, length_s: float = LENGTH_S) -> tuple[Floats, Floats]:
    return independent(np.random.default_rng(seed), 50, length_s)


def windows(seed: int, shares: Floats = RARE_SHARES) -> tuple[Floats, Floats]:
    return windowed(np.random.default_rng(seed), 500, LENGTH_S, shares, before_s=40)


def refused(streams: list[tuple[Floats, Floats]], change: Change = np.ones_like) -> int:
    """Count the streams refused over 60 s with a tolerance of 10 %."""
    return sum(
        not interval(Arrivals(times, latency * change(times / LENGTH_S)), 0, LENGTH_S, drift_pct=10).steady
        for times, latency in streams
    )


def live(times: Floats, latency: Floats, least_s: float = 15, most_s: float = 60) -> tuple[Steadiness, float]:
    """Ask every 3 s, with what has arrived, until the answer is final."""
    for now_s in np.arange(least_s, most_s + 3, 3.0):
        known = times < now_s
        answer = burn_in(Arrivals(times[known], latency[known]), now_s, least_s, most_s, 10)
        if answer.decided:
            return answer, now_s
    raise AssertionError("undecided at the most time")


def test_false_refusals_of_steady_streams() -> None:
    assert refused([plain(seed) for seed in range(400)]) <= at_most(0.01, 400)
    slow = [correlated(np.random.default_rng(seed), 50, LENGTH_S, 0.3) for seed in range(300)]
    assert refused(slow) <= at_most(0.02, 300)
    assert refused([windows(seed, EVEN_SHARES) for seed in range(60)]) <= at_most(0.01, 60)
    assert refused([windows(seed) for seed in range(60)]) <= at_most(0.02, 60)


@pytest.mark.parametrize("name", DRIFTS)
def test_drifts_are_refused(name: str) -> None:
    streams = [plain(seed) for seed in range(50)]
    assert refused(streams, DRIFTS[name]) >= at_least(0.99, 50)


def test_drifts_of_windowed_latencies_are_refused() -> None:
    even = [windows(seed, EVEN_SHARES) for seed in range(25)]
    for name, change in DRIFTS.items():
        assert refused(even, change) >= at_least(0.99, 25), name
    # With a rare key whose windows last a third of the interval, only large drifts stand out.
    rare = [windows(seed) for seed in range(25)]
    for name in ("settling from three times the level", "growth to six times the level"):
        assert refused(rare, DRIFTS[name]) >= at_least(0.97, 25), name


def test_the_clearest_of_all_shapes_by_chance() -> None:
    # White noise alone: INDEPENDENT_SHAPES is the number with which the level is held.
    rng = np.random.default_rng(1)
    counts = np.full(60, 1000.0)
    detected = sum(
        drift("latency", counts, counts * (1 + rng.normal(0, 0.1, 60)), tolerance_pct=1e-9).detected
        for _ in range(3000)
    )
    assert at_least(0.6 * DETECTION_ALPHA, 3000) <= detected <= at_most(1.4 * DETECTION_ALPHA, 3000)
    assert INDEPENDENT_SHAPES == 12


def test_a_step_change_is_measured() -> None:
    # 100 ms in 15 buckets and 130 ms in 45 (mean 122.5) with alternating +-1: the change is 30 ms.
    level = np.where(np.arange(60) < 15, 100.0, 130.0) + np.where(np.arange(60) % 2, 1, -1)
    found = drift("latency", np.ones(60), level, tolerance_pct=10)
    assert found.shape == "change after 25 % of the time"
    assert found.change_pct == pytest.approx(100 * 30 / 122.5, rel=0.01)
    assert found.low_pct <= 100 * 30 / 122.5 <= found.high_pct
    assert found.detected
    assert not found.bounded


def test_a_trend_is_measured_from_end_to_end() -> None:
    level = 90 + 20 * (np.arange(60) + 0.5) / 60
    found = drift("latency", np.ones(60), level, tolerance_pct=10)
    assert (found.shape, found.detected) == ("trend", True)
    assert found.change_pct == pytest.approx(20)
    assert not drift("latency", np.ones(60), level, tolerance_pct=21).detected


def test_the_interval_of_a_change_holds_for_all_shapes() -> None:
    rng = np.random.default_rng(2)
    series = 100 + rng.normal(0, 5, 60)
    found = drift("latency", np.ones(60), series, tolerance_pct=10)
    # 12 low frequencies, one spent on the fit.
    widths = student.ppf(1 - DETECTION_ALPHA / 2 / 12, 11)
    error = (found.high_pct - found.change_pct) / widths
    assert found.change_pct - widths * error == pytest.approx(found.low_pct)


def test_constant_latency_at_a_constant_rate_is_steady_at_once() -> None:
    times = np.arange(0, 60, 0.02)
    answer, when = live(times, np.full(times.size, 7.0))
    assert (answer.steady, answer.start_s, when) == (True, 0, 15)
    assert answer.reason == "drift is within 10 %"


def test_a_transient_is_cut_off() -> None:
    # 30 ms in the first 8 s, then 10 ms.
    times = np.arange(0, 60, 0.02)
    answer, when = live(times, np.where(times < 8, 30.0, 10.0))
    assert (answer.steady, answer.start_s) == (True, 8)
    assert 16 < when <= 24


def test_steady_streams_end_burn_in() -> None:
    answers = [live(*plain(seed)) for seed in range(30)]
    assert sum(a.steady for a, _ in answers) >= at_least(0.99, 30)
    answers = [live(*windows(seed)) for seed in range(15)]
    assert sum(a.steady for a, _ in answers) >= at_least(0.98, 15)


def test_much_data_end_burn_in_early() -> None:
    rngs = [np.random.default_rng(seed) for seed in range(20)]
    ends = [live(*independent(rng, 500, LENGTH_S))[1] for rng in rngs]
    assert np.mean(ends) < 25


@pytest.mark.parametrize(
    "change", [lambda s: 1 + 0.03 * s, lambda s: 0.2 + 0.1 * s], ids=["3 % a second", "without bound"]
)
def test_lasting_drifts_never_end_burn_in(change: Change) -> None:
    for seed in range(25):
        times, latency = plain(seed)
        answer, when = live(times, latency * change(times))
        assert (answer.steady, answer.start_s, when) == (False, None, 60)
        assert "drift of latency" in answer.reason


def test_a_rate_that_changes_is_refused() -> None:
    rng = np.random.default_rng(3)
    times = np.concatenate([rng.uniform(0, 30, 3000), rng.uniform(30, 60, 2000)])
    answer = interval(Arrivals(times, rng.exponential(20, times.size)), 0, 60, drift_pct=10)
    assert not answer.steady
    assert "rate" in answer.reason
    assert answer.rate is not None
    # 100 a second, then 67: 33.3 less of a mean of 83.3.
    assert answer.rate.low_pct < -40 < answer.rate.high_pct


def test_a_rate_that_follows_the_sending_is_steady() -> None:
    rng = np.random.default_rng(3)
    sent = np.concatenate([rng.uniform(0, 30, 3000), rng.uniform(30, 60, 2000)])
    latency = rng.exponential(20, sent.size)
    assert interval(Arrivals(sent + latency / 1e3, latency, sent_s=sent), 0, 60, drift_pct=10).steady


def test_arrivals_that_fall_short_are_refused() -> None:
    # Saturation behind a limit of pending messages: latency and rate are constant, 80 of 100 arrive.
    sent, arrived = np.arange(0, 60, 0.01), np.arange(0, 60, 0.0125)
    latency = np.full(arrived.size, 50.0)
    unknown, all_, most = (
        Arrivals(arrived, latency, sent_s=sent, outputs_per_message=n) for n in (None, 1, 0.8)
    )
    assert interval(unknown, 0, 60, 10).steady
    answer = interval(all_, 0, 60, 10)
    assert not answer.steady
    assert "arrivals against those expected -20.0 %" in answer.reason
    assert interval(most, 0, 60, 10).steady
    final = burn_in(all_, 60, 15, 60, 10)
    assert (final.steady, final.decided) == (False, True)


def test_silence_is_not_steady() -> None:
    early = np.arange(0, 20, 0.01)
    assert burn_in(Arrivals([], []), 30, 15, 60, 10).reason == "no message arrived in 30 s"
    final = burn_in(Arrivals(early, np.ones(early.size)), 60, 15, 60, 10)
    assert (final.steady, final.decided) == (False, True)
    assert not interval(Arrivals([], []), 0, 30, 10).steady
    assert not interval(Arrivals(early, np.ones(early.size)), 0, 60, 10).steady


def test_too_early_is_undecided() -> None:
    times = np.arange(0, 60, 0.01)
    even = Arrivals(times, np.ones(times.size))
    answer = burn_in(even, 14.9, 15, 60, 10)
    assert (answer.steady, answer.decided, answer.start_s) == (False, False, None)
    short = burn_in(even, 5, 2, 5, 10)
    assert (short.steady, short.decided) == (False, True)
    assert burn_in(even, 5, 2, 5, 10, bucket_s=0.25).steady


def test_messages_after_now_are_ignored() -> None:
    times, latency = plain(1)
    known = times < 30
    so_far = Arrivals(times[known], latency[known])
    assert burn_in(Arrivals(times, latency), 30, 15, 60, 10) == burn_in(so_far, 30, 15, 60, 10)


def test_truncation_minimises_the_standard_error() -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 30, 40).astype(float)
    sums = counts * (10 + 20 * np.exp(-np.arange(40) / 4) + rng.normal(0, 1, 40))

    def error(cut: int) -> float:
        c, s = counts[cut:], sums[cut:]
        return float(np.square(s - s.sum() / c.sum() * c).sum() / c.sum() ** 2)

    assert truncation(counts, sums) == min(range(21), key=error)
    assert truncation(np.zeros(10), np.zeros(10)) == 5


@settings(max_examples=budget(40), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.01, 1000),
    shift_s=st.floats(-1000, 1000),
    trend=st.floats(0, 1),
)
def test_units_of_latency_and_origin_of_time_do_not_matter(
    seed: int, scale: float, shift_s: float, trend: float
) -> None:
    rng = np.random.default_rng(seed)
    times = (rng.integers(0, 60, 1000) + 0.5).astype(float)
    latency = rng.exponential(20, 1000) * (1 + trend * times / 60)
    first = interval(Arrivals(times, latency), 0, 60, 10)
    other = interval(Arrivals(times + shift_s, latency * scale), shift_s, 60 + shift_s, 10)
    assert other.steady == first.steady
    assert first.latency is not None
    assert other.latency is not None
    assert other.latency.change_pct == pytest.approx(first.latency.change_pct, rel=1e-6, abs=1e-6)
    assert other.latency.high_pct == pytest.approx(first.latency.high_pct, rel=1e-6, abs=1e-6)


def test_wrong_input() -> None:
    with pytest.raises(ValueError, match="least_s"):
        burn_in(Arrivals([1.0], [1.0]), 30, 60, 15, 10)
    with pytest.raises(ValueError, match="needs sent_s"):
        Arrivals([1.0], [1.0], outputs_per_message=1)
    with pytest.raises(StepInvalid, match="1 are missing and 0 negative"):
        interval(Arrivals([1.0, 2.0], [1.0, np.nan]), 0, 60, 10)
