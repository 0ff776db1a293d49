"""Coldness: bounded, smaller the more happens, and none more in the plan that was observed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import SETTINGS, Truth, deploy, fields_to_fields, observation

from harness.models.composite.plan.coldness import COLD_MS, SIZE, WORKER_MS, cold_ms
from harness.models.composite.plan.network_builder import NetworkBuilder
from harness.models.composite.proposal import prepare
from harness.models.contract.layout import lay_out

RATES = st.lists(st.floats(0.01, 1000), min_size=1, max_size=8).map(np.array)
SHARES = st.floats(0.01, 1)


@given(cpu_ms=st.floats(0.01, 10), own_tps=RATES, first=SHARES, others_tps=st.floats(0, 1000))
def test_the_more_happens_the_warmer(
    cpu_ms: float, own_tps: np.ndarray, first: float, others_tps: float
) -> None:
    """Coldness goes with the share of tuples that executors begin with; a busier worker has less."""
    worker_tps = own_tps.sum() + others_tps
    starts_tps = first * own_tps
    worker = np.full(own_tps.size, worker_tps)
    here_ms = cold_ms(cpu_ms, starts_tps, own_tps, worker)
    assert 0 < here_ms < first * COLD_MS * cpu_ms**SIZE
    assert cold_ms(cpu_ms, starts_tps / 2, own_tps, worker) == pytest.approx(here_ms / 2)
    assert cold_ms(cpu_ms, starts_tps, own_tps, 2 * worker) < here_ms
    assert cold_ms(2 * cpu_ms, starts_tps, own_tps, worker) == pytest.approx(2**SIZE * here_ms)


def test_distance_that_halves_it() -> None:
    each, none = np.full(2, 5.0), np.zeros(2)
    assert cold_ms(1.0, each, each, none) == pytest.approx(COLD_MS)
    assert cold_ms(1.0, each, each, np.full(2, 1000 / WORKER_MS)) == pytest.approx(COLD_MS / 2)


@given(own_tps=RATES)
def test_no_tuple_starts_more_than_one_executor(own_tps: np.ndarray) -> None:
    none = np.zeros(own_tps.size)
    assert cold_ms(1.0, 3 * own_tps, own_tps, none) == pytest.approx(COLD_MS)


def test_an_executor_counts_by_its_tuples() -> None:
    """One that gets next to nothing is cold, and hardly any tuple sees it."""
    both, one = np.array([1000.0, 1e-6]), np.array([1000.0])
    busy = cold_ms(1.0, one / 2, one, np.zeros(1))
    assert cold_ms(1.0, np.array([500.0, 1e-6]), both, np.zeros(2)) == pytest.approx(busy)


def test_cpu_of_a_tuple_is_the_observed_one_in_its_own_plan_and_more_where_it_is_spread() -> None:
    rate_tps = 50.0
    one, four = (deploy(fields_to_fields(), n) for n in (1, 4))
    truth = Truth.random(one.query_plan, rate_tps, seed=1)
    prepared = prepare(observation(one, truth))
    assert NetworkBuilder(prepared, lay_out(one), SETTINGS, rate_tps).colder == pytest.approx(
        dict.fromkeys(("bolt-a", "bolt-b", "sender"), 1.0)
    )
    spread = NetworkBuilder(prepared, lay_out(four), SETTINGS, rate_tps)
    for name, factor in spread.colder.items():
        own_ms = prepared.demand[name].total_cpu_ms
        assert factor == pytest.approx(1 + (spread.cold_ms[name] - prepared.cold_ms[name]) / own_ms)
        assert factor > 1
