"""Latencies anchored at the source's: what must hold whatever the model said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.composite.anchoring import COUNTED, anchored
from harness.protocols import Estimate, Prediction
from harness.schemas import LATENCIES, Measure

ACK, GROUND_TRUTH = "ack_latency_ms", "ground_truth_latency_ms"
LEVELS = ("p50", "p90", "p95", "p99")
MS = st.lists(st.floats(0.01, 1000.0), min_size=4, max_size=4).map(sorted)
FACTOR = st.floats(0.5, 20.0)
"""Measured over predicted in the source; below a half nothing is anchored."""


def percentiles(values: list[float]) -> Prediction:
    return Prediction(
        tuple(Estimate(ACK, level, v, "", v / 2, v * 3) for level, v in zip(LEVELS, values, strict=True))
    )


def means(measure: str = ACK, /, **by_subject: float) -> Prediction:
    return Prediction(tuple(Estimate(measure, "mean", v, s) for s, v in by_subject.items()))


def values(prediction: Prediction) -> list[float | None]:
    return [e.value for e in prediction.estimates]


@given(MS, MS, FACTOR, MS)
def test_percentiles_stay_positive_and_in_order(
    of: list[float], at: list[float], factor: float, more: list[float]
) -> None:
    real = [a * factor + m for a, m in zip(at, more, strict=True)]
    found = anchored(percentiles(of), percentiles(at), percentiles(real)).estimates
    numbers = [e.value for e in found if e.value is not None]
    assert len(numbers) == 4
    assert numbers[0] > 0
    assert numbers == sorted(numbers)
    for e, value in zip(found, numbers, strict=True):
        assert (e.low, e.high) == (pytest.approx(value / 2), pytest.approx(value * 3))


@given(st.floats(0.01, 1000.0), st.floats(0.01, 1000.0), FACTOR)
def test_what_is_missing_is_added_and_what_is_too_much_is_a_share(
    of: float, at: float, factor: float
) -> None:
    (found,) = values(anchored(means(x=of), means(x=at), means(x=at * factor)))
    assert found == pytest.approx(of + at * (factor - 1) if factor > 1 else of * factor)


@given(MS, MS)
def test_a_right_model_is_left_as_it_is(of: list[float], at: list[float]) -> None:
    assert values(anchored(percentiles(of), percentiles(at), percentiles(at))) == pytest.approx(of)


def test_executors_of_the_proposed_plan_are_moved_like_their_component() -> None:
    """Spout a was predicted right, b's two executors 1 and 3 too short: a's stay, b's get 2 more."""
    at = means(**{"": 9.0, "a[1-2]": 2.0, "b[3-3]": 5.0, "b[4-4]": 5.0})
    real = means(**{"": 11.0, "a[1-2]": 2.0, "b[3-3]": 6.0, "b[4-4]": 8.0})
    of = means(**{"": 9.0, "a[1-1]": 3.0, "a[2-2]": 3.0, "b[3-4]": 4.0})
    assert values(anchored(of, at, real)) == [11.0, 3.0, 3.0, 6.0]


def test_a_path_is_moved_like_its_sink() -> None:
    at, real = means(GROUND_TRUTH, quick=2.0, slow=5.0), means(GROUND_TRUTH, quick=3.0, slow=9.0)
    of = means(GROUND_TRUTH, **{"spout/json/quick": 4.0, "spout/json/slow": 4.0})
    assert values(anchored(of, at, real)) == [5.0, 8.0]


def test_a_source_predicted_to_be_saturated_leaves_what_was_counted() -> None:
    full = Prediction((Estimate(ACK, "mean", None, status="saturated", reason="bolt is full"),))
    unknown = Estimate("service_time_ms", "mean", None, "y", status="declined", reason="nothing arrives")
    answered = (Estimate(m, "mean", 2.0, "x") for m in (*COUNTED, *LATENCIES, "utilisation"))
    of = Prediction((*answered, unknown))
    found = {e.measure: e for e in anchored(of, full, of).estimates}
    assert {m for m, e in found.items() if e.value == 2.0} == set(COUNTED)
    assert {e.status for m, e in found.items() if m not in COUNTED} == {"declined"}
    assert all("bolt is full" in found[m].reason for m in (*LATENCIES, "utilisation"))
    assert found["service_time_ms"].reason == "nothing arrives"


@pytest.mark.parametrize(
    ("at", "real", "reason"),
    [
        (means(x=4.0), Prediction(()), "the source's ack_latency_ms (mean) was not measured"),
        (means(x=4.0), means(x=0.0), "was not measured"),
        (Prediction(()), means(x=4.0), "was not predicted"),
        (means(x=4.0), means(x=1.9), "predicted to take 4 ms where it took 1.9"),
    ],
)
def test_what_cannot_be_anchored_is_declined(at: Prediction, real: Prediction, reason: str) -> None:
    (found,) = anchored(means(x=3.0), at, real).estimates
    assert (found.status, found.value) == ("declined", None)
    assert reason in found.reason


def test_waits_in_queues_are_declined() -> None:
    (found,) = anchored(means(Measure.QUEUE_WAIT, bolt=1.0), means(bolt=1.0), means(bolt=1.0)).estimates
    assert found.status == "declined"
