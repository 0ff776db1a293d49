"""Stamps of a broker on this machine's monotonic clock."""

from __future__ import annotations

import time

import numpy as np
import pytest

from harness.workload.broker_time import appended_ns, monotonic_minus_stamps_ns


@pytest.mark.parametrize("ahead_ms", [0.0, 40.0, -40.0])
def test_a_stamp_of_now_is_now_whatever_the_brokers_clock_is_ahead(ahead_ms: float) -> None:
    """To within the millisecond that a stamp is cut to, and however long the readings take."""
    before_ns = time.monotonic_ns()
    stamp_ms = int(time.time_ns() / 1e6 + ahead_ms)
    found = appended_ns(stamp_ms, monotonic_minus_stamps_ns(ahead_ms))
    after_ns = time.monotonic_ns()
    assert before_ns - 1_000_000 <= found <= after_ns + 1_000_000


def test_stamps_are_moved_together() -> None:
    stamps = np.array([1000, 1012], dtype=np.int64)
    assert appended_ns(stamps, -(10**9)).tolist() == [500_000, 12_500_000]
