"""Margins and risks of targets, worked out by hand."""

from __future__ import annotations

import math

import pytest

from harness.protocols import Estimate
from harness.schedulers.advice import LatencyTarget, TargetedPlan
from harness.schedulers.side_by_side import SchedulerProposal

HIGH_MS = 100 * math.exp(0.2)


def beside(limit_ms: float, high_ms: float | None = HIGH_MS) -> TargetedPlan:
    estimate = Estimate("ground_truth_latency_ms", "p95", 100.0, low=80.0, high=high_ms)
    mean = Estimate("ground_truth_latency_ms", "mean", 50.0, low=40.0, high=60.0)
    proposal = SchedulerProposal("even", "ok", estimates=(mean, estimate))
    return TargetedPlan(proposal, LatencyTarget(statistic="p95", limit_ms=limit_ms))


@pytest.mark.parametrize(
    ("limit_ms", "risk"),
    [
        (HIGH_MS, 0.05),  # the upper end of a 90 % interval
        (100.0, 0.5),  # the median
        (100 * math.exp(-0.2), 0.95),
    ],
)
def test_the_risk_is_what_the_interval_leaves_beyond_the_target(limit_ms: float, risk: float) -> None:
    assert beside(limit_ms).risk == pytest.approx(risk, abs=1e-9)


def test_a_target_is_kept_by_the_whole_interval() -> None:
    assert beside(HIGH_MS).keeps
    assert not beside(HIGH_MS * 0.999).keeps
    assert beside(2 * HIGH_MS).margin_pct == pytest.approx(50)


def test_without_an_interval_it_is_kept_or_not() -> None:
    assert (beside(100.0, None).risk, beside(99.0, None).risk) == (0.0, 1.0)


def test_without_a_latency_the_target_is_missed() -> None:
    nothing = TargetedPlan(
        SchedulerProposal("even", "unpredicted", "saturated"), LatencyTarget(statistic="mean", limit_ms=1)
    )
    assert (nothing.keeps, nothing.risk, nothing.margin_pct) == (False, 1.0, None)


def test_a_percentile_is_of_the_first_latency_that_has_it() -> None:
    """Of a jar's own topology the complete latency has a mean alone, the emit-to-ack latency all of them."""
    estimates = (
        Estimate("complete_latency_ms", "mean", 22.0),
        Estimate("ack_latency_ms", "mean", 24.0),
        Estimate("ack_latency_ms", "p95", 30.0, low=24.0, high=38.0),
    )
    proposal = SchedulerProposal("even", "ok", estimates=estimates)
    assert proposal.latency == "ack_latency_ms"
    assert TargetedPlan(proposal, LatencyTarget(statistic="p95", limit_ms=40.0)).keeps
    assert not TargetedPlan(proposal, LatencyTarget(statistic="p95", limit_ms=37.0)).keeps
