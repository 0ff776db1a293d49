"""Margins and risks of targets, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from synthetic import Truth, component, deploy, observation, stream

from harness.plans import QueryPlan
from harness.protocols import Estimate
from harness.schedulers import make_scheduler
from harness.schedulers.advice import LatencyTarget, TargetedPlan, advise
from harness.schedulers.side_by_side import PlacementTable, SchedulerProposal

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


LINE = QueryPlan(
    name="line",
    components=(component("spout", 1, "spout"), component("bolt", 2), component("sink", 1, "sender")),
    streams=(stream("spout", "bolt"), stream("bolt", "sink")),
)


def table_of_two_nodes(rate_tps: float, cores: float = 1.2, slower: float = 1.0) -> PlacementTable:
    """Sink, and where it is not slower bolt, need some 2 ms of CPU time a tuple."""
    plan = deploy(
        LINE, {"spout": 1, "bolt": 1, "sink": 1}, workers_per_node=1, hosts=("host-1", "host-2"), ackers=1
    )
    nodes = tuple(n.model_copy(update={"cores": cores}) for n in plan.nodes)
    plan = plan.model_copy(update={"nodes": nodes})
    truth = Truth.random(LINE, 150.0, 1, service_ms=2.0)
    services = {**truth.service_ms, "bolt": slower * truth.service_ms["bolt"]}
    seen = observation(plan, replace(truth, service_ms=services), buckets=8)
    seen = replace(seen, hop_records=False)
    return PlacementTable(seen, plan.configuration(), nodes, rate_tps)


def test_where_no_plan_keeps_the_target_the_nearest_is_advised() -> None:
    """At 300 messages/s one node of 1.2 cores is too small. R-Storm takes one: 1 % each is said to do."""
    target = LatencyTarget(statistic="mean", limit_ms=0.01)
    requests = dict.fromkeys(("spout", "bolt", "sink"), 1.0)
    told_little = make_scheduler({"name": "r-storm", "requests_pct": requests})
    found = advise(table_of_two_nodes(300.0), target, {"r-storm": told_little})
    (r_storm,) = found.others
    assert r_storm.count < found.best.count
    assert math.isinf(r_storm.high_ms)
    assert found.target.limit_ms < found.best.high_ms < math.inf
    assert found.cheaper is None or found.best.high_ms <= found.cheaper.high_ms


def test_the_next_cheaper_plan_has_an_executor_fewer_on_as_many_workers_at_most() -> None:
    """At 300 messages/s one bolt of 4 ms is saturated, and so is one node of two cores."""
    found = advise(
        table_of_two_nodes(300.0, cores=2.0, slower=2.0), LatencyTarget(statistic="mean", limit_ms=1e4), {}
    )
    assert found.best.keeps
    assert found.best.count.executors == 4
    assert found.best.count.workers == 2
    assert found.cheaper is not None
    assert found.cheaper.count == (2, 3)
    assert not found.cheaper.keeps
