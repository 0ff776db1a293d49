"""The executor's queue against M/M/1, M^X/M/1, the balance equations solved by brute force, and the thesis's
own event simulation (appendix B.3, algorithms 4 to 6)."""

from __future__ import annotations

import numpy as np
import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import spsolve

from harness.models.thesis.executor_queue import mean_sojourn_ms


def by_balance(list_rate, size, service_ms, limit, flush_ms, most) -> float:
    """Mean of the chain (lists in the batch, tuples beyond), cut at ``most``, over the arrival rate."""
    rows, columns, rates = [], [], []

    def add(b, u, b2, u2, rate) -> None:
        here, there = b * (most + 1) + u, b2 * (most + 1) + min(u2, most)
        rows.extend([there, here])
        columns.extend([here, here])
        rates.extend([rate, -rate])

    for b in range(limit):
        for u in range(most + 1):
            add(b, u, *((b + 1, u) if b + 1 < limit else (0, u + limit * size)), list_rate)
            if b:
                add(b, u, 0, u + b * size, 1 / flush_ms)
            if u:
                add(b, u, b, u - 1, 1 / service_ms)
    n = limit * (most + 1)
    q = coo_matrix((rates, (rows, columns)), shape=(n, n)).tolil()
    q[0, :] = 1.0
    right = np.zeros(n)
    right[0] = 1.0
    p = spsolve(q.tocsc() + 0 * identity(n, format="csc"), right).reshape(limit, most + 1)
    lists, beyond = p.sum(axis=1) @ np.arange(limit), p.sum(axis=0) @ np.arange(most + 1)
    return float((lists * size + beyond) / (list_rate * size))


def by_events(list_rate, size, service_ms, limit, flush_ms, events, seed) -> float:
    """Appendix B.3 event by event; the population is the one an arriving list finds."""
    rng = np.random.default_rng(seed)
    rates = np.array([list_rate, 1 / flush_ms, 1 / service_ms])
    kinds = rng.choice(3, size=events, p=rates / rates.sum())
    batch = beyond = seen = arrivals = lists = 0
    for kind in kinds:
        if kind == 0:
            seen += batch + beyond
            arrivals += 1
            batch += size
            lists += 1
            if lists >= limit:
                beyond, batch, lists = beyond + batch, 0, 0
        elif kind == 1:
            beyond, batch, lists = beyond + batch, 0, 0
        elif beyond:
            beyond -= 1
    return seen / arrivals / (list_rate * size)


@given(st.floats(0.01, 0.95), st.floats(0.01, 10.0))
def test_batches_of_one_list_are_an_mm1_queue(load, service_ms) -> None:
    expected = service_ms / (1 - load)  # 1 / (mu - lambda)
    assert mean_sojourn_ms(load / service_ms, 1.0, service_ms, limit=1, flush_ms=1.0) == pytest.approx(
        expected
    )


@given(st.floats(0.01, 0.9), st.integers(1, 20))
def test_lists_of_several_tuples_are_a_batch_arrival_queue(load, size) -> None:
    # M^X/M/1 with X = n: the system's mean is load / (1 - load) * (n + 1) / 2.
    found = mean_sojourn_ms(load / size, float(size), 1.0, limit=1, flush_ms=1.0)
    assert found == pytest.approx(load / (1 - load) * (size + 1) / 2 / load)


@pytest.mark.parametrize(
    ("list_rate", "size", "service_ms", "flush_ms"),
    [(0.1, 1, 0.1, 1.0), (0.5, 1, 1.0, 1.0), (0.3, 2, 1.0, 1.0), (0.2, 1, 2.0, 3.0), (0.05, 3, 1.0, 5.0)],
)
def test_the_recursion_solves_the_balance_equations(list_rate, size, service_ms, flush_ms) -> None:
    ratio = list_rate / (list_rate + 1 / flush_ms)
    limit = int(np.ceil(np.log(1e-11) / np.log(ratio)))  # so long that no batch fills
    expected = by_balance(list_rate, size, service_ms, limit, flush_ms, most=120)
    assert mean_sojourn_ms(list_rate, size, service_ms, limit, flush_ms) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("list_rate", "size", "service_ms", "limit", "flush_ms"),
    [(0.5, 1, 1.0, 2, 1.0), (0.7, 1, 1.0, 5, 4.0), (0.2, 3, 1.0, 4, 20.0), (0.8, 1, 1.0, 10, 1000.0)],
)
def test_full_batches_are_simulated_close_to_the_balance(
    list_rate, size, service_ms, limit, flush_ms
) -> None:
    expected = by_balance(list_rate, size, service_ms, limit, flush_ms, most=250)
    assert mean_sojourn_ms(list_rate, size, service_ms, limit, flush_ms) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("list_rate", "size", "limit", "flush_ms"), [(0.4, 1, 100, 1.0), (0.2, 3, 4, 10.0)])
def test_the_mean_is_that_of_the_thesis_simulation(list_rate, size, limit, flush_ms) -> None:
    simulated = by_events(list_rate, size, 1.0, limit, flush_ms, 400_000, seed=7)
    assert mean_sojourn_ms(list_rate, size, 1.0, limit, flush_ms) == pytest.approx(simulated, rel=0.04)


def test_lists_of_a_mixed_size_lie_between_the_whole_sizes() -> None:
    def at(size: float) -> float:  # the same tuples a millisecond in lists of different sizes
        return mean_sojourn_ms(0.6 / size, size, 1.0, 100, 1.0)

    assert at(1.0) < at(1.5) < at(2.0)
    assert at(1.0 + 1e-9) == pytest.approx(at(1.0))
    assert at(2.0 - 1e-9) == pytest.approx(at(2.0))


@settings(max_examples=budget(30))
@given(st.floats(0.001, 0.9), st.floats(0.001, 0.9), st.floats(0.1, 2.0), st.integers(1, 200))
def test_more_arrivals_never_shorten_the_queue_beyond_the_batch(load, other, flush_ms, limit) -> None:
    low, high = sorted((load, other))
    population = [mean_sojourn_ms(x, 1.0, 1.0, limit, flush_ms) * x for x in (low, high)]
    assert population[0] <= population[1] * 1.05  # the simulated regime is within a few per cent


def test_at_low_rates_a_tuple_waits_a_whole_exponential_flush() -> None:
    assert mean_sojourn_ms(1e-6, 1.0, 0.1, 100, 1.0) == pytest.approx(1.1, rel=1e-4)


def test_no_service_leaves_the_wait_for_the_batch() -> None:
    assert mean_sojourn_ms(0.2, 1.0, 0.0, 100, 1.0) == pytest.approx(1.0)


def test_the_seed_decides_and_an_overload_has_no_mean() -> None:
    same = [mean_sojourn_ms(0.8, 1.0, 1.0, 3, 10.0, seed=s) for s in (1, 1, 2)]
    assert same[0] == same[1] != same[2]
    with pytest.raises(ValueError, match="load 1"):
        mean_sojourn_ms(1.0, 1.0, 1.0, 100, 1.0)
