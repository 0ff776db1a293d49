"""Who gets how much of the input: rates of spouts that lie evenly about their mean."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.experiments.workload_settings import MOST_TURNS, Workload, spread_shares


@given(st.integers(2, 12), st.integers(0, 99))
@settings(max_examples=budget(100), deadline=None)
def test_the_mean_is_exactly_r_and_the_spread_exactly_v(count: int, spread_pct: int) -> None:
    shares = spread_shares(count, spread_pct)
    r_tps, v = Fraction(100), Fraction(spread_pct, 100)
    rates_tps = [count * r_tps * share / sum(shares) for share in shares]
    assert sum(rates_tps) / count == r_tps
    assert (rates_tps[0], rates_tps[-1]) == (r_tps * (1 - v), r_tps * (1 + v))
    assert {b - a for a, b in pairwise(rates_tps)} == {2 * v * r_tps / (count - 1)}


@given(st.integers(2, 12), st.decimals(0, "99.9", places=1))
@settings(max_examples=budget(100), deadline=None)
def test_a_workload_has_these_shares_or_says_in_one_line_why_not(count: int, spread_pct: object) -> None:
    workload = Workload.model_validate({"rate_tps": 100, "spread_pct": spread_pct})
    spouts = [f"in-{i}" for i in range(count)]
    expected = spread_shares(count, workload.spread_pct)
    if sum(expected) <= MOST_TURNS:
        assert workload.shares_of(spouts) == dict(zip(spouts, expected, strict=True))
    else:
        with pytest.raises(
            ValueError, match=f"takes rounds of {sum(expected)} messages, at most {MOST_TURNS} are"
        ):
            workload.shares_of(spouts)


def test_a_decimal_number_is_meant_as_it_is_written() -> None:
    """0.1 % of two spouts is 999 : 1001, though no double is 0.1."""
    assert spread_shares(2, 0.1) == (999, 1001)
    with pytest.raises(
        ValueError, match=r"0\.1 % among 2 spouts takes rounds of 2000 messages, at most 1000"
    ):
        Workload(rate_tps=1, spread_pct=0.1).shares_of(["a", "b"])


def test_without_a_spread_one_spout_gets_all() -> None:
    assert Workload(rate_tps=1, spread_pct=0).shares_of(["in"]) == {"in": 1}
    with pytest.raises(
        ValueError, match="spread_pct: all messages come in by in: leave it out, or add a spout"
    ):
        Workload(rate_tps=1, spread_pct=20).shares_of(["in"])


def test_shares_are_said_one_way() -> None:
    with pytest.raises(ValidationError, match="shares and spread_pct: give one of them"):
        Workload(rate_tps=1, spread_pct=20, shares={"a": 1, "b": 2})
