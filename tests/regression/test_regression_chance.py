"""The p-values: right where the answer is known, and false alarms as often as is said."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.regression import chance
from harness.regression.chance import Floats, Nights, p_value
from harness.regression.outcomes import Outcome, corrected


def test_one_part_without_a_margin_gives_the_rank_of_what_was_seen() -> None:
    null = np.arange(-500.0, 500.0)[:, None] / 100
    assert p_value(np.array([4.0]), null, 0, 0) == pytest.approx(101 / 1001)
    assert p_value(np.array([-9.0]), null, 0, 0) == 1.0
    assert p_value(np.array([-4.99]), null, 0, 0, two_sided=True) == pytest.approx(3 / 1001, abs=0.002)


@given(st.floats(0, 3), st.floats(0, 3))
def test_a_margin_can_only_make_a_p_value_larger(margin: float, each: float) -> None:
    null = np.random.default_rng(1).standard_normal((500, 6))
    seen = np.array([3.0, 1, 0, 2, 1, 1])
    assert p_value(seen, null, margin, each) >= p_value(seen, null, 0, 0)


def test_uniform_p_values_where_only_noise_is_at_work() -> None:
    """Steps measured twice with a known error: p-values are at least as large as uniform ones."""
    rng = np.random.default_rng(2)
    within = np.full(5, 0.02)
    nights = Nights([within], [within], between=0.0)
    found = []
    for _ in range(400):
        change = 0.02 * (rng.standard_t(chance.BATCH_DOF, 5) - rng.standard_t(chance.BATCH_DOF, 5))
        found.append(
            chance.largest_p(lambda n: chance.measured_nulls(nights, n), change, 0.0, 0.0, two_sided=True)
        )
    assert stats.kstest(found, "uniform", alternative="greater").pvalue > 0.001


def pairs(steps: int) -> tuple[np.ndarray, np.ndarray]:
    return np.nonzero(~np.eye(steps, dtype=bool))


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("common", [True, False])
def test_errors_of_an_unchanged_model_alarm_no_more_often_than_said(follows: bool, common: bool) -> None:
    """Both kinds of model, and both kinds of difference between nights, by simulation from known truths."""
    rng = np.random.default_rng(3)
    source, proposed = pairs(5)
    truth = rng.uniform(-60, 80, len(source)) if not follows else np.zeros(len(source))
    within, between = np.full(5, 0.015), 0.03
    alarms, nights_drawn = 0, 300
    for _ in range(nights_drawn):
        seen = []
        for _ in range(2):
            apart = rng.standard_normal(1 if common else 5) * between
            x = within * rng.standard_normal(5) + apart
            y = (x[source] if follows else 0) - x[proposed]
            seen.append(((1 + truth / 100) * np.exp(y) - 1) * 100)
        grown = np.abs(seen[1]) - np.abs(seen[0])
        nights = Nights([within], [within])

        def nulls(n: int, nights: Nights = nights, base: Floats = seen[0]) -> Iterator[Floats]:
            return chance.error_nulls(nights, chance.Pairs(source, proposed, base), n)

        alarms += chance.largest_p(nulls, grown, 0.0, 0.0) <= 0.05
    assert alarms <= stats.binom.ppf(0.999, nights_drawn, 0.05)


def test_more_nights_make_the_spread_between_them_better_known() -> None:
    rng = np.random.default_rng(4)
    nothing = np.zeros(5)
    assert chance.between_nights([nothing], [nothing]) == (0.03, chance.PRIOR_DOF)
    steady, dof = chance.between_nights([nothing] * 40, [nothing] * 40)
    assert steady < 0.02
    assert dof == chance.PRIOR_DOF + 39
    wild, _ = chance.between_nights([rng.normal(0, 0.2, 5) for _ in range(40)], [nothing] * 40)
    assert wild == pytest.approx(0.16, rel=0.25)


@given(st.lists(st.floats(0.06, 1.0), min_size=1, max_size=30))
def test_what_single_tests_would_not_find_the_correction_does_not_find(found: list[float]) -> None:
    outcomes = [Outcome("e", "r", "accuracy", str(i), "untested", p=p) for i, p in enumerate(found)]
    decided = corrected(outcomes, 0.05)
    assert all(o.found == "same" and o.adjusted is not None and o.adjusted >= o.p for o in decided)
