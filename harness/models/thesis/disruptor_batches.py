"""Sizes of the tuple lists that arrive at executors, and the delays of Disruptor send queues.

Thesis 4.12, 4.13.2 and 4.13.3 describe Storm 1.2. There every send queue collects an input batch until the
batch holds ``limit`` objects or the queue's flush interval ends. Storm 2.x has no such queue. Rates here are
in tuples per millisecond, so that they go with a flush interval in milliseconds.

Printing errors mended, each marked at its line: eq. 4.24, 4.33 and 4.35 with 4.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import pdtr, pdtrc

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, IntArray

DISRUPTOR_BATCH_SIZE = 100
"""Storm 1.2.2's default of ``topology.disruptor.batch.size``."""
DISRUPTOR_FLUSH_MS = 1.0
"""Storm 1.2.2's default of ``topology.disruptor.batch.timeout.millis``."""


@dataclass(frozen=True)
class QueueSettings:
    """Input batch limit (k, objects) and flush interval (delta) of the Disruptor queues."""

    limit: int = DISRUPTOR_BATCH_SIZE
    flush_ms: float = DISRUPTOR_FLUSH_MS


def queue_settings(storm: Mapping[str, object]) -> QueueSettings:
    """Read the Disruptor settings, with Storm 1.2.2's defaults where the cluster has none.

    Raises
    ------
    ModelDeclined
        When a setting is not a positive number.
    """
    limit = _positive(storm, "topology.disruptor.batch.size", DISRUPTOR_BATCH_SIZE)
    if not limit.is_integer():
        raise ModelDeclined(f"Storm setting topology.disruptor.batch.size is {limit:g}, not a whole number")
    flush_ms = _positive(storm, "topology.disruptor.batch.timeout.millis", DISRUPTOR_FLUSH_MS)
    return QueueSettings(int(limit), flush_ms)


def _positive(storm: Mapping[str, object], key: str, default: float) -> float:
    value = storm.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ModelDeclined(f"Storm setting {key} is {value!r}, not a positive number")
    return float(value)


def empty_probability(rate: FloatArray, flush_ms: float) -> FloatArray:
    """Return the probability that nothing arrives in a flush interval.

    Eq. 4.24 prints P(k in x) without the factor x^k; at k = 0 it makes no difference.
    """
    return np.exp(-rate * flush_ms)  # eq. 4.24, mended


def delivery_interval_ms(rate: FloatArray, queue: QueueSettings) -> FloatArray:
    """Return the mean time between batches with something in them (eq. 4.23); infinite at rate 0."""
    rate, k, mean = np.asarray(rate, dtype=np.float64), queue.limit, np.asarray(rate) * queue.flush_ms
    with np.errstate(divide="ignore", invalid="ignore"):
        full = k / rate * pdtrc(k, mean)  # eq. 4.20
        flushed = queue.flush_ms * pdtr(k - 1, mean)  # eq. 4.21 and the first term of 4.22
        every = (full + flushed) / -np.expm1(-mean)  # eq. 4.23
    return np.where(rate > 0, every, np.inf)


def batch_size(rate: FloatArray, queue: QueueSettings) -> FloatArray:
    """Return the mean number of objects in a batch (eq. 4.25); 0 at rate 0.

    Examples
    --------
    >>> batch_size(np.array([1e-6, 50.0, 1e5]), QueueSettings(limit=100, flush_ms=1.0)).round(2).tolist()
    [1.0, 50.0, 100.0]
    """
    rate = np.asarray(rate, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        size = rate * delivery_interval_ms(rate, queue)  # eq. 4.12, 4.25
    return np.where(rate > 0, size, 0.0)


def send_delay_ms(rate: FloatArray, queue: QueueSettings) -> FloatArray:
    """Return the mean time an object waits in a send queue's input batch (eq. 4.35, 4.36); 0 at rate 0.

    Mended twice. The first sum of eq. 4.35 ends at k - 1 where eq. 4.20, which it cites, ends at k. And the
    equation leaves the empty interval out without conditioning on there being an object. Its text says,
    however, that an object has arrived by definition. At 50 tuples/s and 1 ms the printed equation would give
    0.024 ms. Given N >= 1 arrivals:

        E[Y | N >= 1] = (k / rate * P(N > k) + flush * P(1 <= N < k)) / (1 - P0)

    This mean tends to the flush interval at low rates, so that the wait tends to half of the interval. An
    exact mean would also weight long intervals by the objects in them; eq. 4.36 does not, and is used as
    printed.
    """
    rate, k, mean = np.asarray(rate, dtype=np.float64), queue.limit, np.asarray(rate) * queue.flush_ms
    with np.errstate(divide="ignore", invalid="ignore"):
        full = k / rate * pdtrc(k, mean)
        flushed = queue.flush_ms * (pdtr(k - 1, mean) - empty_probability(rate, queue.flush_ms))
        interval = (full + flushed) / -np.expm1(-mean)  # eq. 4.35, mended
    return np.where(rate > 0, interval / 2, 0.0)  # eq. 4.36


@dataclass(frozen=True)
class DisruptorBatches:
    """Lists and waits that the send queues make of a plan's flows; positions as in the plan's layout.

    Attributes
    ----------
    list_size : array (executors)
        Mean tuples in a list that arrives (I); 1 where nothing does.
    executor_send_ms : array (executors)
        Mean wait at the executor's send thread.
    worker_send_ms : array (workers)
        Mean wait at the worker process's send thread; 0 where it sends nothing.
    """

    list_size: FloatArray
    executor_send_ms: FloatArray
    worker_send_ms: FloatArray


def batches(rate: FloatArray, worker: IntArray, queue: QueueSettings) -> DisruptorBatches:
    """Estimate list sizes and send delays (4.12.1 to 4.12.3, 4.13.2, 4.13.3).

    Parameters
    ----------
    rate : array (executors, executors)
        Tuples per millisecond sent from one executor to another, acks included.
    worker : array of int (executors)
        The executor's worker process, numbered from 0.
    queue : QueueSettings
        Of every send queue.
    """
    out = rate.sum(axis=1)
    size = batch_size(out, queue)
    with np.errstate(invalid="ignore"):
        routing = np.where(out[:, None] > 0, rate / out[:, None], 0.0)
    lists = size[:, None] * routing  # T, eq. 4.26
    remote = worker[:, None] != worker[None, :]
    member = (np.arange(worker.max() + 1)[:, None] == worker).astype(np.float64)  # (workers, executors)

    remote_rate = np.where(remote, rate, 0.0)
    remote_lists = np.where(remote, lists, 0.0)
    map_size = remote_lists.sum(axis=1)  # M of an executor, eq. 4.28
    worker_rate = member @ remote_rate.sum(axis=1)  # eq. 4.29
    worker_map = _divide(member @ (map_size * remote_rate.sum(axis=1)), worker_rate)  # eq. 4.30
    map_rate = _divide(worker_rate, worker_map)  # eq. 4.27
    worker_batch = batch_size(map_rate, queue) * worker_map
    sent = member @ remote_lists  # (workers, executors)
    worker_lists = worker_batch[:, None] * _divide(sent, sent.sum(axis=1, keepdims=True))  # eq. 4.31

    arrived = rate.sum(axis=0)
    local_list_rate = _divide(np.where(remote, 0.0, rate), lists)  # eq. 4.32
    remote_list_rate = _divide(member @ remote_rate, worker_lists)  # eq. 4.33, lambda_ij for its lambda_ji
    list_rate = local_list_rate.sum(axis=0) + remote_list_rate.sum(axis=0)
    # eq. 4.34: each list rate times its size is a tuple rate, so the weighted mean is total over total.
    # 5.6: "the prediction has a floor of one"; a smaller mean says that most batches have no list for j.
    list_size = np.maximum(_divide(arrived, list_rate), 1.0)
    return DisruptorBatches(list_size, send_delay_ms(out, queue), send_delay_ms(map_rate, queue))


def _divide(a: FloatArray, b: FloatArray) -> FloatArray:
    """Divide, giving 0 where there is nothing to divide by."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape), where=b > 0)
