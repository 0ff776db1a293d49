"""Mean sojourn time in an executor: its Disruptor receive queue and its user logic thread.

Thesis 4.2 and appendix B.3. Tuple lists arrive, a flush timer fires and tuples are served, each at
exponential intervals (B.1). Lists collect in an input batch, which moves on when it holds ``limit`` lists or
at a flush; what has moved on is served one tuple at a time. The thesis simulates a million arrivals an
executor. Here the same process's mean is computed.

Let B be the tuples in the input batch and u those beyond it. Lists have the generating function X and arrive
at rate v, flushes come at rate f, and service is at rate m. The balance of E[x^B y^u] splits the population L
in two, the decomposition of vacation queues. One part is the population of the queue without an input batch
(M^X/M/1). The other is E[B | u = 0], the batch seen while the server idles.

Let y = m / (m + f + v (1 - X(x))), and M the generating function of the M^X/M/1 population. While no batch
ever fills, g(x) = E[x^B; u = 0] obeys

    g(x) = f / (f + v (1 - X(x))) * g(y) * M(y)

Its logarithmic derivative at 1, followed along x -> y(x) until it settles, is E[B | u = 0] exactly. Where
batches do fill, the chain of u at the ends of the batches is simulated from a fixed seed, and E[u] taken from
the balance of u^2. The chain's intervals are independent, so the recursion is a running maximum.

Two departures from the print. B.1 divides the population summed over list arrivals by the number of tuples
arrived. With lists of several tuples the result is not the population that an arrival sees, and the number of
arrivals is used. A mean list size that is not whole is met by lists of the two whole sizes next to it.

The printed timer is exponential, so at low rates a tuple waits a whole flush interval; a periodic timer,
which Storm has, would make it half. Figure 5.18 (error of 50 % for a service time of 0.4 instead of 0.1) fits
half of a 1 ms interval, 0.6 against 0.9. The figure does not fit the whole, 1.1 against 1.4. The text is
followed, not the figure.
"""

from __future__ import annotations

import math

import numpy as np

from harness.models.contract.layout import IntArray

_NEGLIGIBLE = 1e-9
"""Probability of a full batch below which it is left out of account."""
_INTERVALS = 40_000
"""Batches simulated where they do fill."""


def mean_sojourn_ms(
    list_rate: float, list_size: float, service_ms: float, limit: int, flush_ms: float, seed: int = 1
) -> float:
    """Return the mean time from a tuple's arrival at the receive queue to the end of its service.

    Parameters
    ----------
    list_rate : float
        Tuple lists arriving per millisecond, positive.
    list_size : float
        Mean tuples in a list, at least 1.
    service_ms : float
        Mean service time of one tuple.
    limit : int
        Lists that fill the input batch.
    flush_ms : float
        Mean flush interval.
    seed : int
        Of the simulation, where one is needed.

    Raises
    ------
    ValueError
        When the executor is overloaded, so that there is no mean.

    Examples
    --------
    One list fills a batch: an M/M/1 queue, 1 / (1 - 0.5).

    >>> mean_sojourn_ms(0.5, 1.0, 1.0, limit=1, flush_ms=1.0)
    2.0
    """
    tuple_rate = list_rate * list_size
    load = tuple_rate * service_ms
    if not 0 <= load < 1:
        raise ValueError(f"load {load:g} has no mean sojourn time")
    fills = (list_rate / (list_rate + 1 / flush_ms)) ** limit
    if service_ms == 0:
        population = _mean_batch(list_rate, limit, flush_ms) * list_size
    elif limit > 1 and fills > _NEGLIGIBLE:
        population = _simulated_population(list_rate, list_size, service_ms, limit, flush_ms, seed)
    else:
        _, below, slope = _lists(list_size, 1.0)
        population = list_rate * (below + slope) / (1 / service_ms - list_rate * below)
        if limit > 1:
            population += _batch_while_idle(list_rate, list_size, 1 / service_ms, 1 / flush_ms)
    return population / tuple_rate  # eq. B.1


def _lists(size: float, x: float) -> tuple[float, float, float]:
    """Return X'(x), q(x) = (1 - X(x)) / (1 - x) and q'(x) for lists of the whole sizes next to ``size``."""
    low = math.floor(size)
    powers = x ** np.arange(low + 1)
    weights = np.ones(low + 1)
    weights[low] = size - low  # x^n = 1 - (1 - x)(1 + ... + x^(n-1)), mixed over n = low and low + 1
    derivative = float(np.sum(np.arange(1, low + 1) * weights[1:] * powers[:-1]))
    q = float(weights @ powers)
    return q - (1 - x) * derivative, q, derivative


def _batch_while_idle(v: float, size: float, m: float, f: float) -> float:
    """Return E[B | u = 0] in tuples by the recursion of the module's text."""
    x, total, factor = 1.0, 0.0, 1.0
    while factor > 1e-15:
        derivative, q, _ = _lists(size, x)
        pressure = f + v * (1 - x) * q
        total += factor * v * derivative / pressure
        y = m / (m + pressure)
        factor *= y * y * v * derivative / m
        _, q, slope = _lists(size, y)
        total += factor * v * (q + y * slope) / (m - v * y * q)
        x = y
    return total


def _mean_batch(v: float, limit: int, flush_ms: float) -> float:
    """Return the mean number of lists in the input batch: geometric, cut below ``limit``."""
    r = v / (v + 1 / flush_ms)
    n = np.arange(limit)
    weight = r**n
    return float(n @ weight / weight.sum())


def _simulated_population(
    v: float, size: float, service_ms: float, limit: int, flush_ms: float, seed: int
) -> float:
    rng = np.random.default_rng(seed)
    m, f = 1 / service_ms, 1 / flush_ms
    lists: IntArray = rng.geometric(f / (v + f), _INTERVALS) - 1  # before the flush, if no batch filled
    full = lists >= limit
    lists = np.where(full, limit, lists)
    low = math.floor(size)
    moved = np.asarray(low * lists + rng.binomial(lists, size - low), dtype=np.float64)
    gaps = np.where(full, limit, lists + 1)  # events but service end an interval; services fall between them
    served = rng.negative_binomial(gaps, (v + f) / (v + f + m))
    drift = np.cumsum(moved - served)
    # U_n = max(U_(n-1) - served_n, 0) + moved_n, unrolled; U - moved is what was left before the batch came.
    left = drift + np.maximum.accumulate(np.maximum(moved - drift, 0.0)) - moved
    ends = f / (1 - (v / (v + f)) ** limit)  # batches (empty ones too) per millisecond
    square = 2 * float(np.mean(left * moved)) + float(np.mean(moved**2))
    beyond = (ends * square * service_ms + v * size * service_ms) / 2
    return _mean_batch(v, limit, flush_ms) * size + beyond
