"""P-values, power and correction: right where the answer is known, by simulation from known truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.regression.chance import PRIOR_NIGHTS, Chance, between_nights
from harness.regression.outcomes import Outcome, corrected

BLOCKS = 20
DRAWN = 4000


def differences(rng: np.random.Generator, between: float, moved: float = 0.0) -> list[float]:
    """P-values of two nights' difference, whose within is estimated from one night's blocks."""
    found = []
    for _ in range(DRAWN):
        blocks = rng.standard_normal((2, BLOCKS))
        change = (
            float(np.diff(blocks.mean(axis=1))[0] + rng.standard_normal() * between * math.sqrt(2)) + moved
        )
        within = float(blocks[0].std(ddof=1)) / math.sqrt(BLOCKS)
        found.append(Chance(within, between, 1, 1, BLOCKS).p(change))
    return found


@pytest.mark.parametrize("between", [0.0, 0.3])
def test_p_values_are_uniform_where_nothing_has_changed(between: float) -> None:
    """Up to Satterthwaite's approximation (0.02) where both parts play a role."""
    found = differences(np.random.default_rng(2), between)
    tolerated = 0.02 + stats.kstwo.isf(0.001, DRAWN)
    assert stats.kstest(found, "uniform").statistic < tolerated


def test_a_change_as_large_as_is_said_is_found_as_often_as_is_said() -> None:
    """Within and between known exactly: 4 times in 5, at the level that was asked."""
    chance = Chance(within=0.2, between=0.3, before=1, now=2, blocks=10**6)
    seen = chance.seen(0.01)
    sd = math.sqrt(0.04 * 1.5 + 0.09 * 1.5)
    assert chance.sd == pytest.approx(sd)
    assert stats.norm.sf(stats.norm.isf(0.01) - seen / sd) == pytest.approx(0.8, abs=1e-4)


def test_a_louder_night_and_fewer_nights_need_a_larger_change() -> None:
    usual = Chance(0.02, 0.03, 1, 1, BLOCKS)
    assert (
        Chance(0.02, 0.03, 1, 1, BLOCKS, louder=3).p(0.1)
        > usual.p(0.1)
        > Chance(0.02, 0.03, 3, 3, BLOCKS).p(0.1)
    )


def test_nights_move_the_spread_that_was_set_beforehand() -> None:
    """By hand: two nights 0.2 apart have variance 0.02; it weighs 1, and 0.03^2 weighs 20."""
    logs = [np.zeros(5), np.full(5, 0.2)]
    assert between_nights(logs, np.zeros(5), 0.03) == pytest.approx(
        math.sqrt((PRIOR_NIGHTS * 0.0009 + 0.02) / (PRIOR_NIGHTS + 1))
    )
    within = np.full(5, math.sqrt(0.02))  # explains all of it
    assert between_nights(logs, within, 0.03) == pytest.approx(
        0.03 * math.sqrt(PRIOR_NIGHTS / (PRIOR_NIGHTS + 1))
    )


def outcomes(found: list[float]) -> list[Outcome]:
    return [Outcome("e", "r", "accuracy", str(i), "untested", p=p) for i, p in enumerate(found)]


def test_holm_by_hand() -> None:
    decided = corrected(outcomes([0.01, 0.04, 0.03]), 0.05)
    assert [o.adjusted for o in decided] == pytest.approx([0.03, 0.06, 0.06])
    assert [o.found for o in decided] == ["worse", "same", "same"]


@given(st.lists(st.floats(0.06, 1.0), min_size=1, max_size=30))
def test_what_single_tests_would_not_find_the_correction_does_not_find(found: list[float]) -> None:
    decided = corrected(outcomes(found), 0.05)
    assert all(o.found == "same" and o.adjusted is not None and o.adjusted >= (o.p or 0) for o in decided)


def test_outcomes_without_a_p_value_are_left_as_they_are() -> None:
    given_ = [Outcome("e", "r", "data", "d", "worse"), *outcomes([0.5])]
    assert corrected(given_, 0.05)[0] == given_[0]
