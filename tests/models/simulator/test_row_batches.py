"""Batches of the rewriting layer as the simulator plays them: waits by hand, rows together, none left behind.

Messages come at random to one spout task and go to one task: with N(t) of them in a time t, a batch of at
most b that waits V has E[B] = sum over m < b of P(N(V) >= m) tuples, and by the integral of what waits over
time a tuple waits sum over n < b - 1 of (n + 1) P(N(V) > n) / rate / E[B].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from analytic_networks import network, query_plan
from scipy import stats
from synthetic import deploy

from harness.errors import ModelDeclined
from harness.models.network import Network
from harness.models.simulator import simulate
from harness.models.solver.solve import solve
from harness.plans import BatchSize


def pair(rate_tps: float, batch: BatchSize, tasks: int = 1) -> Network:
    plan = deploy(query_plan([("spout", "sink")], tasks), 1, nodes=1, workers_per_node=1, ackers=1)
    made = network(plan, rate_tps, hops_ms=(0.25, 0.25, 0.25))
    return replace(made, row_batches=dict.fromkeys(plan.query_plan.streams, batch))


def waits_by_hand(rate: float, size: int, flush_ms: float) -> float:
    n = np.arange(size - 1)
    tuples = 1 + stats.poisson.sf(n, rate * flush_ms).sum()
    return float(((n + 1) * stats.poisson.sf(n, rate * flush_ms)).sum() / rate / tuples)


@pytest.mark.parametrize(("rate_tps", "size", "flush_ms"), [(100, 10, 50), (1000, 20, 5), (400, 4, 50)])
def test_a_tuple_waits_as_long_as_by_hand(rate_tps: float, size: int, flush_ms: int) -> None:
    run = simulate(pair(rate_tps, BatchSize(size=size, flush_ms=flush_ms)), 20_000 / rate_tps, 2.0, 1)
    waited = run.latencies.ground_truth_ms.mean() - 0.25
    assert waited == pytest.approx(waits_by_hand(rate_tps / 1000, size, flush_ms), rel=0.04)


def test_batches_fill_by_receiving_task_and_their_rows_arrive_together() -> None:
    run = simulate(pair(800, BatchSize(size=5, flush_ms=1000), tasks=4), 10.0, 2.0, 1)
    sink = run.world.components["sink"] == 1
    visits = run.visits[sink[run.world.tasks["component"][run.visits["task"]]]]
    parents = run.visits["task"][visits["parent"]]
    for receiver in np.unique(visits["task"]):
        for sender in np.unique(parents):
            mine = visits[(visits["task"] == receiver) & (parents == sender)]
            _, rows = np.unique(mine["queued"], return_counts=True)
            assert (rows[:-1] == 5).all()  # the last one may have been flushed
    assert np.isfinite(visits["queued"]).all()


def test_what_is_not_played_or_solved_is_declined() -> None:
    batched = pair(100, BatchSize(size=5))
    with pytest.raises(ModelDeclined, match="beside Storm's own"):
        simulate(replace(batched, batch=10, flush_ms=1.0), 1.0, 0.0, 1)
    with pytest.raises(ModelDeclined, match="are not solved"):
        solve(batched)
