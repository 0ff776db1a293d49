"""Findings before a run: Storm's own limits at their edges, closed forms against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from processes import EVEN_SHARES, RARE_SHARES, independent, windowed

from harness.experiments.feasibility import (
    WINDOW_FATE,
    check_load_aware,
    check_precision,
    check_rarest_window,
    check_window,
    messages_needed,
    windowed_cv,
)
from harness.experiments.precision import look


@pytest.mark.parametrize(
    ("kind", "length", "slide", "fits"),
    [
        ("count", 500, 500, True),  # 1000 <= 1000
        ("count", 501, 500, False),
        ("count", 900, 100, True),
        ("time", 15_000, 15_000, True),  # 30 s <= 30 s
        ("time", 15_000, 15_001, False),
    ],
)
def test_storms_start_up_check(kind: str, length: int, slide: int, fits: bool) -> None:
    found = check_window(kind, length, slide, max_spout_pending=1000, message_timeout_s=30)  # type: ignore[arg-type]
    assert [f.severity for f in found] == ([] if fits else ["error"])
    assert all(f.key == "topology.window" for f in found)


def test_unlimited_pending_refuses_no_count_window() -> None:
    assert check_window("count", 10**6, 10**6, max_spout_pending=None, message_timeout_s=30) == []


def test_the_slowest_window() -> None:
    # 10 tuples at 500/s x 0.1 % = 0.5/s take 20 s.
    ask = (10, 500, 0.001)
    assert check_rarest_window(*ask, message_timeout_s=41, interval_s=40) == []
    (late,) = check_rarest_window(*ask, message_timeout_s=40, interval_s=40)
    assert late.severity == "warning"
    assert "takes 20 s" in late.message
    (few,) = check_rarest_window(*ask, message_timeout_s=120, interval_s=39)
    assert "fewer than 2" in few.message
    assert len(check_rarest_window(*ask, message_timeout_s=30, interval_s=30)) == 2


def test_load_aware_shuffle_into_windows() -> None:
    steps = {"step 0": 1, "step 1": 16}
    (found,) = check_load_aware(True, "shuffle", 16, steps)
    assert found.severity == "warning"
    assert "step 0 (16 tasks)" in found.message
    assert check_load_aware(False, "shuffle", 16, steps) == []
    assert check_load_aware(True, "fields", 16, steps) == []
    assert check_load_aware(True, "shuffle", 16, {"step 1": 16}) == []


def test_messages_needed_by_hand() -> None:
    # (2.093 x 1 / 0.1)^2 = 438.1 (t table, 19 degrees of freedom).
    assert messages_needed(10, cv=1) == 439
    assert messages_needed(10, cv=2) == pytest.approx(4 * 439, abs=4)
    assert messages_needed(10, cv=1, share_fate=3) == pytest.approx(3 * 439, abs=3)
    assert messages_needed(10, cv=1, looks=4) > 439


def test_precision_in_the_time_given() -> None:
    assert check_precision(rate_tps=10, interval_s=44, precision_pct=10, cv=1) == []
    (found,) = check_precision(rate_tps=10, interval_s=11, precision_pct=10, cv=1)
    assert found.severity == "warning"
    assert found.key == "measure.interval.precision_pct"
    assert "needs about 439 messages, 44 s" in found.message
    assert "expect 20 %" in found.message  # a quarter of the messages: twice the half-width


def test_the_precision_foreseen_is_the_one_measured() -> None:
    reached = np.median(
        [look(*independent(np.random.default_rng(s), 50, 60), 0, 60, 1).precision_pct for s in range(30)]
    )
    assert messages_needed(reached, cv=0.5) == pytest.approx(3000, rel=0.3)


@pytest.mark.parametrize("shares", [EVEN_SHARES, RARE_SHARES])
def test_windowed_cv_and_precision(shares: np.ndarray) -> None:
    # 10 s of rarest windows and more: members of windows of 10 wait for 9 others, hence the tolerance.
    rng = np.random.default_rng(1)
    _, latency = windowed(rng, 500, 600, shares)
    assert latency.std() / latency.mean() == pytest.approx(windowed_cv(shares.tolist()), rel=0.25)
    reached = np.median(
        [
            look(*windowed(np.random.default_rng(s), 500, 60, shares), 0, 60, 1).precision_pct
            for s in range(15)
        ]
    )
    assert 0.5 < messages_needed(reached, windowed_cv(shares.tolist()), share_fate=WINDOW_FATE) / 30_000 < 2


def test_wrong_shares() -> None:
    for bad in ([], [1, 0]):
        with pytest.raises(ValueError, match="positive"):
            windowed_cv(bad)
