"""Coldness: bounded, smaller the more happens, and none more in the plan that was observed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import SETTINGS, Truth, deploy, fields_to_fields, observation

from harness.models.coldness import COLD_MS, OWN_MS, WORKER_MS, cold_ms
from harness.models.layout import lay_out
from harness.models.plan_network import Builder
from harness.models.proposal import prepare

RATES = st.lists(st.floats(0.01, 1000), min_size=1, max_size=8).map(np.array)


@given(own_tps=RATES, others_tps=st.floats(0, 1000))
def test_the_more_happens_the_warmer(own_tps: np.ndarray, others_tps: float) -> None:
    worker_tps = own_tps + others_tps
    here_ms = cold_ms(own_tps, worker_tps)
    assert 0 < here_ms < COLD_MS
    assert cold_ms(2 * own_tps, worker_tps) < here_ms
    assert cold_ms(own_tps, 2 * worker_tps) < here_ms


def test_distances_that_halve_it() -> None:
    none = np.zeros(2)
    assert cold_ms(np.full(2, 1000 / OWN_MS), none) == pytest.approx(COLD_MS / 2)
    assert cold_ms(none, np.full(2, 1000 / WORKER_MS)) == pytest.approx(COLD_MS / 2)


def test_an_executor_counts_by_its_tuples() -> None:
    """One that gets next to nothing is cold, and hardly any tuple sees it."""
    busy = np.array([1000.0])
    assert cold_ms(np.array([1000.0, 1e-6]), np.zeros(2)) == pytest.approx(cold_ms(busy, np.zeros(1)))


def test_cpu_of_a_tuple_is_the_observed_one_in_its_own_plan_and_more_where_it_is_spread() -> None:
    rate_tps = 50.0
    one, four = (deploy(fields_to_fields(), n) for n in (1, 4))
    truth = Truth.random(one.query_plan, rate_tps, seed=1)
    prepared = prepare(observation(one, truth))
    assert Builder(prepared, lay_out(one), SETTINGS, rate_tps).colder == pytest.approx(
        dict.fromkeys(("bolt-a", "bolt-b", "sender"), 1.0)
    )
    spread = Builder(prepared, lay_out(four), SETTINGS, rate_tps)
    for name, factor in spread.colder.items():
        own_ms = prepared.demand[name].total_cpu_ms
        assert factor == pytest.approx(1 + (spread.cold_ms[name] - prepared.cold_ms[name]) / own_ms)
        assert factor > 1
