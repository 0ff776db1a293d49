"""I/O ratios. Expected numbers: thesis eq. 4.9's example, and coefficients put in and found again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Truth, deploy, join_split, observation

from harness.errors import ModelDeclined
from harness.models.contract.io_ratios import executor_coefficients, least_squares, mean_coefficient
from harness.models.contract.layout import Output, lay_out
from harness.models.contract.observe import observe
from harness.models.contract.routing import estimated_proportions


def test_the_example_after_equation_4_9_needs_26() -> None:
    assert np.array([1.0, 2.0, 3.0]) @ np.array([12.0, 26.0, 35.0]) == 169.0


@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=3), st.integers(0, 10_000))
def test_least_squares_find_the_coefficients_of_several_inputs(beta, seed) -> None:
    received = np.random.default_rng(seed).uniform(1, 100, (len(beta), 20))
    assert least_squares(received, np.array(beta) @ received) == pytest.approx(beta, abs=1e-6)


def test_an_input_that_received_nothing_has_no_coefficient() -> None:
    found = least_squares(np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([3.0, 6.0]))
    assert found[0] == pytest.approx(3.0)
    assert np.isnan(found[1])


def test_windows_that_close_now_and_then_average_out() -> None:
    # A window of 10 emits on every tenth tuple: 0.1 on the average, exact to about one window in all.
    received = np.random.default_rng(3).poisson(7.0, 400).astype(float)
    emitted = np.diff(np.cumsum(received) // 10, prepend=0.0)
    assert least_squares(received[None], emitted)[0] == pytest.approx(0.1, rel=0.02)


def test_keyed_executors_weight_their_tasks_by_arrivals() -> None:
    query_plan = join_split()
    truth = Truth.random(query_plan, 50.0, 5)
    measured = observe(observation(deploy(query_plan, 4), truth))
    proposed = lay_out(deploy(query_plan, 2))
    found = executor_coefficients(measured, proposed)
    for output, by_input in found.items():
        for s, value in by_input.items():
            true = truth.coefficients[output][s]
            if output.component == "join":
                etip = estimated_proportions(measured.received(s), proposed.membership["join"])
                assert value == pytest.approx(etip @ true)
            else:
                assert value == pytest.approx(np.full(2, true.mean()))


def test_nothing_arrived_is_declined_by_name() -> None:
    s = join_split().inputs("join")[0]
    with pytest.raises(ModelDeclined, match="no I/O ratio for join:stream-5"):
        mean_coefficient(np.array([np.nan, np.nan]), Output("join", "stream-5"), s)
