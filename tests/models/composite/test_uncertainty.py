"""Intervals: what replicates spread, and what calibration adds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Truth, deploy, fields_to_fields, observation

from harness.models.composite.proposal import examine, weigh
from harness.models.composite.uncertainty import (
    Calibration,
    Z,
    calibrations,
    fit,
    interval,
    parse,
    replicates,
)


def test_replicates_spread_around_the_estimates_and_repeat() -> None:
    query_plan = fields_to_fields()
    source = examine(observation(deploy(query_plan, 2), Truth.random(query_plan, 200.0, 5), buckets=48))
    stream = query_plan.streams[1]
    shares = np.array([r.keyed[stream][0] for r in replicates(source, 64)])
    own = weigh(source, np.ones(source.evidence.blocks)).keyed[stream][0]
    assert shares.mean(axis=0) == pytest.approx(own, rel=0.1)
    again = np.array([r.keyed[stream][0] for r in replicates(source, 64)])
    assert (again == shares).all()
    other = np.array([r.keyed[stream][0] for r in replicates(source, 64, seed=2)])
    assert (other != shares).any()


@given(
    st.floats(1e-3, 1e6),
    st.lists(st.floats(0.5, 2.0), min_size=2, max_size=40),
    st.floats(0.0, 1.0),
)
def test_intervals_hold_the_value_and_widen(value: float, ratios: list[float], error: float) -> None:
    replicated = value * np.array(ratios)
    low, high = interval(value, replicated, error)
    assert 0 < low <= value <= high
    wider_low, wider_high = interval(value, replicated, error + 0.1)
    assert wider_low < low
    assert wider_high > high


def test_intervals_of_values_that_may_be_zero_are_around_them() -> None:
    low, high = interval(0.0, np.array([-0.1, 0.1]), 0.0)
    assert (low, high) == pytest.approx((-0.16448, 0.16448), abs=1e-4)  # 1.645 standard deviations


@pytest.mark.parametrize("replicated", [[1.0], [1.0, float("nan")], []])
def test_too_few_replicates_are_refused(replicated: list[float]) -> None:
    with pytest.raises(ValueError, match="two numbers"):
        interval(1.0, np.array(replicated), 0.0)


SPREAD, ERROR, COSTS, PAIRS = 0.03, 0.04, 0.1, 4000


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_normal_error_is_found_again_and_covers(share: float) -> None:
    """Of values of one kind there is one error for all, whatever it comes from."""
    errors = np.random.default_rng(1).normal(0, np.hypot(SPREAD, 0.08), PAIRS)
    found = fit(errors, np.full(PAIRS, SPREAD), np.full(PAIRS, share))
    assert found.error == pytest.approx(0.08, rel=0.05)
    assert found.costs == 0
    covered = np.abs(errors) <= Z * np.hypot(SPREAD, found.error)
    assert covered.mean() == pytest.approx(0.9, abs=0.01)


def test_what_costs_make_has_an_error_of_its_own() -> None:
    """Normal errors whose standard deviation is known: 0.04, and 0.1 times the share of costs on top."""
    rng = np.random.default_rng(2)
    shares = np.concatenate([rng.uniform(0.0, 0.05, PAIRS), rng.uniform(0.6, 1.0, PAIRS)])
    errors = rng.normal(0, np.hypot(np.hypot(SPREAD, ERROR), COSTS * shares))
    found = fit(errors, np.full(2 * PAIRS, SPREAD), shares)
    assert found.error == pytest.approx(ERROR, rel=0.1)
    assert found.costs == pytest.approx(COSTS, rel=0.1)
    covered = np.abs(errors) <= Z * np.hypot(SPREAD, np.hypot(found.error, found.costs * shares))
    assert covered[:PAIRS].mean() == pytest.approx(0.9, abs=0.01)
    assert covered[PAIRS:].mean() == pytest.approx(0.9, abs=0.01)


def test_without_pairs_nothing_is_fitted() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        fit(np.array([]), np.array([]), np.array([]))


def test_calibrations_are_read_and_checked() -> None:
    assert all(c.error > 0 for c in calibrations().values())
    text = '{"schema": 1, "measures": {"m": {"mean": {"error": 0.1, "costs": 0.2}, "p50": {"error": 0.3}}}}'
    assert parse(text) == {("m", "mean"): Calibration(0.1, 0.2), ("m", "p50"): Calibration(0.3, 0.0)}
    with pytest.raises(ValueError, match="schema 2"):
        parse('{"schema": 2, "measures": {}}')
    with pytest.raises(ValueError, match="calibration of m mean"):
        parse('{"schema": 1, "measures": {"m": {"mean": {"error": -1}}}}')
