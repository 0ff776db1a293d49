"""Routing stage. Expected numbers: thesis tables 4.1 to 4.4 and figures 4.4 to 4.7, worked there by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic import Truth, component, deploy, observation, stream

from harness.models.contract.layout import lay_out
from harness.models.contract.observe import observe
from harness.models.contract.routing import (
    copies,
    estimated_proportions,
    global_probabilities,
    keyed_probabilities,
    proportions,
    stream_output_proportions,
    stream_probabilities,
    task_routing_probabilities,
    unkeyed_probabilities,
)
from harness.plans import QueryPlan

PAIRS = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])  # two executors of two tasks each
TABLE_4_3 = np.array(
    [[0.60, 0.15, 0.05, 0.20], [0.25, 0.05, 0.40, 0.30], [0.15, 0.65, 0.05, 0.15], [0.05, 0.35, 0.20, 0.40]]
)
MTOP = np.array([0.70, 0.10, 0.15, 0.05])  # figure 4.7, tasks B9 to B12


def test_task_routing_probabilities_are_shares_of_a_tasks_output() -> None:
    counts = TABLE_4_3 * MTOP[:, None] * 10_000
    assert task_routing_probabilities(counts) == pytest.approx(TABLE_4_3)


def test_measured_and_estimated_task_output_proportions_of_figure_4_7() -> None:
    assert proportions(np.array([700.0, 100.0, 150.0, 50.0])) == pytest.approx(MTOP)
    etop = estimated_proportions(MTOP, PAIRS)
    assert etop == pytest.approx(np.array([[0.875, 0.125, 0, 0], [0, 0, 0.75, 0.25]]))


def test_table_4_4() -> None:
    counts = TABLE_4_3 * MTOP[:, None] * 10_000
    predicted = keyed_probabilities(counts, PAIRS, PAIRS)
    assert predicted.round(2).tolist() == [[0.69, 0.31], [0.70, 0.30]]


def test_tables_4_1_and_4_2() -> None:
    counts = np.array([[600.0, 200.0, 150.0, 50.0], [0.0, 0.0, 0.0, 0.0]])  # one active task, as in 4.5.1
    assert unkeyed_probabilities(counts, 2, PAIRS) == pytest.approx(np.array([[0.8, 0.2], [0.8, 0.2]]))


def test_global_probabilities_weight_streams_by_their_part_of_the_output() -> None:
    # 4.4.2: 80 % of B9-10 goes to Stream-3, whose SRPs are 0.8 and 0.2; Stream-4 has one target.
    s3, s4 = stream("b", "c", "fields", "s3"), stream("b", "d", "shuffle", "s4")
    assert stream_output_proportions(np.array([[80.0, 20.0]])) == pytest.approx(np.array([[0.8, 0.2]]))
    grp = global_probabilities(
        {s3: np.array([[0.8, 0.2]]), s4: np.array([[1.0]])}, {s3: np.array([80.0]), s4: np.array([20.0])}
    )
    assert grp[s3] == pytest.approx(np.array([[0.64, 0.16]]))
    assert grp[s4] == pytest.approx(np.array([[0.2]]))


@given(
    arrays(np.float64, (4, 6), elements=st.floats(0.01, 100)), st.permutations(range(6)), st.integers(1, 5)
)
def test_predicted_rows_sum_to_one_and_follow_the_tasks(counts, order, cut) -> None:
    targets = np.zeros((2, 6))
    targets[0, list(order[:cut])] = targets[1, list(order[cut:])] = 1
    predicted = keyed_probabilities(counts, PAIRS, targets)
    assert predicted.sum(axis=1) == pytest.approx(np.ones(2))
    # Executors' tuples are their tasks' tuples: shares computed from the raw counts agree.
    assert predicted == pytest.approx(proportions(PAIRS @ counts @ targets.T))


GROUPINGS = (
    "shuffle",
    "none",
    "all",
    "global",
    "local-or-shuffle",
    "fields",
    "partial-key",
    "direct",
    "custom",
)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_gives_probabilities(grouping) -> None:
    s = stream("a", "b", grouping)
    plan = QueryPlan(name="q", components=(component("a", 3), component("b", 5)), streams=(s,))
    truth = Truth.random(plan, 100.0, 1)
    source = observation(deploy(plan, 1), truth)
    proposed = lay_out(deploy(plan, {"a": 3, "b": 2}))
    srp = stream_probabilities(observe(source), proposed, s)
    assert srp.shape == (3, 2)
    assert srp.sum(axis=1) == pytest.approx(np.ones(3))
    assert copies(observe(source), s) == pytest.approx(5.0 if grouping == "all" else 1.0)
    if grouping == "shuffle":
        assert srp == pytest.approx(0.5)  # eq. 4.3
    if grouping in ("none", "all"):
        assert srp[0] == pytest.approx([0.6, 0.4])  # 3 and 2 of the 5 tasks
    if grouping == "global":
        assert srp[0].tolist() == [1.0, 0.0]  # the lowest task
    if grouping == "local-or-shuffle":
        here = [e.worker for e in proposed.executors[proposed.of["a"]]]
        there = [e.worker for e in proposed.executors[proposed.of["b"]]]
        for row, worker in zip(srp, here, strict=True):
            local = [w == worker for w in there]
            assert row.tolist() == ([float(x) / sum(local) for x in local] if any(local) else [0.5, 0.5])
