"""Send queues. Expected: the queue simulated as 4.12.1 describes it, limits, and sums that must be kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.errors import ModelDeclined
from harness.models.thesis.disruptor_batches import (
    QueueSettings,
    batch_size,
    batches,
    delivery_interval_ms,
    queue_settings,
    send_delay_ms,
)


def simulated_batches(rate, queue, flushes=40_000) -> tuple[float, float, float]:
    """Mean size, interval between and duration of batches with something in them, by drawing arrivals."""
    rng = np.random.default_rng(2)
    gaps = rng.exponential(1 / rate, (flushes, queue.limit)).cumsum(axis=1)
    full = gaps[:, -1] <= queue.flush_ms
    arrived = (gaps <= queue.flush_ms).sum(axis=1)
    duration = np.where(full, gaps[:, -1], queue.flush_ms)
    used = arrived > 0
    return float(arrived[used].mean()), float(duration.sum() / used.sum()), float(duration[used].mean())


@pytest.mark.parametrize(("rate", "limit"), [(0.5, 100), (3.0, 100), (3.0, 4), (20.0, 4), (9.0, 10)])
def test_batches_by_drawing_arrivals(rate, limit) -> None:
    queue = QueueSettings(limit=limit, flush_ms=1.0)
    size, every, lasting = simulated_batches(rate, queue)
    at = np.array([rate])
    assert batch_size(at, queue)[0] == pytest.approx(size, rel=0.02)  # eq. 4.25
    assert delivery_interval_ms(at, queue)[0] == pytest.approx(every, rel=0.02)  # eq. 4.23
    assert send_delay_ms(at, queue)[0] == pytest.approx(lasting / 2, rel=0.02)  # eq. 4.35, 4.36 as mended


def test_the_wait_at_low_rates_is_half_the_flush_interval_and_not_what_is_printed() -> None:
    queue = QueueSettings(limit=100, flush_ms=1.0)
    rate = 50 / 1000  # 50 tuples/s
    assert send_delay_ms(np.array([rate]), queue)[0] == pytest.approx(0.5)
    printed = 1.0 * sum(rate**j / np.prod(np.arange(1, j + 1)) * np.exp(-rate) for j in range(1, 20)) / 2
    assert printed == pytest.approx(
        0.0244, abs=1e-4
    )  # model-notes: eq. 4.35 drops P0 instead of conditioning


def test_nothing_sent_waits_for_nothing() -> None:
    queue = QueueSettings()
    assert batch_size(np.zeros(1), queue)[0] == 0.0
    assert send_delay_ms(np.zeros(1), queue)[0] == 0.0


@given(st.floats(1e-6, 1e5), st.integers(1, 200), st.floats(0.01, 100))
def test_batches_hold_between_one_and_the_limit(rate, limit, flush_ms) -> None:
    queue = QueueSettings(limit, flush_ms)
    size = batch_size(np.array([rate]), queue)[0]
    assert 1 - 1e-9 <= size <= limit * (1 + 1e-9)
    assert 0 <= send_delay_ms(np.array([rate]), queue)[0] <= flush_ms / 2 * (1 + 1e-9)


RATES = arrays(np.float64, (6, 6), elements=st.one_of(st.just(0.0), st.floats(0.001, 20)))


@given(RATES, st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_list_sizes_have_the_floor_of_5_6(rate, workers) -> None:
    worker = np.unique(workers, return_inverse=True)[1]
    found = batches(rate, worker, QueueSettings(10, 1.0))
    assert (found.list_size >= 1).all()
    remote = worker[:, None] != worker[None, :]
    sends = np.array([(rate * remote)[worker == w].sum() > 0 for w in range(worker.max() + 1)])
    assert ((found.worker_send_ms > 0) == sends).all()


def test_one_local_sender_passes_its_batches_on_whole() -> None:
    rate = np.array([[0.0, 5.0], [0.0, 0.0]])
    queue = QueueSettings(100, 1.0)
    found = batches(rate, np.array([0, 0]), queue)
    assert found.list_size[1] == pytest.approx(batch_size(np.array([5.0]), queue)[0])  # eq. 4.26 with G = 1


def test_one_remote_sender_is_batched_twice() -> None:
    rate = np.array([[0.0, 5.0], [0.0, 0.0]])
    queue = QueueSettings(100, 1.0)
    size = batch_size(np.array([5.0]), queue)[0]  # tuples in a map (M)
    maps = batch_size(np.array([5.0 / size]), queue)[0]  # maps in a worker's batch, eq. 4.27
    found = batches(rate, np.array([0, 1]), queue)
    assert found.list_size[1] == pytest.approx(size * maps)  # eq. 4.31, everything goes to one executor
    assert found.worker_send_ms[0] == pytest.approx(send_delay_ms(np.array([5.0 / size]), queue)[0])
    assert found.worker_send_ms[1] == 0.0


def test_settings_have_storm_1_2_2_defaults_and_refuse_nonsense() -> None:
    assert queue_settings({}) == QueueSettings(100, 1.0)
    given_ = {"topology.disruptor.batch.size": 10, "topology.disruptor.batch.timeout.millis": 1000}
    assert queue_settings(given_) == QueueSettings(10, 1000.0)
    for wrong in (0, -1, "many", True, float("nan"), 1.5):
        with pytest.raises(ModelDeclined, match=r"topology\.disruptor\.batch\.size"):
            queue_settings({"topology.disruptor.batch.size": wrong})
