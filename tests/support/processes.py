"""Streams of messages whose true mean latency is known, on which the statistics are tried."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import binom

Floats = NDArray[np.float64]
Stream = tuple[Floats, Floats]

PLAIN_MEAN_MS = 20.0
EVEN_SHARES = np.arange(16, 0, -1) / 136
RARE_SHARES = np.array([22.5, 16, 13, 11, 9, 7, 5.5, 4.5, 3.5, 2.5, 2, 1.5, 1, 0.5, 0.4, 0.1]) / 100
"""The rarest of 16 keys is 0.1 %: at 500 tuples/s a window of 10 takes it 20 s to fill."""


def independent(rng: np.random.Generator, rate_tps: float, length_s: float, cv: float = 0.5) -> Stream:
    """Poisson arrivals, gamma latencies of mean 20 ms, nothing in common between messages."""
    times = np.sort(rng.uniform(0, length_s, rng.poisson(rate_tps * length_s)))
    return times, PLAIN_MEAN_MS * rng.gamma(1 / cv**2, cv**2, times.size)


def correlated(rng: np.random.Generator, rate_tps: float, length_s: float, constant_s: float) -> Stream:
    """As `independent`, with half of the variance in a level (first-order autoregression in time)."""
    times, latency = independent(rng, rate_tps, length_s, cv=0.35)
    step_s = 0.1
    keep = np.exp(-step_s / constant_s)
    settle = int(10 * constant_s / step_s)
    shocks = rng.normal(size=int(length_s / step_s) + 1 + settle) * np.sqrt(1 - keep**2)
    level = lfilter([1.0], [1.0, -keep], shocks)[settle:]
    sigma = 0.35
    return times, latency * np.exp(sigma * level[(times / step_s).astype(int)] - sigma**2 / 2)


def windowed(
    rng: np.random.Generator,
    rate_tps: float,
    length_s: float,
    shares: Floats,
    length: int = 10,
    before_s: float = 40.0,
) -> Stream:
    """Members of tumbling count windows by key, by arrival: all members of a window at once.

    The windows have been filling for ``before_s`` already and begin in any state. A member waits for
    those of its key that follow it, (length - 1) / 2 on average, so the mean over members is
    (length - 1) / 2 * keys / rate.
    """
    n = rng.poisson(rate_tps * (length_s + before_s))
    times = np.sort(rng.uniform(-before_s, length_s, n))
    keys = rng.choice(shares.size, n, p=shares)
    arrivals, latencies = [], []
    for key in range(shares.size):
        own = times[keys == key][rng.integers(length) :]
        windows = own[: own.size // length * length].reshape(-1, length)
        arrivals.append(np.repeat(windows[:, -1], length))
        latencies.append(((windows[:, -1:] - windows) * 1e3).ravel())
    arrived, latency = np.concatenate(arrivals), np.concatenate(latencies)
    order = np.argsort(arrived, kind="stable")
    order = order[arrived[order] >= 0]
    return arrived[order], latency[order]


def windowed_mean_ms(rate_tps: float, keys: int, length: int = 10) -> float:
    """Return the true mean of `windowed`."""
    return 1e3 * (length - 1) / 2 * keys / rate_tps


def at_most(share: float, trials: int) -> int:
    """Return what a share of that size exceeds in fewer than one of 10,000 runs."""
    return int(binom.ppf(1 - 1e-4, trials, share))


def at_least(share: float, trials: int) -> int:
    """Return what a share of that size falls below in fewer than one of 10,000 runs."""
    return int(binom.ppf(1e-4, trials, share))
