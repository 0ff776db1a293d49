"""Messages that batches make of a plan's tuples: by hand, and as the simulator plays them.

A batch that leaves b tuples at most, or a time T after its first, has 1 + sum over n < b - 1 of P(N > n), N
Poisson with the tuples expected in T (the sum of ``tests/models/simulator/test_row_batches.py``).
"""

from __future__ import annotations

import numpy as np
import pytest
from analytic_networks import network, query_plan
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from synthetic import component, deploy, stream

from harness.models.composite.plan.flows import Flows
from harness.models.composite.plan.row_batches import mean_rows, messages
from harness.models.contract.layout import lay_out
from harness.models.simulator import simulate
from harness.plans import BatchSize, QueryPlan

PAIR = QueryPlan(name="pair", components=(component("spout", 4), component("sink", 2)),
                 streams=(stream("spout", "sink"),))  # fmt: skip


@given(expected=st.floats(0.0, 500.0), size=st.integers(2, 200))
def test_rows_of_a_batch_are_the_sum_by_hand(expected: float, size: int) -> None:
    by_hand = 1 + stats.poisson.sf(np.arange(size - 1), expected).sum()
    assert mean_rows(np.array([expected]), size) == pytest.approx([by_hand], rel=1e-9)


def test_each_sending_task_has_a_batch_for_each_receiving_one() -> None:
    """Tasks 0 and 1 of the first executor get 30 and 10 a second, 3 of 4 go to the sink's first task."""
    layout = lay_out(deploy(PAIR, {"spout": 2, "sink": 1}, ackers=0))
    (way,) = PAIR.streams
    assert layout.membership["spout"].tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    come = {"spout": np.array([30.0, 10.0, 0.0, 0.0]), "sink": np.array([30.0, 10.0])}
    rows = np.tile([0.75, 0.25], (2, 1))
    made = {way: np.array([40.0, 0.0])}
    flows = Flows({"spout": [], "sink": [way]}, {way: rows}, come, {way: np.array([40.0])}, made)
    found = messages(layout, flows, {way: BatchSize(size=2, flush_ms=100)})[way]
    boxes = np.array([[22.5, 7.5], [7.5, 2.5]])
    by_hand = (boxes / (2 - np.exp(-boxes * 0.1))).sum(axis=0)  # a batch of two is one row more if one comes
    assert found == pytest.approx(np.array([by_hand, [0.0, 0.0]]))


@pytest.mark.deep
@pytest.mark.parametrize(("rate_tps", "size", "flush_ms"), [(200, 5, 20), (1000, 20, 10), (50, 10, 500)])
def test_the_simulator_sends_as_many(rate_tps: float, size: int, flush_ms: int) -> None:
    plan = deploy(query_plan([("spout", "sink")], 1), 1, nodes=1, workers_per_node=1, ackers=1)
    (way,) = plan.query_plan.streams
    rule = BatchSize(size=size, flush_ms=flush_ms)
    made = network(plan, rate_tps, hops_ms=(0.25, 0.25, 0.25))
    run = simulate(type(made)(**{**made.__dict__, "row_batches": {way: rule}}), 10_000 / rate_tps, 0.0, 1)
    sinks = run.visits[run.visits["parent"] >= 0]
    batches = np.unique(sinks["queued"]).size
    expected = mean_rows(np.array([rate_tps * flush_ms / 1000]), size)[0]
    assert sinks.size / batches == pytest.approx(expected, rel=4 / np.sqrt(batches))
