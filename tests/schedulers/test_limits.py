"""Limits of a plan whose predictions, heaps and tuples are all given: each share is worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from scheduling import nodes_of, observation, placed, topology

from harness.protocols import Estimate, NodeAmounts, Observation
from harness.schedulers.limits import PlanLimit, plan_limits
from harness.schedulers.side_by_side import SchedulerProposal

CHAIN = topology((("a", "b"), ("b", "c")))
NODES = nodes_of([2, 1], cores=[1, 2])
PLAN = placed(CHAIN, NODES, {"a[1-1]": "node-1:6700", "b[2-2]": "node-1:6701", "c[3-3]": "node-2:6700"})
RATE_TPS = 50.0
PREDICTED = [
    *(Estimate("utilisation", "mean", share, label) for label, share in (("a[1-1]", 0.2), ("b[2-2]", 0.6))),
    *(
        Estimate("worker_cpu_cores", "mean", cores, label)
        for label, cores in (("node-1:6700", 0.3), ("node-1:6701", 0.4), ("node-2:6700", 0.5))
    ),
    Estimate("utilisation", "mean", 0.9, "b"),  # of the component
    Estimate("utilisation", "p95", 0.99, "a[1-1]"),
]
AT_HALF = [
    Estimate("worker_cpu_cores", "mean", cores, label)
    for label, cores in (("node-1:6700", 0.2), ("node-1:6701", 0.2), ("node-2:6700", 0.45))
]
"""At 25 messages a second. With none, these would be 0.1, 0 and 0.4 cores."""
MB = 1 << 20


def seen(heap_mb: dict[str, float], tuple_bytes: dict[str, float]) -> Observation:
    """At 1 message a second 10 tuples go from a to b and 20 from b to c."""
    found = observation(PLAN, {(1, 2): 10.0, (2, 3): 20.0}, dict.fromkeys((1, 2, 3), 0.1))
    none = {"bucket_end_ms": 1000, "component": "", "task": -1, "worker": "", "stream": "", "peer": ""}
    rows = [
        none | {"measurement": "worker", "worker": worker, "field": "heap_bytes", "value": mb * MB}
        for worker, mb in heap_mb.items()
    ]
    rows += [
        none
        | {"measurement": "batch", "component": name, "stream": "default", "field": field, "value": value}
        for name, size in tuple_bytes.items()
        for field, value in (("bytes", 50 * size), ("bytes_tuples", 50.0))
    ]
    plain = found.metrics.astype(dict.fromkeys(found.metrics.select_dtypes("category"), str))
    return replace(found, metrics=pd.concat([plain, pd.DataFrame(rows)], ignore_index=True))


BARE = seen({}, {})


def test_executors_workers_and_nodes_are_listed_as_they_fill() -> None:
    """Node-1 has one core, 0.7 of it in use by two workers. Node-2's one worker is not listed.

    From 25 to 50 messages a second node-1 uses 0.3 cores more, so it has used up the last 0.3 at 75. Node-2
    has two cores: 0.05 more for 25 messages are 1.5 more for 750.
    """
    assert plan_limits(PLAN, PREDICTED, AT_HALF, BARE, RATE_TPS) == (
        PlanLimit("node-1", "cpu", pytest.approx(0.7), pytest.approx(75)),
        PlanLimit("b[2-2]", "time", 0.6, pytest.approx(50 / 0.6)),
        PlanLimit("node-1:6701", "cpu", 0.4, pytest.approx(50 / 0.4)),
        PlanLimit("node-1:6700", "cpu", 0.3, pytest.approx(50 + 25 * 7)),
        PlanLimit("a[1-1]", "time", 0.2, pytest.approx(50 / 0.2)),
        PlanLimit("node-2", "cpu", 0.25, pytest.approx(800)),
    )


@pytest.mark.parametrize("cores", [0.5, 0.6, None])
def test_cpu_that_does_not_grow_is_never_full(cores: float | None) -> None:
    at_half = [*AT_HALF[:2], Estimate("worker_cpu_cores", "mean", cores, "node-2:6700")]
    *_, last = plan_limits(PLAN, PREDICTED, at_half, BARE, RATE_TPS)
    assert last == PlanLimit("node-2", "cpu", 0.25, None)


def test_no_node_is_listed_where_the_cpu_of_a_worker_is_not_predicted() -> None:
    found = plan_limits(PLAN, PREDICTED[:-3], AT_HALF, BARE, RATE_TPS)
    assert {limit.resource for limit in found} == {"time"}


def test_the_fullest_heap_is_listed_without_a_rate() -> None:
    """c keeps 200 of 256 MB; beside b it would have 60 more."""
    source = seen({"node-1:6700": 40, "node-1:6701": 60, "node-2:6700": 200}, {})
    first, *others = plan_limits(PLAN, PREDICTED, AT_HALF, source, RATE_TPS, NodeAmounts(worker_heap_mb=256))
    assert first == PlanLimit("node-2:6700", "heap", pytest.approx(200 / 256), None)
    assert (first.words, first.full_at) == ("node-2:6700 (heap)", "")
    assert not [limit for limit in others if limit.resource == "heap"]
    together = placed(
        CHAIN, NODES, {"a[1-1]": "node-1:6700", "b[2-2]": "node-2:6700", "c[3-3]": "node-2:6700"}
    )
    first = plan_limits(together, [], [], source, RATE_TPS, NodeAmounts(worker_heap_mb=400))[0]
    assert first == PlanLimit("node-2:6700", "heap", pytest.approx(260 / 400), None)


def test_what_breaks_first_is_the_first_that_is_known_to_fill() -> None:
    source = seen({"node-2:6700": 255}, {})
    limits = plan_limits(PLAN, PREDICTED, AT_HALF, source, RATE_TPS, NodeAmounts(worker_heap_mb=256))
    assert limits[0].resource == "heap"
    first = SchedulerProposal("even", "ok", limits=limits).breaks_first
    assert first is not None
    assert (first.words, first.full_at) == ("node-1 (cpu)", ", full at 75 messages/s")
    assert SchedulerProposal("even", "ok", limits=limits[:1]).breaks_first is None


@pytest.mark.parametrize(
    ("tuple_bytes", "link_bytes_s", "shares"),
    [
        # 20 tuples of 30 bytes for each message leave node-1; at 50 messages/s that is 30,000 bytes/s
        ({"b": 30.0}, 40_000.0, {"node-1": 0.75}),
        ({"b": 30.0}, None, {}),
        ({"a": 30.0}, 40_000.0, {}),  # what leaves the node was never written
        ({}, 40_000.0, {}),
    ],
)
def test_a_link_has_a_limit_where_bytes_and_capacity_are_known(
    tuple_bytes: dict[str, float], link_bytes_s: float | None, shares: dict[str, float]
) -> None:
    amounts = NodeAmounts(link_bytes_s=link_bytes_s)
    found = plan_limits(PLAN, PREDICTED, AT_HALF, seen({}, tuple_bytes), RATE_TPS, amounts)
    sent = {limit.subject: limit.utilisation for limit in found if limit.resource == "sent"}
    assert sent == pytest.approx(shares)
