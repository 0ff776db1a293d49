"""Latencies anchored at the source's: what must hold whatever the model said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.anchoring import COUNTED, anchored
from harness.models.answers import LATENCIES
from harness.protocols import Estimate, Prediction

LEVELS = ("p50", "p90", "p95", "p99")
MS = st.lists(st.floats(0.01, 1000.0), min_size=4, max_size=4).map(sorted)


def percentiles(values: list[float], subject: str = "") -> Prediction:
    return Prediction(
        tuple(
            Estimate("ack_latency_ms", level, v, subject, v / 2, v * 3)
            for level, v in zip(LEVELS, values, strict=True)
        )
    )


@given(MS, MS, MS)
def test_percentiles_stay_positive_and_in_order(of: list[float], at: list[float], real: list[float]) -> None:
    found = anchored(percentiles(of), percentiles(at), percentiles(real)).estimates
    values = [e.value for e in found if e.value is not None]
    assert len(values) == 4
    assert values[0] > 0
    assert values == sorted(values)
    for e, value in zip(found, values, strict=True):
        assert (e.low, e.high) == (pytest.approx(value / 2), pytest.approx(value * 3))


@given(MS, MS)
def test_the_source_itself_is_what_was_measured(at: list[float], real: list[float]) -> None:
    found = anchored(percentiles(at), percentiles(at), percentiles(real)).estimates
    assert [e.value for e in found] == pytest.approx(real)


@given(MS, MS)
def test_a_right_model_is_left_as_it_is(of: list[float], at: list[float]) -> None:
    found = anchored(percentiles(of), percentiles(at), percentiles(at)).estimates
    assert [e.value for e in found] == pytest.approx(of)


def test_an_executor_of_the_proposed_plan_only_is_moved_like_the_whole() -> None:
    of, at, real = (
        percentiles([2, 3, 4, 5], "spout[1-2]"),
        percentiles([1, 1, 1, 1]),
        percentiles([2, 2, 2, 2]),
    )
    assert [e.value for e in anchored(of, at, real).estimates] == [3, 4, 5, 6]


def test_assumptions_that_would_saturate_the_source_leave_what_was_counted() -> None:
    full = Prediction((Estimate("ack_latency_ms", "mean", None, status="saturated", reason="bolt is full"),))
    of = Prediction(tuple(Estimate(m, "mean", 2.0, "x") for m in (*COUNTED, *LATENCIES, "utilisation")))
    found = {e.measure: e for e in anchored(of, full, of).estimates}
    assert {m for m, e in found.items() if e.value == 2.0} == set(COUNTED)
    assert all("bolt is full" in e.reason for m, e in found.items() if m not in COUNTED)
    assert {e.status for m, e in found.items() if m not in COUNTED} == {"declined"}


def test_a_latency_that_was_not_measured_is_declined() -> None:
    found = anchored(percentiles([1, 2, 3, 4]), percentiles([1, 2, 3, 4]), Prediction(())).estimates
    assert {e.status for e in found} == {"declined"}
    assert "the source's ack_latency_ms (p50) is not known" in found[0].reason
