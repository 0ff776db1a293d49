"""Variance components against a balanced analysis of variance by hand, and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import at_least, at_most
from scipy.stats import t as student

from harness.experiments.noise import Measured, between_repeats, noise


def test_without_repeats_the_noise_is_that_within() -> None:
    assert between_repeats([]) is None
    assert between_repeats([[Measured(10, 1, 9)], [Measured(20, 1, 9)]]) is None
    found = noise(Measured(100, 2, 19))
    assert (found.sd, found.sd_pct, found.freedom, found.within, found.between) == (2, 2, 19, 2, None)
    assert found.half_width == pytest.approx(2 * 2.0930, rel=1e-4)  # t table


def test_components_by_hand() -> None:
    # Means 96, 98, 102, 104 around 100: variance (16 + 4 + 4 + 16) / 3 = 13.33; within 4.
    between = between_repeats([[Measured(m, 2, 10) for m in (96, 98, 102, 104)]])
    assert between is not None
    assert between.total == pytest.approx(40 / 3 / 1e4)
    assert between.within == pytest.approx(4 / 1e4)
    assert between.component == pytest.approx((40 / 3 - 4) / 1e4)
    assert (between.freedom, between.within_freedom) == (3, pytest.approx(40))
    found = noise(Measured(100, 2, 10), between)
    assert found.sd**2 == pytest.approx(40 / 3)
    assert found.between == pytest.approx(math.sqrt(40 / 3 - 4))
    # Satterthwaite: 13.33^2 / (4^2/10 + 13.33^2/3 + 4^2/40).
    assert found.freedom == pytest.approx((40 / 3) ** 2 / (1.6 + (40 / 3) ** 2 / 3 + 0.4))


def test_repeats_of_several_configurations_are_pooled_as_shares_of_the_mean() -> None:
    small = [Measured(m, 0, 9) for m in (9, 11)]
    large = [Measured(m, 0, 9) for m in (900, 1100)]
    lone = [Measured(5, 1, 9)]
    between = between_repeats([small, large, lone])
    assert between is not None
    assert between.freedom == 2
    assert between.component == pytest.approx(0.02)  # (0.1^2 + 0.1^2) / 1, in both
    assert noise(Measured(50, 0, 9), between).sd == pytest.approx(50 * math.sqrt(0.02))


def test_repeats_closer_than_their_noise_add_none() -> None:
    between = between_repeats([[Measured(100, 5, 9), Measured(100.5, 5, 9)]])
    assert between is not None
    assert between.component < 0
    found = noise(Measured(100, 5, 9), between)
    assert (found.sd, found.between, found.freedom) == (5, 0, 9)


@given(scale=st.floats(0.01, 1000), seed=st.integers(0, 1000))
def test_units_do_not_matter(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [Measured(float(m), 1, 9) for m in rng.normal(100, 3, 4)]
    scaled = [Measured(v.mean * scale, v.standard_error * scale, 9) for v in values]
    a = noise(values[0], between_repeats([values]))
    b = noise(scaled[0], between_repeats([scaled]))
    assert b.sd == pytest.approx(a.sd * scale)
    assert b.freedom == pytest.approx(a.freedom)


def test_repeats_lie_within_the_half_width() -> None:
    # Spread 3 between, 2 within, 4 repeats: how often a fifth repeat's true offset plus error stays inside.
    rng, trials, inside = np.random.default_rng(1), 4000, 0
    for _ in range(trials):
        errors = 2 * np.sqrt(rng.chisquare(9, 5) / 9)
        means = 100 + rng.normal(0, 3, 5) + rng.normal(0, 2, 5)
        values = [Measured(float(m), float(e), 9) for m, e in zip(means, errors, strict=True)]
        found = noise(values[4], between_repeats([values[:4]]))
        inside += abs(means[4] - 100) <= found.half_width
    assert at_least(0.92, trials) <= inside <= at_most(0.98, trials)


def test_wrong_input() -> None:
    for bad in ((0, 1, 9), (1, -1, 9), (1, 1, 0), (math.nan, 1, 9)):
        with pytest.raises(ValueError, match="needs mean > 0"):
            Measured(*bad)
    assert student.ppf(0.975, 3) > 3  # few repeats say little: three degrees of freedom widen by half
