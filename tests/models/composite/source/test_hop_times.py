"""What a hop is made of: known ways of tuples that meet idle receivers are found again."""

from __future__ import annotations

import numpy as np
import pytest
from hop_synthetic import Leg, hop_rows, line_times
from synthetic import Truth, component, deploy, observation, stream

from harness.models.composite.idling import TRANSFER_SLEEP_MS
from harness.models.composite.source.evidence import read
from harness.models.composite.source.hop_times import (
    BETWEEN_NODES,
    BETWEEN_WORKERS,
    WITHIN,
    HopTimes,
    before_end_ms,
    hop_sums,
    hop_times,
    kinds,
)
from harness.plans import QueryPlan

SLEEP_MS = 2.06
LINE = QueryPlan(
    name="line",
    components=tuple(component(n, 1) for n in ("spout", "a", "b")),
    streams=(stream("spout", "a"), stream("a", "b")),
)


def estimated(execute_ms: float = 0.5):
    """A line of three workers whose network takes 0.3 ms plus an exponential 0.2 ms."""
    plan = deploy(LINE, 1, ackers=0)
    assert len(plan.workers) == 3
    rng = np.random.default_rng(4)
    n = 6000
    ways = [
        rng.uniform(0, SLEEP_MS, n) + rng.uniform(0, TRANSFER_SLEEP_MS, n) + 0.3 + rng.exponential(0.2, n)
        for _ in range(2)
    ]
    times = line_times(rng, n, 20.0, ways, execute_ms)
    rows = [
        (i, 0, [Leg(name, 0, *at) for name, at in zip(("spout", "a", "b"), mine, strict=True)])
        for i, mine in enumerate(times)
    ]
    truth = Truth.random(LINE, 50.0, 1)
    evidence = read(observation(plan, truth, latency=hop_rows(plan, rows)))
    sums = hop_sums(evidence, np.full(3, SLEEP_MS))
    return evidence, sums


def test_the_network_is_found_behind_the_sleeps() -> None:
    evidence, sums = estimated()
    weights = np.ones(evidence.blocks)
    assert sums is not None
    assert sums.number.sum(axis=1) == pytest.approx([0, 2 * 5999, 0])  # the first tuple has none before it
    executes = np.array([np.nan, 0.7, 0.9])  # a goes on for 0.2 ms after its emit; b sends nothing on
    found, notes = hop_times(sums, weights, SLEEP_MS, 0.0, executes)
    # mean 0.5, variance 0.04; 12,000 legs with a standard deviation of 0.7 give it to 0.006
    assert found.mean_ms[BETWEEN_WORKERS] == pytest.approx(0.5, abs=0.03)
    assert found.scv[BETWEEN_WORKERS] == pytest.approx(0.16, abs=0.12)
    assert found.mean_ms[BETWEEN_NODES] == found.mean_ms[BETWEEN_WORKERS]
    assert found.ahead_ms == pytest.approx(0.1)  # 0.2 of every second hop
    assert notes == (
        "no tuple that met an idle receiver went within a worker: what such hops take is assumed",
    )
    whole = found.hops(0.0).between_workers_ms
    assert whole.mean_ms == pytest.approx(TRANSFER_SLEEP_MS / 2 + found.mean_ms[1] - 0.1)


def test_a_sinks_way_to_the_end_is_read() -> None:
    evidence, sums = estimated(execute_ms=0.5)
    assert before_end_ms(evidence, sums, np.ones(evidence.blocks)) == pytest.approx({"b": 0.5})
    assert before_end_ms(evidence, None, np.ones(evidence.blocks)) == {}


def test_weights_of_blocks_weigh() -> None:
    evidence, sums = estimated()
    assert sums is not None
    weights = np.zeros(evidence.blocks)
    weights[0] = 1.0
    found, _ = hop_times(sums, weights, SLEEP_MS, 0.0, np.full(3, np.nan))
    block = sums.total_ms[1, 0] / sums.number[1, 0] - SLEEP_MS / 2 - TRANSFER_SLEEP_MS / 2
    assert found.mean_ms[1] == pytest.approx(block)


def test_contention_moves_a_hop_and_its_own_gives_it_back() -> None:
    times = HopTimes(np.array([0.1, 0.5, 0.5]), np.array([8.0, 2.0, 2.0]), 0.0, 0.7)
    here, calm, busy = (times.hops(e).between_workers_ms.mean_ms for e in (0.7, 0.2, 1.2))
    assert here == pytest.approx(TRANSFER_SLEEP_MS / 2 + 0.5)
    assert calm < here < busy
    assert times.hops(0.7).within_worker_ms.mean_ms == pytest.approx(0.1)


def test_without_hop_records_hops_are_assumed_and_said_so() -> None:
    found, notes = hop_times(None, np.ones(4), SLEEP_MS, 0.0, np.full(3, np.nan))
    assert found.mean_ms.tolist() == [0.02, 0.37, 0.37]
    assert notes == ("no hop records: what hops take is assumed",)


def test_kinds_of_hop() -> None:
    worker, node = np.array([0, 0, 1, 2]), np.array([0, 0, 0, 1])
    apart = kinds(worker, node, one_host=False)
    assert apart[0].tolist() == [WITHIN, WITHIN, BETWEEN_WORKERS, BETWEEN_NODES]
    assert kinds(worker, node, one_host=True)[0].tolist() == [
        WITHIN,
        WITHIN,
        BETWEEN_WORKERS,
        BETWEEN_WORKERS,
    ]
