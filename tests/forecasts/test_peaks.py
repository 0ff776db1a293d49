"""The highest quantile until a horizon, for the forecasters that come with the harness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ForecastDeclined, UsageError
from harness.forecasts import FORECASTERS
from harness.forecasts.histories import history_before_last
from harness.forecasts.peaks import highest_rate_tps
from harness.forecasts.seasonal_naive import seasonal_naive
from harness.protocols import RateForecast, RateHistory

PURE = ("fourier-ar", "seasonal-naive", "stats-summary")
COUNTS = st.lists(st.integers(0, 2000), min_size=24, max_size=60)
LEVELS = st.floats(0.01, 0.99)


def past(counts: Sequence[int], now_s: float = 0.0) -> RateHistory:
    """Counts in buckets of 2 s, the last of which ends at a moment."""
    return RateHistory(np.array(counts) / 2, 2.0, now_s - 2.0 * len(counts))


@pytest.mark.parametrize("name", PURE)
@settings(max_examples=40)
@given(counts=COUNTS, levels=st.tuples(LEVELS, LEVELS), late_s=st.floats(0, 1.9), ahead_s=st.floats(1, 60))
def test_who_asks_for_a_higher_quantile_or_a_later_horizon_never_plans_for_less(
    name: str, counts: list[int], levels: tuple[float, float], late_s: float, ahead_s: float
) -> None:
    def highest(level: float, horizon_s: float) -> float:
        return highest_rate_tps(FORECASTERS[name], past(counts), late_s, horizon_s, (16.0,), level)

    low, high = sorted(levels)
    assert highest(low, ahead_s) <= highest(high, ahead_s) * (1 + 1e-12)
    assert highest(low, ahead_s) <= highest(low, ahead_s + 10) * (1 + 1e-9)


@given(late_s=st.floats(0, 0.99), horizon_s=st.floats(0.01, 3))
def test_buckets_count_that_end_after_now_and_begin_before_the_horizon(
    late_s: float, horizon_s: float
) -> None:
    """A season of 1, 2, 3, 4, 5 messages/s, which repeats exactly, so that all its quantiles are equal.

    By hand: the last bucket that counts begins before the horizon; it is the highest while it is of 1 to 5.
    """
    known = RateHistory(np.array([1.0, 2.0, 3.0, 4.0, 5.0] * 2), bucket_s=1.0, start_s=-10.0)
    found = highest_rate_tps(seasonal_naive, known, late_s, horizon_s, (5.0,), 0.9)
    assert found == np.ceil(late_s + horizon_s - 1e-6)


def test_a_history_that_goes_on_after_the_decision_is_refused() -> None:
    with pytest.raises(UsageError, match="the history ends 3 s after the decision"):
        highest_rate_tps(seasonal_naive, past([1] * 24, now_s=10.0), 7.0, 4.0, (16.0,), 0.5)


def nowhere(
    history: RateHistory, horizon_s: float, season_s: Sequence[float], levels: Sequence[float]
) -> RateForecast:
    """Answer with no number."""
    del horizon_s, season_s
    return RateForecast(history.time_s[-1:] + 1, tuple(levels), np.array([[np.nan]]))


def test_without_a_forecast_the_reason_is_told() -> None:
    with pytest.raises(ForecastDeclined, match="the history of 48 s is too short for a season of 40 s"):
        highest_rate_tps(seasonal_naive, past([1] * 24), 0.0, 4.0, (40.0,), 0.5)
    with pytest.raises(ForecastDeclined, match="it foresees nan messages/s, which is no rate"):
        highest_rate_tps(nowhere, past([1] * 24), 0.0, 4.0, (), 0.5)


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=60), st.sampled_from([500, 1000, 1700]))
def test_a_trace_is_counted_back_from_its_last_message(sent_ms: list[int], bucket_ms: int) -> None:
    """By hand, message by message; in whole milliseconds, so that no bucket's end is rounded."""
    sent_ms.sort()
    offsets_ns, last_ms = np.array(sent_ms, dtype=np.int64) * 1_000_000, sent_ms[-1]
    whole = last_ms // bucket_ms
    if not whole:
        with pytest.raises(UsageError, match="the trace is shorter than a bucket"):
            history_before_last(offsets_ns, bucket_ms / 1e3)
        return
    found = history_before_last(offsets_ns, bucket_ms / 1e3)
    ends_ms = [last_ms - bucket_ms * (whole - 1 - i) for i in range(whole)]
    counts = [sum(end - bucket_ms < t <= end for t in sent_ms) for end in ends_ms]
    assert found.rate_tps * found.bucket_s == pytest.approx(counts)
    assert found.start_s == pytest.approx(-whole * bucket_ms / 1e3)
