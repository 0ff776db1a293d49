"""Does the backlog grow: on exact counts, on simulated queues below and above a load of 1, and on windows."""

from __future__ import annotations

import numpy as np
import pytest
from processes import EVEN_SHARES, RARE_SHARES, at_most, windowed

from harness.experiments.backlog import ALPHA, backlog, done_ns

SECONDS = 60
NS = 1_000_000_000


def queue(rate_tps: float, load: float, seed: int, cv: float = 1.0, seconds: float = SECONDS + 30):
    """A single server fed by a Poisson process; times in ns of arrivals and departures, by Lindley."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / rate_tps, round(rate_tps * (seconds + 20))))  # to beyond the end
    services = rng.gamma(1 / cv**2, cv**2 * load / rate_tps, arrivals.size)
    total = np.cumsum(services)
    left = total + np.maximum.accumulate(arrivals - total + services)
    return (arrivals * NS).astype(np.int64), (left * NS).astype(np.int64)


def judged(rate_tps: float, load: float, seed: int):
    due, done = queue(rate_tps, load, seed)
    return backlog(due, done, 30 * NS, 90 * NS)


def test_counts_add_up() -> None:
    due = np.arange(0, 90 * NS, NS // 50)
    found = backlog(due, due + 3 * NS, 10 * NS, 70 * NS)
    assert found.growth_tps == 0
    assert found.throughput_tps == 50
    assert not found.saturated


def test_a_queue_that_keeps_up_is_hardly_ever_called_saturated() -> None:
    for load in (0.5, 0.9, 0.95):
        wrong = sum(judged(100, load, seed).saturated for seed in range(200))
        assert wrong <= at_most(ALPHA, 200), load


def test_an_overloaded_queue_is_saturated_and_lets_out_what_it_can() -> None:
    for load in (1.1, 1.5, 4.0):
        for seed in range(20):
            found = judged(100, load, seed)
            assert found.saturated
            assert found.throughput_tps == pytest.approx(100 / load, abs=5 * found.throughput_error_tps)
            assert found.growth_tps == pytest.approx(100 - 100 / load, abs=5 * found.growth_error_tps)


def test_windows_hold_messages_and_are_not_a_backlog() -> None:
    for shares in (EVEN_SHARES, RARE_SHARES):
        wrong = 0
        for seed in range(40):
            times, latency_ms = windowed(np.random.default_rng(seed), 500, SECONDS, shares, before_s=40)
            due = ((times - latency_ms / 1e3) * NS).astype(np.int64)
            wrong += backlog(due, (times * NS).astype(np.int64), 0, (SECONDS - 25) * NS).saturated
        assert wrong <= at_most(ALPHA, 40)


@pytest.mark.parametrize("until", [0.45, 0.5, 0.6, 2 / 3, 0.8, 0.95])
def test_a_topology_that_stops_on_the_way_is_not_saturated(until: float) -> None:
    """It keeps up until then (a load of 0.5) and nothing comes out any more: a worker hangs, say."""
    for seed in range(20):
        due, done = queue(100, 0.5, seed)
        stopped = done[done < (30 + 60 * until) * NS]
        found = backlog(due, stopped, 30 * NS, 90 * NS)
        assert found.growth_tps == pytest.approx(100 * (1 - until), rel=0.3)
        assert not found.saturated


def test_a_topology_that_stopped_and_did_not_catch_up_is_not_saturated() -> None:
    """All that is due in the first fifth comes out after the interval, the rest 10 ms late."""
    due = np.arange(0, 60 * NS, NS // 100)
    done = np.where(due < 12 * NS, due + 100 * NS, due + NS // 100)
    assert not backlog(due, done, 0, 60 * NS).saturated


@pytest.mark.parametrize("share", [0.03, 0.1, 0.5, 1.0])
def test_a_steady_growth_is_saturated_whatever_its_size(share: float) -> None:
    """A constant input, of which the same share stays in every second."""
    due = np.arange(0, 60 * NS, NS // 500)
    done = due[: round(due.size * (1 - share))] / max(1 - share, 0.1)
    found = backlog(due, done.astype(np.int64), 0, 60 * NS)
    assert found.growth_tps == pytest.approx(500 * share, rel=0.01)
    assert found.saturated


def test_nothing_that_comes_out_is_a_backlog_and_nothing_that_goes_in_is_none() -> None:
    due = np.arange(0, 60 * NS, NS // 50)
    none = np.empty(0, dtype=np.int64)
    stuck = backlog(due, none, 0, 60 * NS)
    assert stuck.saturated
    assert (stuck.growth_tps, stuck.throughput_tps) == (50, 0)
    assert not backlog(none, none, 0, 60 * NS).saturated
    with pytest.raises(ValueError, match="empty"):
        backlog(due, due, NS, NS)


def test_a_message_is_done_with_its_last_output() -> None:
    ids, left = np.array([5, 3, 5, 5]), np.array([10, 40, 30, 20])
    assert done_ns(ids, left).tolist() == [40, 30]
    assert done_ns(ids[:0], left[:0]).tolist() == []
