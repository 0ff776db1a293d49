"""Traffic that is known by a decision, nothing after it; and the columns of the rate that is planned for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.experiments.planned_rates import DueRates, PlannedRate
from harness.experiments.schedule import BegunSchedule, Due, Poisson
from harness.schemas import ADAPTATION

S = 10**9


@given(
    begun=st.integers(0, 5 * S),
    waits=st.lists(st.integers(0, 20 * S), min_size=1, max_size=6),
    bucket_s=st.sampled_from([0.5, 2.0, 5.0]),
    seed=st.integers(0, 9),
)
def test_all_buckets_that_are_over_are_counted_once_and_none_after(
    begun: int, waits: list[int], bucket_s: float, seed: int
) -> None:
    schedule, now_ns = BegunSchedule(Poisson(20.0, seed), skip=0, base_ns=0), begun
    asked: list[tuple[int, int]] = []

    def due(start_ns: int, end_ns: int) -> Due:
        assert end_ns <= now_ns, "asked for messages that are due after the decision"
        asked.append((start_ns, end_ns))
        return schedule.due(start_ns, end_ns)

    rates = DueRates(due, begun, bucket_s)
    for wait in waits:
        now_ns += wait
        seen = rates.until(now_ns)
        assert seen.now_s == pytest.approx((now_ns - begun) / S)
        over = int((now_ns - begun) // (bucket_s * S))
        assert len(seen.history.rate_tps) == over
        whole = schedule.due(begun, begun + round(over * bucket_s * S)).messages
        assert seen.history.rate_tps.sum() * bucket_s == pytest.approx(whole)
    assert asked == sorted(set(asked))


def test_columns_are_those_of_the_table() -> None:
    """Without a forecaster all but the rate is null."""
    reactive, foreseen = PlannedRate(70.0), PlannedRate(90.0, "mstl", 0.9, 30.0, "too short")
    assert set(foreseen.columns) <= set(ADAPTATION.names)
    assert reactive.columns == {**dict.fromkeys(foreseen.columns), "planned_tps": 70.0}
    assert list(foreseen.columns.values()) == [90.0, "mstl", 0.9, 30.0, "too short"]
