"""Batch means and looks, against exact cases and streams whose true mean is known.

The simulations are seeded. Their limits are exact binomial ones for a stated share (`at_least`,
`at_most`), a little below or above what longer simulations found.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import (
    EVEN_SHARES,
    PLAIN_MEAN_MS,
    RARE_SHARES,
    at_least,
    at_most,
    correlated,
    independent,
    windowed,
    windowed_mean_ms,
)
from scipy.stats import norm

from harness.errors import StepInvalid
from harness.experiments.precision import (
    BATCH_COUNTS,
    FINE_BATCHES,
    batch_totals,
    critical,
    deviations,
    look,
    look_times,
    von_neumann,
)


def test_batches_are_of_time_and_hold_every_message_once() -> None:
    times = np.array([0.0, 0.9, 1.0, 2.5, 3.0, 3.9999999, 4.0, -0.1])
    counts, sums = batch_totals(times, np.arange(8.0), 0, 4, 4)
    assert counts.tolist() == [2, 1, 1, 2]
    assert sums.tolist() == [1, 2, 3, 9]


def test_every_batch_count_divides_the_fine_batches() -> None:
    assert all(FINE_BATCHES % count == 0 for count in BATCH_COUNTS)


def test_deviations_add_up_to_nothing_and_allow_for_the_number_of_messages() -> None:
    # Ratio 2 in each batch: no deviation, whatever the counts.
    assert deviations(np.array([1.0, 5, 0]), np.array([2.0, 10, 0])).tolist() == [0, 0, 0]
    z = deviations(np.array([1.0, 2, 3]), np.array([4.0, 1, 9]))
    assert z.sum() == pytest.approx(0)


def test_von_neumann_by_hand() -> None:
    # x = 1, -1, 1, -1: successive squares 3 * 4 = 12, squares 4, ratio 3, 1 - 3/2 = -1/2;
    # variance (4 - 2) / (16 - 1) = 2/15.
    assert von_neumann(np.array([1.0, -1, 1, -1])) == pytest.approx(-0.5 / math.sqrt(2 / 15))


def test_half_width_by_hand() -> None:
    # One message in each of 30 batches, values -1, 1, 1, -1, ... around 10: neighbours are alike as
    # often as not, so 30 batches pass. Their variance is 30/29 with mean 10 (30 is no multiple of 4:
    # the last two are left at 10).
    pattern = np.array([-1.0, 1, 1, -1] * 7 + [0, 0])
    seen = look(np.arange(30) + 0.5, 10 + pattern, 0, 30, precision_pct=5)
    assert seen.batches == 30
    assert seen.mean == pytest.approx(10)
    # The lag-1 sum is 7 * (-1 + 1 - 1) + 6 * 1 + 0, with 28 squares; + 1/30 for the bias is below zero.
    assert seen.autocorrelation == pytest.approx(-1 / 28 * (7 * 1 - 6 * 1))
    assert seen.standard_error == pytest.approx(math.sqrt(28 / 29 / 30))
    assert seen.half_width == pytest.approx(2.0452 * seen.standard_error, rel=1e-4)  # t table, 29 degrees


def test_constant_latency_is_known_exactly() -> None:
    seen = look(np.arange(0, 60, 0.1), np.full(600, 7.0), 0, 60, precision_pct=0.1)
    assert (seen.mean, seen.half_width, seen.enough) == (7, 0, True)


def test_too_few_messages_are_never_enough() -> None:
    seen = look(np.arange(29.0), np.ones(29), 0, 30, precision_pct=50)
    assert seen.mean == 1
    assert seen.half_width == math.inf
    assert not seen.enough
    assert math.isnan(look([], [], 0, 30, precision_pct=50).mean)


def test_correlated_batches_are_never_enough() -> None:
    times = np.arange(0, 60, 0.01)
    seen = look(times, 100 + times, 0, 60, precision_pct=100)
    assert seen.batches == 10
    assert seen.autocorrelation > 0.5
    assert not seen.independent
    assert not seen.enough


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_missing_or_negative_value_is_an_error(bad: float) -> None:
    values = np.ones(100)
    values[3] = bad
    with pytest.raises(StepInvalid, match="of 100 measured values"):
        look(np.arange(100), values, 0, 100, 5)


def test_programming_errors() -> None:
    with pytest.raises(ValueError, match="one length"):
        look([1, 2], [1], 0, 1, 5)
    with pytest.raises(ValueError, match="empty"):
        look([1, 2], [1, 2], 1, 1, 5)


@settings(max_examples=budget(50), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.01, 1000),
    shift_s=st.floats(-1000, 1000),
    stretch=st.floats(0.1, 10),
)
def test_units_of_latency_and_time_do_not_matter(
    seed: int, scale: float, shift_s: float, stretch: float
) -> None:
    rng = np.random.default_rng(seed)
    # In the middles of fine batches, where rounding cannot move a message to another batch.
    times = (rng.integers(0, FINE_BATCHES, 500) + 0.5) / FINE_BATCHES * 60
    values = rng.exponential(20, 500)
    first = look(times, values, 0, 60, precision_pct=5)
    ends = (shift_s, 60 * stretch + shift_s)
    other = look(times * stretch + shift_s, values * scale, *ends, precision_pct=5)
    assert other.batches == first.batches
    assert other.mean == pytest.approx(first.mean * scale)
    assert other.precision_pct == pytest.approx(first.precision_pct, rel=1e-6)


def test_the_order_of_messages_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    times, values = independent(rng, 50, 60)
    order = rng.permutation(times.size)
    seen, again = look(times, values, 0, 60, 5), look(times[order], values[order], 0, 60, 5)
    assert again.half_width == pytest.approx(seen.half_width)


def test_messages_of_one_window_do_not_count_as_independent() -> None:
    # Each value 50 times over at one time: the error is that of the 600 values, not of 30,000.
    rng = np.random.default_rng(6)
    times, values = np.sort(rng.uniform(0, 60, 600)), rng.exponential(20, 600)
    alone = look(times, values, 0, 60, 5)
    together = look(np.repeat(times, 50), np.repeat(values, 50), 0, 60, 5)
    assert together.precision_pct == pytest.approx(alone.precision_pct)


def coverage(streams: list[tuple[np.ndarray, np.ndarray]], true: float) -> int:
    seen = [look(times, values, 0, 60, 5) for times, values in streams]
    return sum(abs(s.mean - true) <= s.half_width for s in seen)


def test_coverage_of_one_look() -> None:
    rngs = [np.random.default_rng(seed) for seed in range(500)]
    covered = coverage([independent(r, 50, 60) for r in rngs], PLAIN_MEAN_MS)
    assert at_least(0.945, 500) <= covered <= at_most(0.965, 500)
    # Half of the variance has a correlation time of 0.3 s, of 1 s (60 of them in the interval).
    assert coverage([correlated(r, 50, 60, 0.3) for r in rngs], PLAIN_MEAN_MS) >= at_least(0.935, 500)
    assert coverage([correlated(r, 50, 60, 1.0) for r in rngs], PLAIN_MEAN_MS) >= at_least(0.91, 500)


def test_coverage_of_windowed_latencies() -> None:
    rngs = [np.random.default_rng(seed) for seed in range(40)]
    true = windowed_mean_ms(500, 16)
    assert coverage([windowed(r, 500, 60, EVEN_SHARES, before_s=10) for r in rngs], true) >= at_least(
        0.98, 40
    )
    assert coverage([windowed(r, 500, 60, RARE_SHARES) for r in rngs], true) >= at_least(0.98, 40)


@pytest.mark.parametrize("precision_pct", [4.5, 5.0, 6.0])
def test_coverage_at_the_stop_of_four_looks(precision_pct: float) -> None:
    # Rate 10 a second, so that the three precisions end at different looks.
    stops, covered, trials = [], 0, 400
    for seed in range(trials):
        times, values = independent(np.random.default_rng(seed), 10, 60)
        for end_s in look_times(15, 60, 4):
            seen = look(times, values, 0, end_s, precision_pct, looks=4)
            if seen.enough:
                break
        stops.append(end_s)
        covered += abs(seen.mean - PLAIN_MEAN_MS) <= seen.half_width
    assert covered >= at_least(0.95, trials)
    assert 15 < np.mean(stops) < 60


def test_more_looks_give_wider_intervals() -> None:
    assert critical(20, 1) == pytest.approx(2.0930, abs=1e-4)  # t table, 19 degrees of freedom
    assert critical(20, 1) < critical(20, 2) <= critical(20, 4) < critical(20, 8)
    assert norm.ppf(0.975) < critical(30, 1)


@settings(deadline=None)
@given(least=st.floats(0.5, 100), factor=st.floats(1, 50), looks=st.integers(1, 12))
def test_look_times(least: float, factor: float, looks: int) -> None:
    times = look_times(least, least * factor, looks)
    assert times[-1] == least * factor
    assert len(times) == (1 if factor == 1 else looks)
    assert all(a < b or b == pytest.approx(a) for a, b in pairwise(times))
    assert looks == 1 or times[0] == pytest.approx(least)


@pytest.mark.parametrize(("least", "most", "looks"), [(0, 10, 2), (20, 10, 2), (5, 10, 0)])
def test_look_times_refuse(least: float, most: float, looks: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        look_times(least, most, looks)
